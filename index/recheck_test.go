package index_test

import (
	"context"
	"testing"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestRecheckAtCommit tests that writes of other calls between the snapshot of a window and its
// commit affect its verdict.
func TestRecheckAtCommit(t *testing.T) {
	ctx := t.Context()
	stored := index.Document{Key: "stored", Fingerprint: 1 << 20}
	for _, c := range []struct {
		name   string
		doc    index.Document
		others func(x *index.Index) error
		status index.Status
		of     string
	}{
		{"document with the key", index.Document{Key: "page", Fingerprint: 0xffff << 40},
			func(x *index.Index) error {
				return x.Add(ctx, index.Document{Key: "page", Fingerprint: 1<<64 - 1})
			}, index.Known, "page"},
		{"document at distance k", index.Document{Key: "page", Fingerprint: 7 << 50},
			func(x *index.Index) error { return x.Add(ctx, index.Document{Key: "near"}) },
			index.Duplicate, "near"},
		{"document beyond k", index.Document{Key: "page", Fingerprint: 15 << 50},
			func(x *index.Index) error { return x.Add(ctx, index.Document{Key: "far"}) },
			index.New, ""},
		{"removal of the match", index.Document{Key: "page", Fingerprint: 1<<20 | 1},
			func(x *index.Index) error { _, err := x.Delete(ctx, "stored"); return err },
			index.New, ""},
		{"match that moves away", index.Document{Key: "page", Fingerprint: 1<<20 | 1},
			func(x *index.Index) error {
				return x.Add(ctx, index.Document{Key: "stored", Fingerprint: 1<<64 - 1})
			}, index.New, ""},
		{"removal of the earlier version", index.Document{Key: "stored", Fingerprint: 0xffff << 40},
			func(x *index.Index) error { _, err := x.Delete(ctx, "stored"); return err },
			index.New, ""},
		{"recrawl of the match, which keeps its ID",
			index.Document{Key: "page", Fingerprint: 1<<20 | 1},
			func(x *index.Index) error { return x.Add(ctx, stored) }, index.Duplicate, "stored"},
		{"recrawl of the match, which keeps its ID and is longer",
			index.Document{Key: "page", Fingerprint: 1<<20 | 1, Tokens: 100},
			func(x *index.Index) error {
				return x.Add(ctx, index.Document{Key: "stored", Fingerprint: 1 << 20, Tokens: 1000})
			}, index.New, ""},
	} {
		// The others write just before or just after the snapshot is taken, or when the verdict is
		// decided. If sites are ignored, a removal matters only to the documents that match it.
		for n := range 6 {
			when, siteTexts := n%3, []int{0, -1}[n/3]
			x := index.OpenMem(t, index.Options{SiteTexts: siteTexts})
			must(t, x.Add(ctx, stored))
			written, calls := false, 0
			write := func() {
				if calls++; !written && calls > when%2 {
					written = true
					must(t, c.others(x))
				}
			}
			// two, so that the snapshot is taken first
			docs := []index.Document{c.doc, {Key: "another", Fingerprint: 0x5555 << 44}}
			asking := context.Context(ctx)
			if when < 2 {
				x.AroundView(write)
			} else {
				calls = 1
				asking = index.WhenAsked{ctx, func() {
					if calls++; calls == 4 { // after the first search
						write()
					}
				}}
			}
			verdicts, err := x.CheckAndAddBatch(asking, docs)
			must(t, err)
			x.AroundView(nil)
			if v := verdicts[0]; !written || v.Status != c.status || v.Of.Key != c.of {
				t.Errorf("%s, %d, SiteTexts %d: written %t, %v of %q, not %v of %q", c.name, when,
					siteTexts, written, v.Status, v.Of.Key, c.status, c.of)
			}
		}
	}
}

// TestRemovedRightAfterItsCommit removes a document at the end of a part of a window right after
// the commit of the part. It is removed alone, or with more documents than the index lists. A
// later document of the window that matched it must be New.
func TestRemovedRightAfterItsCommit(t *testing.T) {
	for _, more := range []int{0, 8} {
		x, docs := openForParts(t, index.Options{KeepDuplicates: true})
		if more > 0 {
			x.ListWrites(more)
		}
		others := make([]index.Document, more)
		for i := range others {
			others[i].Fingerprint = 1 << 63
		}
		must(t, x.Add(t.Context(), others...))
		ids := []uint64{uint64(more) + 64}
		for i := range others {
			ids = append(ids, others[i].ID)
		}
		docs[200].Fingerprint = docs[63].Fingerprint
		deleted := 0
		verdicts, err := x.CheckAndAddBatch(index.WhenAsked{inParts(t.Context()), func() {
			if deleted == 0 && x.Stats().Documents == uint64(more)+64 {
				deleted = len(ids)
				n, err := x.DeleteIDs(t.Context(), ids...)
				if err != nil || n != len(ids) {
					t.Error(n, err)
				}
			}
		}}, docs)
		must(t, err)
		if v := verdicts[200]; deleted == 0 || v.Status != index.New {
			t.Errorf("%d deleted: %v of %+v", deleted, v.Status, v.Of)
		}
	}
}

// TestRecrawledRightAfterItsCommit recrawls a page at the beginning of a window from another
// call, after the commit of its part. The fingerprint is the same, and so is the ID. A later
// document of the window must be a duplicate of it.
func TestRecrawledRightAfterItsCommit(t *testing.T) {
	x, docs := openForParts(t, index.Options{})
	page := index.Document{Key: "page", Fingerprint: docs[0].Fingerprint, Digest: 1}
	must(t, x.Add(t.Context(), page))
	docs[0].Key, docs[0].Digest = page.Key, 2
	docs[200].Fingerprint = page.Fingerprint ^ 1
	page.Digest = 3
	recrawled := false
	verdicts, err := x.CheckAndAddBatch(index.WhenAsked{inParts(t.Context()), func() {
		if d, _, err := x.Get(t.Context(), page.Key); !recrawled && d.Digest == 2 {
			recrawled = true
			must(t, err, x.Add(t.Context(), page))
		}
	}}, docs)
	must(t, err)
	if v := verdicts[200]; !recrawled || v.Status != index.Duplicate || v.Of.Digest != 3 {
		t.Errorf("recrawled %t: %v of %+v", recrawled, v.Status, v.Of)
	}
}

// TestKeyOfOneHashAfterACommit stores, from another call, a document near a late document of a
// window. Its key has the hash of the key of a page at the beginning of the window. That page
// must still count.
func TestKeyOfOneHashAfterACommit(t *testing.T) {
	x, docs := openForParts(t, index.Options{})
	keys := testgen.CollidingKeys(0)
	docs[0].Key = keys[0]
	docs[200].Fingerprint = docs[0].Fingerprint ^ 1
	stored := false
	verdicts, err := x.CheckAndAddBatch(index.WhenAsked{inParts(t.Context()), func() {
		if n := x.Stats().Documents; !stored && n > 0 && n < 190 {
			stored = true
			must(t, x.Add(t.Context(), index.Document{Key: keys[1],
				Fingerprint: docs[201].Fingerprint ^ 1}))
		}
	}}, docs)
	must(t, err)
	if page, near := verdicts[200], verdicts[201]; !stored || page.Of.Key != keys[0] ||
		near.Of.Key != keys[1] {
		t.Errorf("stored %t: %v of %q, %v of %q", stored, page.Status, page.Of.Key,
			near.Status, near.Of.Key)
	}
}
