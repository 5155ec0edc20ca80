package index

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
)

// TestLargestKeys tests that keys and scopes of every length up to the limit are stored
// completely and found.
func TestLargestKeys(t *testing.T) {
	x := openMem(t, Options{Durability: NoSync})
	for i, n := range []int{1, 127, 128, 4095, 16384, match.MaxKeyBytes - 1, match.MaxKeyBytes} {
		d := Document{Key: strings.Repeat("k", n), Scope: strings.Repeat("s", n),
			Fingerprint: fingerprint.Fingerprint(i) << 32}
		must(t, x.Add(t.Context(), d))
		got, found, err := x.Get(t.Context(), d.Key)
		matches, queryErr := x.Query(t.Context(), Query{Signature: d.Signature(), Scope: d.Scope})
		must(t, err, queryErr)
		if !found || got.Key != d.Key || got.Scope != d.Scope || len(matches) != 1 ||
			matches[0].Document != got {
			t.Errorf("%d bytes: found %v, key of %d bytes, scope of %d, %d matches", n, found,
				len(got.Key), len(got.Scope), len(matches))
		}
	}
}

// TestTooLarge tests that documents over a limit are refused, and all documents of the same call.
// So is a batch of a gigabyte.
func TestTooLarge(t *testing.T) {
	x := openMem(t, Options{Durability: NoSync})
	key, scope := strings.Repeat("k", match.MaxKeyBytes), strings.Repeat("s", match.MaxScopeBytes)
	const bytes = "65537 bytes, at most 65536"
	for _, c := range []struct {
		docs []Document
		says string
	}{
		{[]Document{{Fingerprint: 9}, {Key: key + "k"}}, bytes},
		{[]Document{{Fingerprint: 9}, {Scope: scope + "s"}}, bytes},
		{[]Document{{Fingerprint: 9}, {Tokens: -1}}, ""},
		{[]Document{{Fingerprint: 9}, {Tokens: match.MaxTokens + 1}}, ""},
		{slices.Repeat([]Document{{Key: key, Scope: scope}}, 9000), "a batch of 9000 documents"},
	} {
		err := x.Add(t.Context(), c.docs...)
		if !errors.Is(err, ErrTooLarge) || len(err.Error()) > 300 ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%.300v", err)
		}
		if len(c.docs) > 2 { // CheckAndAddBatch commits some at a time
			continue
		}
		if _, err := x.CheckAndAddBatch(t.Context(), c.docs); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: in CheckAndAddBatch: %v", c.says, err)
		}
	}
	if n := x.Stats().Documents; n > 0 {
		t.Errorf("%d documents are stored", n)
	}
}

// TestDocumentsWithoutText tests that an index of texts refuses documents without text, and all
// documents of the same call. In an index without an analyzer, a fingerprint of 0 is valid.
func TestDocumentsWithoutText(t *testing.T) {
	analyzer, err := fingerprint.NewAnalyzer(fingerprint.Options{})
	must(t, err)
	s := analyzer.Text("?!")
	empty := Document{Fingerprint: s.Fingerprint, Shingles: s.Shingles, Tokens: s.Tokens}
	other := Document{Fingerprint: 1 << 63}
	for name, want := range map[string]error{
		analyzer.Name(): ErrNoText, "visible " + analyzer.Name(): ErrNoText,
		"phash 64": nil, "": nil,
	} {
		fsys, asked := vfs.NewMem(), name
		for range 2 { // made, and opened again with what it records
			x := openMem(t, Options{Analyzer: asked, FS: fsys})
			_, single := x.CheckAndAdd(t.Context(), empty)
			_, batch := x.CheckAndAddBatch(t.Context(), []Document{other, empty})
			for _, err := range []error{x.Add(t.Context(), other, empty), single, batch} {
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
