package compaction_test

import (
	"context"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// packed returns an open index of these documents after a compaction.
func packed(t *testing.T, docs []index.Document) *index.Index {
	t.Helper()
	ctx, opts := context.Background(), index.Options{FS: vfs.NewMem(), Durability: index.NoSync}
	x := openIndex(t, "ix", opts)
	if err := x.Add(ctx, docs...); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := compaction.Run(ctx, "ix", compaction.Options{FS: opts.FS}); err != nil {
		t.Fatal(err)
	}
	return openIndex(t, "ix", opts)
}

func queried(t *testing.T, x *index.Index, fp fingerprint.Fingerprint) (ids []uint64) {
	t.Helper()
	matches, err := x.Query(context.Background(), fp)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range matches {
		ids = append(ids, m.ID)
	}
	return ids
}

// TestLiveChangesOfPackedBareDocuments: where nothing has a record and nothing live is
// near, the documents of what another packed table finds may still have changed.
func TestLiveChangesOfPackedBareDocuments(t *testing.T) {
	const fp = fingerprint.Fingerprint(0x0123456789abcdef)
	ctx := context.Background()
	x := packed(t, []index.Document{{Fingerprint: fp}, {Fingerprint: fp}, {Fingerprint: ^fp}})
	if _, err := x.DeleteIDs(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := x.Add(ctx, index.Document{Fingerprint: fp}); err != nil {
		t.Fatal(err)
	}
	for flips := fingerprint.Fingerprint(7); flips != 0; flips <<= 1 { // beyond the prefix of each table in turn
		for _, flipped := range []fingerprint.Fingerprint{0, flips & -flips, flips} {
			if got := queried(t, x, fp^flipped); !slices.Equal(got, []uint64{2, 4}) {
				t.Fatalf("with the bits %016x flipped: documents %v, not 2 and 4", flipped, got)
			}
		}
	}
}

// TestPackedPostingIsWrittenWhole: a packed posting that changes so often that what is
// live of it is written whole has lost what was removed, and nothing else.
func TestPackedPostingIsWrittenWhole(t *testing.T) {
	const fp, n, removed = fingerprint.Fingerprint(0x0123456789abcdef), 1000, 400
	ctx := context.Background()
	docs := make([]index.Document, n)
	var left []uint64
	for i := range docs {
		docs[i] = index.Document{Key: string(rune('a' + i)), Fingerprint: fp}
		if i >= removed {
			left = append(left, uint64(i+1))
		}
	}
	x := packed(t, docs)
	for i := range removed {
		if deleted, err := x.Delete(ctx, docs[i].Key); err != nil || deleted != 1 {
			t.Fatal(i, deleted, err)
		}
	}
	if got := queried(t, x, fp); !slices.Equal(got, left) {
		t.Errorf("%d documents are left, not %d", len(got), len(left))
	}
	for p := range x.Verify(ctx) {
		t.Error(p)
	}
}
