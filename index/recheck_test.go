package index_test

import (
	"context"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testhook"
)

// TestRecheckAtCommit tests that a verdict takes into account the writes of other calls between the
// snapshot of a window and its commit.
func TestRecheckAtCommit(t *testing.T) {
	ctx := t.Context()
	stored := index.Document{Key: "stored", Fingerprint: 1 << 20}
	near := index.Document{Key: "page", Fingerprint: 1<<20 | 1}
	add := func(d index.Document) func(*index.Index) error {
		return func(x *index.Index) error { return x.Add(ctx, d) }
	}
	remove := func(x *index.Index) error {
		_, err := x.Delete(ctx, "stored")
		return err
	}
	for _, c := range []struct {
		name   string
		doc    index.Document
		others func(x *index.Index) error
		status index.Status
		of     string
	}{
		{"document with the key", index.Document{Key: "page", Fingerprint: 0xffff << 40},
			add(index.Document{Key: "page", Fingerprint: 1<<64 - 1}), index.Known, "page"},
		{"document at distance k", index.Document{Key: "page", Fingerprint: 7 << 50},
			add(index.Document{Key: "near"}), index.Duplicate, "near"},
		{"document beyond k", index.Document{Key: "page", Fingerprint: 15 << 50},
			add(index.Document{Key: "far"}), index.New, ""},
		{"removal of the match", near, remove, index.New, ""},
		{"match that moves away", near,
			add(index.Document{Key: "stored", Fingerprint: 1<<64 - 1}), index.New, ""},
		{"removal of the earlier version", index.Document{Key: "stored", Fingerprint: 0xffff << 40},
			remove, index.New, ""},
		{"recrawl of the match, which keeps its ID", near, add(stored), index.Duplicate, "stored"},
		{"recrawl of the match, which keeps its ID and is longer",
			index.Document{Key: "page", Fingerprint: 1<<20 | 1, Tokens: 100},
			add(index.Document{Key: "stored", Fingerprint: 1 << 20, Tokens: 1000}), index.New, ""},
	} {
		// The other call writes just before or just after the snapshot is opened, or when the
		// verdict is decided. If sites are ignored, only removals of matches are rechecked.
		for n := range 6 {
			when, siteTexts := n%3, []int{0, -1}[n/3]
			x := index.OpenMem(t, index.Options{SiteTexts: siteTexts})
			must(t, x.Add(ctx, stored))
			calls, asks, written := 0, 0, false
			write := func() {
				written = true
				must(t, c.others(x))
			}
			x.AroundView(func() {
				if calls++; when < 2 && calls == when+1 {
					write()
				}
			})
			verdicts, err := x.CheckAndAddBatch(index.WhenAsked{ctx, func() {
				if asks++; when == 2 && asks == 3 { // after the first search
					write()
				}
			}}, []index.Document{c.doc, // with a second document, the snapshot is opened first
				{Key: "another", Fingerprint: 0x5555 << 44}})
			must(t, err)
			x.AroundView(nil)
			if v := verdicts[0]; !written || v.Status != c.status || v.Of.Key != c.of {
				t.Errorf("%s, %d, SiteTexts %d: written %t, %v of %q, not %v of %q", c.name, when,
					siteTexts, written, v.Status, v.Of.Key, c.status, c.of)
			}
		}
	}
}

// TestWritesBetweenCommits tests that the verdict on document 200 of a window takes into account
// writes of other calls: before the first commit of the window, or after document 10 was committed.
// This must also hold if the index does not list all writes.
func TestWritesBetweenCommits(t *testing.T) {
	docs := index.Strangers(260)
	window, stored := docs[:256], docs[256:] // the stored documents have the IDs 1 to 4
	stored[0].Digest, window[10].Digest = 1, 2
	again, near := window[10], index.Document{Fingerprint: window[100].Fingerprint ^ 1}
	again.Digest = 3
	for _, c := range []struct {
		name   string
		late   bool // document 10 matches and is committed; else the stored document 1 matches
		listed int  // number of recent writes that the index lists
		remove []uint64
		add    []index.Document
		of     fingerprint.Digest // of the original; 0: the verdict is New
	}{
		{"removal of the original", false, 1000, []uint64{1}, nil, 0},
		{"removal of the original and others", false, 2, []uint64{1, 2, 3}, nil, 0},
		{"removal of another document", false, 1000, []uint64{2}, nil, 1},
		{"removal of other documents", false, 2, []uint64{2, 3, 4}, nil, 1},
		{"removal of a committed document", true, 1000, []uint64{15}, nil, 0},
		{"removal of a committed document and others", true, 2, []uint64{2, 3, 15}, nil, 0},
		{"recrawl of a committed document", true, 1000, nil, []index.Document{again}, 3},
		{"document near another one of the window", true, 1000, nil, []index.Document{near}, 2},
	} {
		for _, siteTexts := range []int{0, -1} {
			x := index.OpenMem(t, index.Options{SiteTexts: siteTexts})
			x.ListWrites(c.listed)
			window[200].Fingerprint = stored[0].Fingerprint ^ 1
			if c.late {
				window[200].Fingerprint = window[10].Fingerprint ^ 1
			}
			must(t, x.Add(t.Context(), stored...))
			asked, written := 0, false
			ctx := testhook.WithParts(t.Context(), 8, 32)
			verdicts, err := x.CheckAndAddBatch(index.WhenAsked{ctx, func() {
				// the second check is after the snapshot is opened
				if asked++; written || asked < 2 || c.late && x.Stats().Documents != 4+64 {
					return
				}
				written = true
				n, err := x.DeleteIDs(context.Background(), c.remove...)
				must(t, err, x.Add(context.Background(), c.add...))
				if n != len(c.remove) {
					t.Errorf("%d of %d documents were deleted", n, len(c.remove))
				}
			}}, window)
			must(t, err)
			v, want := verdicts[200], index.New
			if c.of != 0 {
				want = index.Duplicate
			}
			if !written || v.Status != want || v.Of.Digest != c.of {
				t.Errorf("%s, SiteTexts %d: written %t, %v of %+v", c.name, siteTexts, written,
					v.Status, v.Of)
			}
		}
	}
}
