package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testseed"
)

// findAll is what simhash-find-all finds: every pair of numbers within the distance, once. Its
// tables, of which the number of blocks decides, are a way to find them all.
func findAll(numbers []uint64, distance int) (pairs [][2]uint64) {
	for i, a := range numbers {
		for _, b := range numbers[:i] {
			if bits.OnesCount64(a^b) <= distance {
				pairs = append(pairs, [2]uint64{b, a})
			}
		}
	}
	return pairs
}

// within returns those of pairs that are so near.
func within(pairs [][2]uint64, distance int) [][2]uint64 {
	return slices.DeleteFunc(slices.Clone(pairs), func(p [2]uint64) bool { return bits.OnesCount64(p[0]^p[1]) > distance })
}

// findClusters is that of simhash-cpp: it begins with any number of a pair that has not been
// visited, and goes on to all that are paired with one visited.
func findClusters(pairs [][2]uint64) (clusters [][]uint64) {
	near := make(map[uint64][]uint64)
	for _, p := range pairs {
		near[p[0]] = append(near[p[0]], p[1])
		near[p[1]] = append(near[p[1]], p[0])
	}
	visited := make(map[uint64]bool)
	for n := range near {
		var cluster []uint64
		for next := []uint64{n}; len(next) > 0; {
			m := next[0]
			if next = next[1:]; !visited[m] {
				visited[m] = true
				cluster, next = append(cluster, m), append(next, near[m]...)
			}
		}
		if cluster != nil {
			clusters = append(clusters, cluster)
		}
	}
	return clusters
}

// array is a line of their output.
func array(numbers ...uint64) string {
	slices.Sort(numbers)
	return strings.ReplaceAll(fmt.Sprint(numbers), " ", ", ")
}

// arrays are the lines of an output, their numbers sorted, sorted.
func arrays(t *testing.T, output []byte) (lines []string) {
	t.Helper()
	for line := range strings.Lines(string(output)) {
		var numbers []uint64
		if err := json.Unmarshal([]byte(line), &numbers); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if sorted := array(slices.Clone(numbers)...); len(sorted)+1 != len(line) {
			t.Fatalf("line %q is not as %s", line, sorted)
		}
		lines = append(lines, array(numbers...))
	}
	slices.Sort(lines)
	return lines
}

// clusteredNumbers are written one a line: numbers near one of the last, equal ones too, and
// others. It returns them in order, each once.
func clusteredNumbers(t *testing.T, path string, r *rand.Rand, n int) (numbers []uint64) {
	t.Helper()
	var out bytes.Buffer
	var last [64]uint64
	for i := range n {
		f := r.Uint64()
		if r.IntN(4) == 0 {
			f = last[r.IntN(len(last))]
			for range r.IntN(6) {
				f ^= 1 << r.IntN(64)
			}
		}
		last[r.IntN(len(last))] = f
		numbers = append(numbers, f)
		// Blank lines, line ends of another system, and columns are all met.
		fmt.Fprint(&out, f, [...]string{"\n", "\r\n", "\n\n", "\thttp://example.org/" + strconv.Itoa(i) + "\n"}[r.IntN(4)])
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// TestCompatIsFindAllAndFindClusters holds the command to a model of the programs that it
// stands in for.
func TestCompatIsFindAllAndFindClusters(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	n := 10_000
	switch {
	case testing.Short():
		n = 3000
	case os.Getenv("NEARDUP_LONG") != "":
		n = 100_000
	}
	path := filepath.Join(t.TempDir(), "numbers.txt")
	numbers := clusteredNumbers(t, path, r, n)
	all := findAll(numbers, 4)
	for _, c := range []struct{ blocks, distance int }{{4, 3}, {6, 3}, {5, 1}, {8, 4}} {
		pairs := within(all, c.distance)
		clusters := findClusters(pairs)
		want := map[string][]string{}
		for _, p := range pairs {
			want["pairs"] = append(want["pairs"], array(p[0], p[1]))
		}
		for _, cluster := range clusters {
			want["clusters"] = append(want["clusters"], array(cluster...))
		}
		for name, want := range want {
			slices.Sort(want)
			for _, memory := range []string{"0", "16"} {
				if got := arrays(t, compatRun(t, name, path, c.blocks, c.distance, memory)); !slices.Equal(got, want) {
					t.Errorf("seed %d: %s of %d numbers in %d blocks, distance %d, memory %s: %d lines, want %d", seed, name, n, c.blocks, c.distance, memory, len(got), len(want))
				}
			}
		}
		t.Logf("blocks %d, distance %d: %d pairs, %d clusters", c.blocks, c.distance, len(pairs), len(clusters))
	}
}

// compatRun has its output in a file, or on standard output and its input from standard
// input, by turns.
func compatRun(t *testing.T, name, path string, blocks, distance int, memory string) []byte {
	t.Helper()
	input, output, in := path, path+".out", ""
	if blocks%2 == 0 {
		numbers, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		input, output, in = "-", "-", string(numbers)
	}
	code, out, diagnostics := runHere(in, name, "-compat", "simhash-cpp", "-memory", memory, "-b", strconv.Itoa(blocks), "-d", strconv.Itoa(distance), "-i", input, "-o", output)
	if code != exitDone {
		t.Fatalf("%s: %d, %s", name, code, diagnostics)
	}
	if output == "-" {
		return []byte(out)
	}
	written, err := os.ReadFile(output)
	if err != nil || out != "" {
		t.Fatalf("%s: %q on standard output, %v", name, out, err)
	}
	return written
}
