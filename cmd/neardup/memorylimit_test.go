package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testseed"
)

// outOfMemory is how Go and the C library end a program that gets no memory.
var outOfMemory = regexp.MustCompile(`out of memory|cannot allocate memory|failed to reserve|failed to create new OS thread|pthread_create failed|errno=12`)

// limitedWork is the subcommands that are run with too little memory, in the folder of limitedIndex.
var limitedWork = [][]string{
	{"dedup", "-index", "copy", "docs.jsonl"},
	{"add", "-index", "copy", "-format", "fingerprints", "list.txt"},
	{"query", "-index", "copy", "-format", "fingerprints", "list.txt"},
	{"compact", "-index", "copy"},
	{"import", "-index", "copy", "list.txt"},
	{"pairs", "-index", "copy"},
	{"pairs", "list.txt"},
	{"clusters", "-index", "copy"},
}

// limitedIndex makes the inputs of limitedWork in a folder, and an index that is half packed.
func limitedIndex(t *testing.T, dir string, r *rand.Rand) (base string) {
	t.Helper()
	base = filepath.Join(dir, "base")
	size := 4000
	if os.Getenv("NEARDUP_LONG") != "" {
		size = 40_000
	}
	writeFingerprints(t, filepath.Join(dir, "list.txt"), drawDocuments(r, size, size))
	writeCopies(t, filepath.Join(dir, "docs.jsonl"), size/40, 2, r)
	mustRun(t, "dedup", "-nosync", "-index", base, filepath.Join(dir, "docs.jsonl"))
	mustRun(t, "import", "-index", base, filepath.Join(dir, "list.txt"))
	mustRun(t, "add", "-nosync", "-index", base, "-format", "fingerprints", filepath.Join(dir, "list.txt"))
	return base
}

// TestAddressSpaceLimit: with less memory than it needs, the command works, or Go ends it and
// says why; what it had printed is stored, the index is whole, and the same command does its
// work once there is memory.
func TestAddressSpaceLimit(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("ulimit -v bounds the memory of a process on Linux only")
	}
	if raceEnabled {
		t.Skip("the race detector takes more address space than any limit leaves")
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh to set the limit: ", err)
	}
	r := rand.New(rand.NewPCG(testseed.Of(t), 11))
	dir := t.TempDir()
	base := limitedIndex(t, dir, r)
	least := leastAddressSpace(t)
	runs := 3
	switch {
	case os.Getenv("NEARDUP_LONG") != "":
		runs = 500
	case os.Getenv("NEARDUP_CI") != "":
		runs = 24
	}
	ended := make(map[string]int)
	for n := range runs {
		// Some do not come to their work, some to a part of it, some to all.
		limit := least - 8<<10 + r.IntN(96<<10)
		ended[runLimited(t, dir, base, limit, limitedWork[n%len(limitedWork)])]++
	}
	t.Logf("from %d KiB on: %v", least, ended)
}

// runLimited runs a command over a copy of the index within so many KiB, checks what it
// leaves, and says how it ended.
func runLimited(t *testing.T, dir, base string, limit int, args []string) (how string) {
	t.Helper()
	copied := filepath.Join(dir, "copy")
	if err := os.CopyFS(copied, os.DirFS(base)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(copied)
	what := fmt.Sprintf("%v within %d KiB", args, limit)
	how = args[0] + " done"
	var stdout, stderr bytes.Buffer
	limited := limitedProcess(limit, args...)
	limited.Dir, limited.Stdout, limited.Stderr = dir, &stdout, &stderr
	if err := limited.Run(); err != nil {
		if !outOfMemory.Match(stderr.Bytes()) {
			t.Errorf("%s: %v\n%.2000s", what, err, &stderr)
		}
		how = args[0] + " out of memory"
	}
	if out, err := process("verify", "-index", copied).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", what, err, out)
	}
	if args[0] == "dedup" {
		checkStored(t, what, copied, stdout.Bytes())
	}
	again := process(args...)
	again.Dir = dir
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("%s, and once more without a limit: %v\n%s", what, err, out)
	}
	return how
}

// checkStored checks that the documents that dedup printed as new are in the index.
func checkStored(t *testing.T, what, dir string, printed []byte) {
	t.Helper()
	stored := strings.Join(exported(t, dir), "\n") + "\n"
	for _, line := range verdictLines(printed) {
		if line.Verdict == "new" && !strings.Contains(stored, "\t"+line.Key+"\n") {
			t.Errorf("%s: %s was printed as new and is not stored", what, line.Key)
		}
	}
}

// limitedProcess is the command with so many KiB of address space.
func limitedProcess(kib int, args ...string) *exec.Cmd {
	cmd := process()
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, kib), os.Args[0]}, args...)
	return cmd
}

// leastAddressSpace is about the least in KiB with which the program comes to its own code.
func leastAddressSpace(t *testing.T) int {
	t.Helper()
	low, high := 0, 8<<20
	for high-low > 8<<10 {
		middle := (low + high) / 2
		if limitedProcess(middle, "version").Run() == nil {
			high = middle
		} else {
			low = middle
		}
	}
	if high == 8<<20 {
		t.Skip("the program does not start within 8 GiB of address space")
	}
	return high
}

// TestGoMemoryLimit: GOMEMLIMIT makes the command slow, and nothing else.
func TestGoMemoryLimit(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("the race detector takes memory of its own, and long where there is little")
	}
	r := rand.New(rand.NewPCG(testseed.Of(t), 12))
	dir := t.TempDir()
	base := limitedIndex(t, dir, r)
	work := limitedWork
	if os.Getenv("NEARDUP_CI") == "" {
		work = work[:3]
	}
	for _, args := range work {
		copied := filepath.Join(dir, "copy")
		if err := os.CopyFS(copied, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{args, {"verify", "-index", "copy"}} {
			cmd := process(command...)
			cmd.Dir, cmd.Env = dir, append(cmd.Environ(), "GOMEMLIMIT=4MiB")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", command, err, out)
			}
		}
		if err := os.RemoveAll(copied); err != nil {
			t.Fatal(err)
		}
	}
}
