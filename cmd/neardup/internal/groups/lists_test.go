package groups

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

// TestLikeSimhashCPP holds pairs and clusters of lists, in memory and in files, to what simhash-find-all and
// simhash-find-clusters find: every pair of numbers within the distance, once; and from any number of a pair on,
// all that pairs lead to.
func TestLikeSimhashCPP(t *testing.T) {
	r, n := rand.New(rand.NewPCG(testenv.Seed(t), 1)), testenv.Number(10_000, 10_000, 10_000, 100_000)
	var text bytes.Buffer
	var last [64]uint64
	numbers := make([]uint64, n)
	for i := range numbers {
		f := r.Uint64()
		if r.IntN(4) == 0 { // near one of the last, or equal
			f = last[r.IntN(len(last))]
			for range r.IntN(6) {
				f ^= 1 << r.IntN(64)
			}
		}
		last[r.IntN(len(last))], numbers[i] = f, f
		fmt.Fprint(&text, f, [...]string{"\n", "\r\n", "\n\n", "\thttp://example.org/\n"}[r.IntN(4)])
	}
	file := filepath.Join(t.TempDir(), "numbers.txt")
	must(t, os.WriteFile(file, text.Bytes(), 0o600))
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for _, k := range []int{1, 3, 4} {
		var pairs, clusters []string
		near := make(map[uint64][]uint64)
		for i, a := range numbers {
			for _, b := range numbers[:i] {
				if bits.OnesCount64(a^b) <= k {
					pairs = append(pairs, array(b, a))
					near[a], near[b] = append(near[a], b), append(near[b], a)
				}
			}
		}
		visited := make(map[uint64]bool)
		for number := range near {
			var cluster []uint64
			for next := []uint64{number}; len(next) > 0; next = next[1:] {
				if m := next[0]; !visited[m] {
					visited[m] = true
					cluster, next = append(cluster, m), append(next, near[m]...)
				}
			}
			if cluster != nil {
				clusters = append(clusters, array(cluster...))
			}
		}
		slices.Sort(pairs)
		slices.Sort(clusters)
		o := ListOptions{MaxDistance: k, Numbers: true}
		gotPairs := written(t, file, o, func(s Source, w []*Writer) error {
			return s.Pairs(t.Context(), len(w), func(worker int, a, b *Member, distance int) error {
				if distance == 0 {
					return nil // copies
				}
				return w[worker].Pair(a, b, distance)
			})
		})
		gotClusters := written(t, file, o, func(s Source, w []*Writer) error { return s.Clusters(t.Context(), w[0].Cluster) })
		if !slices.Equal(gotPairs, pairs) || !slices.Equal(gotClusters, clusters) {
			t.Errorf("k = %d: %d pairs and %d clusters, want %d and %d", k, len(gotPairs), len(gotClusters), len(pairs), len(clusters))
		}
	}
}

// array is a line of their output.
func array(numbers ...uint64) string {
	slices.Sort(numbers)
	return strings.ReplaceAll(fmt.Sprint(numbers), " ", ", ")
}

// written returns the lines that are written of a file, and their numbers, sorted.
func written(t *testing.T, file string, o ListOptions, write func(Source, []*Writer) error) []string {
	t.Helper()
	reader, err := corpus.New([]string{file}, corpus.Options{Format: corpus.Decimal})
	must(t, err)
	s, err := OfLists(reader.Chunks(t.Context(), nil), o)
	must(t, err)
	var text bytes.Buffer
	out := bufio.NewWriter(&text)
	writers := NewWriters(SimhashCPP, out, 3)
	err = write(s, writers)
	for _, w := range writers {
		w.Flush()
	}
	if out.Flush(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		var numbers []uint64
		if err := json.Unmarshal([]byte(line), &numbers); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, array(numbers...))
	}
	slices.Sort(lines)
	return lines
}
