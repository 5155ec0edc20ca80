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

// TestTooLarge tests that a call with a document over a limit, or with a batch of a gigabyte,
// stores no document.
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
		if len(c.docs) > 2 { // CheckAndAddBatch splits the batch into commits
			continue
		}
		if _, err := x.CheckAndAddBatch(t.Context(), c.docs); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: in CheckAndAddBatch: %v", c.says, err)
		}
	}
	if n := x.Stats().Documents; n > 0 {
		t.Errorf("%d documents are stored", n)
	}
	must(t, x.Add(t.Context(), Document{Key: key, Scope: scope})) // the largest allowed values
}

// TestDocumentsWithoutText tests that, in an index of texts, a call with a document without text
// stores no document. In other indexes, a fingerprint of 0 is valid.
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
		for range 2 { // a new index, then the index with the recorded analyzer
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
