package summary

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestLargestGroups tests that the largest groups are found among any number of documents, and
// that no count is too high.
func TestLargestGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	g := HeavyHitters{N: make(map[string]int64)}
	want := map[string]int64{"a": 5000, "b": 3000, "c": 2000}
	var keys []string
	for key, n := range want {
		for range n {
			keys = append(keys, key)
		}
	}
	for i := range 4 * maxHitters {
		keys = append(keys, fmt.Sprint("single ", i))
	}
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys {
		g.Add(key)
	}
	if len(g.N) > maxHitters {
		t.Errorf("%d groups in memory", len(g.N))
	}
	for key, n := range want {
		if got := g.N[key]; got > n || got < n-int64(len(keys)/maxHitters) {
			t.Errorf("%s: %d of %d", key, got, n)
		}
	}
	lines := g.largest()
	if want := []string{
		fmt.Sprintf("  a (at least %d)", g.N["a"]), fmt.Sprintf("  b (at least %d)", g.N["b"]),
		fmt.Sprintf("  c (at least %d)", g.N["c"]),
	}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// TestLongKeys tests that the line of a long key is short.
func TestLongKeys(t *testing.T) {
	g := HeavyHitters{N: map[string]int64{strings.Repeat("é", 30_000): 2,
		strings.Repeat("k", 200): 1}}
	if got, want := g.largest(), []string{"  " + strings.Repeat("é", 200) + "... (2)",
		"  " + strings.Repeat("k", 200) + " (1)"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestFilesWithoutDocuments: all files without a document are counted, and the first ones are
// named.
func TestFilesWithoutDocuments(t *testing.T) {
	s := New()
	for i := range 1000 {
		s.File(fmt.Sprintf("file %d", i))
		if i%2 == 0 {
			s.Compare("")
		} else {
			s.Skip("empty", true)
		}
	}
	want := []string{
		"1000 records in 1000 files: 500 documents, 500 skipped (empty 500)",
		"500 files without a document: file 1, file 3, file 5, file 7, file 9 and 495 more",
	}
	if got := s.Lines(1000); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
