package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
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

// findAll is the search of simhash-cpp, as its documentation has it: 64 bits in blocks,
// a table for each choice of blocks-distance of them, in a table all numbers that agree in
// the chosen blocks are compared, and a pair is the smaller number and the larger one, once.
func findAll(numbers map[uint64]bool, blocks, distance int) map[[2]uint64]bool {
	pairs := make(map[[2]uint64]bool)
	sorted := make([]uint64, 0, len(numbers))
	for n := range numbers {
		sorted = append(sorted, n)
	}
	for chosen := range uint64(1) << blocks {
		if bits.OnesCount64(chosen) != blocks-distance {
			continue
		}
		mask := uint64(0)
		for block := range blocks {
			if chosen>>block&1 != 0 {
				mask |= ^uint64(0) << (64 * block / blocks) & (^uint64(0) >> (64 - 64*(block+1)/blocks))
			}
		}
		slices.SortFunc(sorted, func(a, b uint64) int {
			switch a, b := a&mask, b&mask; {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		})
		for begin := 0; begin < len(sorted); {
			end := begin + 1
			for end < len(sorted) && sorted[end]&mask == sorted[begin]&mask {
				end++
			}
			for i, a := range sorted[begin:end] {
				for _, b := range sorted[begin : begin+i] {
					if bits.OnesCount64(a^b) <= distance {
						pairs[[2]uint64{min(a, b), max(a, b)}] = true
					}
				}
			}
			begin = end
		}
	}
	return pairs
}

// findClusters is that of simhash-cpp: it begins with any number of a pair that has not been
// visited, and goes on to all that are paired with one visited.
func findClusters(pairs map[[2]uint64]bool) [][]uint64 {
	near := make(map[uint64][]uint64)
	for p := range pairs {
		near[p[0]] = append(near[p[0]], p[1])
		near[p[1]] = append(near[p[1]], p[0])
	}
	visited := make(map[uint64]bool)
	var clusters [][]uint64
	for n := range near {
		if visited[n] {
			continue
		}
		visited[n] = true
		cluster := []uint64{n}
		for i := 0; i < len(cluster); i++ {
			for _, m := range near[cluster[i]] {
				if !visited[m] {
					visited[m] = true
					cluster = append(cluster, m)
				}
			}
		}
		clusters = append(clusters, cluster)
	}
	return clusters
}

// array is a line of their output.
func array(numbers ...uint64) string {
	slices.Sort(numbers)
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = strconv.FormatUint(n, 10)
	}
	return "[" + strings.Join(text, ", ") + "]"
}

// arrays are the lines of an output, their numbers sorted, sorted.
func arrays(t *testing.T, output []byte) (lines []string) {
	t.Helper()
	for line := range strings.Lines(string(output)) {
		inner, ok := strings.CutPrefix(line, "[")
		inner, ended := strings.CutSuffix(inner, "]\n")
		if !ok || !ended {
			t.Fatalf("line %q", line)
		}
		var numbers []uint64
		for _, digits := range strings.Split(inner, ", ") {
			n, err := strconv.ParseUint(digits, 10, 64)
			if err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			numbers = append(numbers, n)
		}
		lines = append(lines, array(numbers...))
	}
	slices.Sort(lines)
	return lines
}

// clusteredNumbers are written one a line: numbers near one of the last, equal ones too, and
// others.
func clusteredNumbers(t *testing.T, path string, r *rand.Rand, n int) map[uint64]bool {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	numbers := make(map[uint64]bool)
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
		numbers[f] = true
		// Blank lines, line ends of another system, and columns are all met.
		fmt.Fprint(out, f, [...]string{"\n", "\r\n", "\n\n", "\thttp://example.org/" + strconv.Itoa(i) + "\n"}[r.IntN(4)])
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return numbers
}

// TestCompatIsFindAllAndFindClusters holds the command to a model of the programs that it
// stands in for.
func TestCompatIsFindAllAndFindClusters(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	n := 30_000
	switch {
	case testing.Short():
		n = 3000
	case os.Getenv("NEARDUP_LONG") != "":
		n = 1_000_000
	case os.Getenv("NEARDUP_CI") != "":
		n = 100_000
	}
	path := filepath.Join(t.TempDir(), "numbers.txt")
	numbers := clusteredNumbers(t, path, r, n)
	for _, c := range []struct{ blocks, distance int }{{4, 3}, {6, 3}, {5, 1}, {8, 4}} {
		pairs := findAll(numbers, c.blocks, c.distance)
		var wantPairs, wantClusters []string
		for p := range pairs {
			wantPairs = append(wantPairs, array(p[0], p[1]))
		}
		for _, cluster := range findClusters(pairs) {
			wantClusters = append(wantClusters, array(cluster...))
		}
		slices.Sort(wantPairs)
		slices.Sort(wantClusters)
		for _, memory := range []string{"0", "16"} {
			for name, want := range map[string][]string{"pairs": wantPairs, "clusters": wantClusters} {
				got := arrays(t, compatRun(t, name, path, c.blocks, c.distance, memory))
				if !slices.Equal(got, want) {
					t.Errorf("seed %d: %s of %d numbers in %d blocks, distance %d, memory %s: %d lines, want %d", seed, name, n, c.blocks, c.distance, memory, len(got), len(want))
				}
			}
		}
		t.Logf("blocks %d, distance %d: %d pairs, %d clusters", c.blocks, c.distance, len(wantPairs), len(wantClusters))
	}
}

// compatRun has its output in a file, or on standard output and its input from standard
// input, by turns.
func compatRun(t *testing.T, name, path string, blocks, distance int, memory string) []byte {
	t.Helper()
	var in io.Reader
	var out, diagnostics bytes.Buffer
	input, output := path, path+".out"
	if blocks%2 == 0 {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		in, input, output = file, "-", "-"
	}
	args := []string{name, "-compat", "simhash-cpp", "-memory", memory, "-b", strconv.Itoa(blocks), "-d", strconv.Itoa(distance), "-i", input, "-o", output}
	if code := run(context.Background(), args, &streams{in, &out, &diagnostics}); code != exitDone {
		t.Fatalf("%v: %d, %s", args, code, diagnostics.Bytes())
	}
	if output == "-" {
		return out.Bytes()
	}
	if out.Len() > 0 {
		t.Errorf("%v: %q on standard output", args, out.Bytes())
	}
	written, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return written
}
