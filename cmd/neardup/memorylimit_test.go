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

	"github.com/neardup/neardup/internal/testing/testenv"
)

// outOfMemory is how Go and the C library end a program that gets no memory.
var outOfMemory = regexp.MustCompile(`out of memory|cannot allocate memory|failed to reserve|failed to create new OS thread|pthread_create failed|errno=12`)

// limited is what is run with too little memory: on a copy of an index that is half packed.
type limited struct {
	base, copied string
	work         [][]string
}

func newLimited(t *testing.T, seed uint64) *limited {
	t.Helper()
	r, dir, size := rand.New(rand.NewPCG(testenv.Seed(t), seed)), t.TempDir(), 4000
	if os.Getenv("NEARDUP_LONG") != "" {
		size = 40_000
	}
	l := &limited{base: filepath.Join(dir, "base"), copied: filepath.Join(dir, "copy")}
	list, docs := filepath.Join(dir, "list.txt"), filepath.Join(dir, "docs.jsonl")
	writeFingerprints(t, list, drawDocuments(r, size, size))
	writeCopies(t, docs, size/40, 2, r)
	mustRun(t, "dedup", "--index", l.base, docs)
	mustRun(t, "import", "--index", l.base, list)
	mustRun(t, "dedup", "--keep-duplicates", "--index", l.base, "--format", "fingerprints", list)
	for _, args := range []string{
		"dedup --index COPY DOCS", "dedup --keep-duplicates --index COPY --format fingerprints LIST", "query --index COPY --format fingerprints LIST", "compact --index COPY",
		"import --index COPY LIST", "pairs --index COPY", "pairs LIST", "clusters --index COPY",
	} {
		l.work = append(l.work, strings.Fields(strings.NewReplacer("COPY", l.copied, "DOCS", docs, "LIST", list).Replace(args)))
	}
	return l
}

// on makes a new copy of the index, for do.
func (l *limited) on(t *testing.T, do func()) {
	t.Helper()
	must(t, os.CopyFS(l.copied, os.DirFS(l.base)))
	do()
	must(t, os.RemoveAll(l.copied))
}

// TestAddressSpaceLimit: with less memory than it needs, the command works, or Go ends it and
// says why; what it had printed is stored, the index is whole, and the same command does its
// work once there is memory.
func TestAddressSpaceLimit(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("ulimit -v bounds the memory of a process on Linux only")
	}
	if testenv.Race {
		t.Skip("the race detector takes more address space than any limit leaves")
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh to set the limit: ", err)
	}
	l := newLimited(t, 11)
	r := rand.New(rand.NewPCG(testenv.Seed(t), 13))
	least := leastAddressSpace(t)
	runs := 3
	switch {
	case os.Getenv("NEARDUP_LONG") != "":
		runs = 500
	case os.Getenv("NEARDUP_CI") != "":
		runs = 16
	}
	ended := make(map[string]int)
	for n := range runs {
		// Some do not come to their work, some to a part of it, some to all.
		kib, args := least-8<<10+r.IntN(96<<10), l.work[n%len(l.work)]
		l.on(t, func() { ended[args[0]+" "+l.run(t, kib, args)]++ })
	}
	t.Logf("from %d KiB on: %v", least, ended)
}

// run runs a command within so many KiB, checks what it leaves, and says how it ended.
func (l *limited) run(t *testing.T, kib int, args []string) (how string) {
	t.Helper()
	what := fmt.Sprintf("%v within %d KiB", args, kib)
	how = "done"
	var stdout, stderr bytes.Buffer
	cmd := limitedProcess(kib, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if !outOfMemory.Match(stderr.Bytes()) {
			t.Errorf("%s: %v\n%.2000s", what, err, &stderr)
		}
		how = "out of memory"
	}
	mustRun(t, "verify", "--index", l.copied)
	stored := strings.Join(exported(t, l.copied), "\n") + "\n"
	if args[0] == "dedup" {
		for _, line := range verdictLines(stdout.Bytes()) {
			if line.Verdict == "new" && !strings.Contains(stored, "\t"+line.Key+"\n") {
				t.Errorf("%s: %s was printed as new and is not stored", what, line.Key)
			}
		}
	}
	if code, _, diagnostics := runHere("", args...); code != exitDone {
		t.Errorf("%s, and once more without a limit: %d\n%s", what, code, diagnostics)
	}
	return how
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
	if testenv.Race {
		t.Skip("the race detector takes memory of its own, and long where there is little")
	}
	l := newLimited(t, 12)
	work := append([][]string{{"verify", "--index", l.copied}}, l.work...)
	if os.Getenv("NEARDUP_CI") == "" {
		work = work[:3]
	}
	for _, args := range work {
		l.on(t, func() {
			cmd := process(args...)
			cmd.Env = append(cmd.Environ(), "GOMEMLIMIT=4MiB")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
			mustRun(t, "verify", "--index", l.copied)
		})
	}
}
