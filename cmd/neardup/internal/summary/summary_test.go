package summary

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// Of however many documents that others are near to, the largest groups are known, and no count
// is too high.
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
		fmt.Sprintf("  a (at least %d)", g.N["a"]), fmt.Sprintf("  b (at least %d)", g.N["b"]), fmt.Sprintf("  c (at least %d)", g.N["c"]),
	}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// A key of any length is a short line.
func TestLongKeys(t *testing.T) {
	g := HeavyHitters{N: map[string]int64{strings.Repeat("é", 30_000): 2, strings.Repeat("k", 200): 1}}
	if got, want := g.largest(), []string{"  " + strings.Repeat("é", 200) + "... (2)", "  " + strings.Repeat("k", 200) + " (1)"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestFilesWithoutDocuments: all files without a document are counted, and the first ones are named.
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
		"500 files have no document: file 1, file 3, file 5, file 7, file 9 and 495 more",
	}
	if got := s.Lines(1000); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReplacedDocuments: only documents that replace another text are counted, and only documents of another
// file of the run as such.
func TestReplacedDocuments(t *testing.T) {
	s := New()
	s.File("a")
	s.Key("1")
	s.Replace("1", true) // of an earlier run
	s.File("b")
	s.Key("1") // with an equal text
	s.File("c")
	s.Replace("1", false)
	s.Replace("1", true)
	s.Replace("2", false)
	if s.replaced != 1 || s.unrelated != 2 || s.example != "1 in c" {
		t.Errorf("%d of another file, such as %s; %d unrelated", s.replaced, s.example, s.unrelated)
	}
}

// TestKeyFilesAreBounded: however many keys there are, memory is fixed, and a key that is still known is not
// taken for another one.
func TestKeyFilesAreBounded(t *testing.T) {
	var k keyFiles
	for i := range 2 * keySlots {
		if k.put(fmt.Sprint(i), 1) {
			t.Fatalf("key %d is new", i)
		}
	}
	again := 0
	for i := range 2 * keySlots {
		if k.put(fmt.Sprint("other ", i), 2) {
			t.Fatalf("other key %d is new", i)
		}
		if i < 1000 && k.put(fmt.Sprint(2*keySlots-1-i), 2) {
			again++
		}
	}
	if len(k.slots) != keySlots || again < 900 {
		t.Errorf("%d slots; of the last 1000 keys %d are known", len(k.slots), again)
	}
}
