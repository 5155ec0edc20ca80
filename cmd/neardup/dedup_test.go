package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testseed"
)

// Of however many documents that others are near to, the largest groups are known, and no count
// is too high.
func TestLargestGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 3))
	g := heavyHitters{n: make(map[string]int64)}
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
		g.add(key)
	}
	if len(g.n) > maxHitters {
		t.Errorf("%d groups in memory", len(g.n))
	}
	for key, n := range want {
		if got := g.n[key]; got > n || got < n-int64(len(keys)/maxHitters) {
			t.Errorf("%s: %d of %d", key, got, n)
		}
	}
	lines := g.largest()
	if want := []string{
		fmt.Sprintf("a (at least %d)", g.n["a"]), fmt.Sprintf("b (at least %d)", g.n["b"]), fmt.Sprintf("c (at least %d)", g.n["c"]),
	}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// TestReadyFingerprints: one whose key is too long is a skip of its own, and that they are compared
// by less than pages is told, once.
func TestReadyFingerprints(t *testing.T) {
	list := writeFile(t, "list.jsonl", `{"key":"a","fingerprint":"00000000000000ff"}
{"key":"`+strings.Repeat("x", match.MaxKeyBytes+1)+`","fingerprint":"00000000ffff00ff"}
{"key":"b","fingerprint":"ff000000000000ff"}
`)
	for _, command := range []string{"dedup", "add"} {
		dir := filepath.Join(t.TempDir(), "ix")
		code, _, errs := runHere("", command, "-index", dir, list)
		if code != exitDone || strings.Count(errs, "compared by k = 6 alone; -format fingerprints") != 1 {
			t.Errorf("%s: %d, %s", command, code, errs)
		}
		if stored := exported(t, dir); len(stored) != 2 {
			t.Errorf("%s: %q are stored", command, stored)
		}
		code, _, errs = runHere("00000000000000ff\ta\n", command, "-index", dir+"2", "-format", "fingerprints", "-")
		if code != exitDone || strings.Contains(errs, "alone") {
			t.Errorf("%s: %d, %s", command, code, errs)
		}
	}
	long := writeFile(t, "list", "00000000000000ff\ta\n00000000000000ff\t"+strings.Repeat("x", match.MaxKeyBytes+1)+"\n")
	code, _, errs := runHere("", "import", "-index", filepath.Join(t.TempDir(), "ix"), long)
	if code != exitFailed || !strings.Contains(errs, long+" line 2: ") {
		t.Errorf("import: %d, %s", code, errs)
	}
}
