package index

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
)

// TestLargestKeys tests that keys and scopes of every length up to the limit are stored
// completely and found. One byte more must be ErrTooLarge, and nothing may be
// stored.
func TestLargestKeys(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{Durability: NoSync})
	for i, n := range []int{1, 127, 128, 4095, 16384, match.MaxKeyBytes - 1, match.MaxKeyBytes} {
		d := Document{Key: strings.Repeat("k", n), Scope: strings.Repeat("s", n),
			Fingerprint: fingerprint.Fingerprint(i) << 32}
		must(t, x.Add(ctx, d))
		got, found, err := x.Get(ctx, d.Key)
		if err != nil || !found || got.Key != d.Key || got.Scope != d.Scope {
			t.Errorf("%d bytes: found %v, key of %d bytes, scope of %d, %v", n, found, len(got.Key),
				len(got.Scope), err)
		}
		if matches, err := x.Query(ctx, Query{Signature: d.Signature(),
			Scope: d.Scope}); err != nil || len(matches) != 1 || matches[0].Key != d.Key {
			t.Errorf("%d bytes: %d matches, %v", n, len(matches), err)
		}
	}
	before := x.Stats().NextID
	for _, d := range []Document{{Key: strings.Repeat("k", match.MaxKeyBytes+1)},
		{Scope: strings.Repeat("s", match.MaxScopeBytes+1)}} {
		docs := []Document{{Fingerprint: 9}, d}
		_, err := x.CheckAndAddBatch(ctx, docs)
		for _, err := range []error{err, x.Add(ctx, docs...)} {
			if !errors.Is(err, ErrTooLarge) ||
				!strings.Contains(err.Error(), "65537 bytes, at most 65536") ||
				len(err.Error()) > 300 {
				t.Errorf("%.300v", err)
			}
		}
	}
	if got := x.Stats().NextID; got != before {
		t.Errorf("next ID %d, want %d", got, before)
	}
}

// TestDocumentsWithoutText tests that an index of texts refuses documents without text, and all
// documents of the same call. In an index without an analyzer, a fingerprint of 0 is valid.
func TestDocumentsWithoutText(t *testing.T) {
	analyzer, err := fingerprint.NewAnalyzer(fingerprint.Options{})
	must(t, err)
	s := analyzer.Text("?!")
	empty := Document{Key: "empty", Fingerprint: s.Fingerprint, Shingles: s.Shingles,
		Tokens: s.Tokens}
	other := Document{Key: "other", Fingerprint: 1 << 63}
	for name, want := range map[string]error{
		analyzer.Name(): ErrNoText, "visible " + analyzer.Name(): ErrNoText,
		"phash 64": nil, "": nil,
	} {
		fsys, asked := vfs.NewMem(), name
		for range 2 { // made, and opened again with what it records
			x := openMem(t, Options{Analyzer: asked, FS: fsys})
			errs := []error{x.Add(t.Context(), other, empty)}
			_, err := x.CheckAndAdd(t.Context(), empty)
			errs = append(errs, err)
			_, err = x.CheckAndAddBatch(t.Context(), []Document{other, empty})
			for _, err := range append(errs, err) {
				if !errors.Is(err, want) {
					t.Errorf("analyzer %q: %v", name, err)
				}
			}
			if n := x.Stats().Documents; (n == 0) != (want != nil) {
				t.Errorf("analyzer %q: %d documents", name, n)
			}
			must(t, x.Close())
			asked = ""
		}
	}
}
