package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/groups"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestPairsAndClustersOfNumbers compares the pairs and the clusters of a list with a comparison
// of every two numbers. The output is arrays of numbers, like simhash-find-all and
// simhash-find-clusters of simhash-cpp, and JSON lines.
func TestPairsAndClustersOfNumbers(t *testing.T) {
	r, n := rand.New(rand.NewPCG(testenv.Seed(t), 1)), testenv.Number(5_000, 5_000, 5_000, 50_000)
	var text bytes.Buffer
	var last [64]uint64
	numbers := make([]uint64, n)
	for i := range numbers {
		f := r.Uint64()
		if r.IntN(4) == 0 { // near a recent one, or equal to it
			f = last[r.IntN(len(last))]
			for range r.IntN(6) {
				f ^= 1 << r.IntN(64)
			}
		}
		last[r.IntN(len(last))], numbers[i] = f, f
		fmt.Fprint(&text, f, [...]string{"\n", "\r\n", "\n\n",
			"\thttp://example.org/\n"}[r.IntN(4)])
	}
	file := writeFile(t, "numbers.txt", text.String())
	distinct := slices.Compact(slices.Sorted(slices.Values(numbers)))
	for _, k := range []int{1, 3, 4} {
		pairs, clusters := nearNumbers(distinct, k)
		flags := []string{"--compat", "simhash-cpp", "-b", "6", "-d", fmt.Sprint(k), "-i", file}
		wantArrays(t, fmt.Sprintf("pairs, k = %d", k),
			mustRun(t, append([]string{"pairs"}, flags...)...), pairs)
		wantArrays(t, fmt.Sprintf("clusters, k = %d", k),
			mustRun(t, append([]string{"clusters"}, flags...)...), clusters)

		var inPairs, inClusters [][]uint64
		for line := range strings.Lines(mustRun(t, "pairs", "-d", fmt.Sprint(k), file)) {
			var p groups.Pair
			must(t, json.Unmarshal([]byte(line), &p))
			inPairs = append(inPairs, []uint64{numbers[p.First.ID-1], numbers[p.Second.ID-1]})
		}
		documents := 0
		for line := range strings.Lines(mustRun(t, "clusters", "-d", fmt.Sprint(k), file)) {
			var c groups.ClusterLine
			must(t, json.Unmarshal([]byte(line), &c))
			members := []uint64{numbers[c.Kept.ID-1]}
			for _, m := range c.Others {
				if members = append(members, numbers[m.ID-1]); m.ID <= c.Kept.ID {
					t.Errorf("document %d is kept, and %d comes before it", c.Kept.ID, m.ID)
				}
			}
			documents += c.Documents
			if slices.Sort(members); len(slices.Compact(slices.Clone(members))) > 1 {
				inClusters = append(inClusters, slices.Compact(members))
			}
		}
		wantArrays(t, fmt.Sprintf("JSON pairs, k = %d", k), arrays(inPairs), pairs)
		wantArrays(t, fmt.Sprintf("JSON clusters, k = %d", k), arrays(inClusters), clusters)
		if documents <= len(clusters) {
			t.Errorf("clusters have %d documents", documents)
		}
	}
}

// nearNumbers returns the pairs and the clusters of at least two numbers.
func nearNumbers(distinct []uint64, k int) (pairs, clusters [][]uint64) {
	near := make(map[uint64][]uint64)
	for i, a := range distinct {
		for _, b := range distinct[:i] {
			if bits.OnesCount64(a^b) <= k {
				pairs = append(pairs, []uint64{b, a})
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
			clusters = append(clusters, cluster)
		}
	}
	return pairs, clusters
}

// arrays formats lists of numbers as the programs of simhash-cpp do.
func arrays(lists [][]uint64) string {
	var out strings.Builder
	for _, list := range lists {
		slices.Sort(list)
		out.WriteString(strings.ReplaceAll(fmt.Sprintln(list), " ", ", "))
	}
	return out.String()
}

// wantArrays compares lines in any order.
func wantArrays(t *testing.T, what, got string, want [][]uint64) {
	t.Helper()
	a, b := strings.Split(got, "\n"), strings.Split(arrays(want), "\n")
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		t.Errorf("%s: %d lines, want %d", what, len(a), len(b))
	}
}
