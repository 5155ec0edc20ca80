package compaction_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// The tests in this file stop, fail or truncate one step of a checkpoint, a compaction or a load.
// They compare the documents and the answers before and after.

// randomDocuments returns n documents that are far from each other. Of three documents, two have
// keys.
func randomDocuments(r *rand.Rand, n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
		if i%3 != 0 {
			docs[i].Key = fmt.Sprintf("%d/%x", i, r.Uint64())
		}
	}
	return docs
}

// contentsOf returns the documents of an index by ID, and verifies the index.
func contentsOf(t testing.TB, x *index.Index) map[uint64]string {
	t.Helper()
	all := make(map[uint64]string)
	for d, err := range x.Documents(context.Background()) {
		must(t, err)
		all[d.ID] = fmt.Sprintf("%q %v", d.Key, d.Fingerprint)
	}
	if n := x.Stats().Documents; n != uint64(len(all)) {
		t.Errorf("the index has %d documents and counts %d", len(all), n)
	}
	for problem := range x.Verify(context.Background(), index.VerifyOptions{}) {
		t.Errorf("Verify: %v", problem)
	}
	return all
}

// hookFS calls before for each operation that changes files.
func hookFS(fs vfs.FS, before func(op errorfs.Op) error) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		return before(op)
	}))
}

// TestCheckpointBetweenTwoCompactions makes a checkpoint with the files from before a compaction.
// Its log extends until the next compaction has frozen its epoch, which uses the same keyspace as
// the first.
func TestCheckpointBetweenTwoCompactions(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	docs := randomDocuments(r, 20)
	// copies of equal fingerprints, for each epoch
	inEpoch := func(n int) (copies []index.Document) {
		for i, d := range docs {
			copies = append(copies, index.Document{Key: fmt.Sprintf("%d in epoch %d", i, n),
				Fingerprint: d.Fingerprint})
		}
		return copies
	}
	var packing, installing, copying func()
	once := func(f *func()) {
		if call := *f; call != nil {
			*f = nil
			call()
		}
	}
	mem := vfs.NewMem()
	x, err := index.Open(
		"ix", &index.Options{Durability: index.NoSync, FS: hookFS(mem, func(op errorfs.Op) error {
			switch {
			case op.Kind == errorfs.OpCreate && strings.HasPrefix(op.Path, "ix/incoming/"):
				once(&packing)
			case op.Kind == errorfs.OpLink && strings.HasPrefix(op.Path, "ix/incoming/"):
				once(&installing)
			case strings.HasPrefix(op.Path, "copy"):
				once(&copying)
			}
			return nil
		})})
	must(t, err, x.Add(ctx, inEpoch(0)...))
	reached, goOn, made := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	copying = func() { close(reached); <-goOn }
	packing = func() { must(t, x.Add(ctx, inEpoch(1)...)) }
	installing = func() {
		go func() { made <- x.Checkpoint(ctx, "copy") }()
		<-reached
	}
	_, err = compaction.Compact(ctx, x, compaction.Options{})
	must(t, err)
	_, err = x.Delete(ctx, inEpoch(0)[0].Key, inEpoch(1)[1].Key)
	must(t, err)
	frozen, done := make(chan struct{}), make(chan error, 1)
	packing = func() {
		must(t, x.Add(ctx, inEpoch(2)...), x.Sync(ctx)) // goes to the log that is copied
		close(frozen)
		<-made
		made <- nil
	}
	go func() {
		_, err := compaction.Compact(ctx, x, compaction.Options{})
		done <- err
	}()
	select { // The second compaction may wait for the end of the checkpoint.
	case <-frozen:
	case <-time.After(100 * time.Millisecond):
	}
	must(t, x.Sync(ctx))
	close(goOn)
	must(t, <-made)
	made <- nil
	must(t, <-done, x.Close())
	y, err := index.Open("copy", &index.Options{FS: mem, MustExist: true})
	must(t, err)
	want := contentsOf(t, y)
	if n := len(want); n != 38 && n != 58 {
		t.Errorf("the checkpoint has %d documents", n)
	}
	for range 3 {
		_, err := compaction.Compact(ctx, y, compaction.Options{})
		must(t, err)
		if got := contentsOf(t, y); !maps.Equal(got, want) {
			t.Errorf("after a compaction the checkpoint has %d documents, not %d",
				len(got), len(want))
		}
		must(t, y.Add(ctx, randomDocuments(r, 1)...))
		want = contentsOf(t, y)
	}
	must(t, y.Close())
}
