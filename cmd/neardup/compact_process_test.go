package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// randomList returns a list of fingerprints. Half of them have a key, and keys are repeated.
func randomList(r *rand.Rand, n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "%016x", r.Uint64())
		if i%2 == 0 {
			fmt.Fprintf(&list, "\thttp://a.example/%d", r.IntN(4000))
		}
		list.WriteByte('\n')
	}
	return list.String()
}

// createIndex creates an index with many packed documents and some live ones. Some of both were
// replaced or deleted.
func createIndex(t *testing.T, dir string, r *rand.Rand) {
	t.Helper()
	mustRun(t, "import", "--index", dir, writeFile(t, "packed.txt", randomList(r, 6000)))
	mustRun(t, "dedup", "--keep-duplicates", "--index", dir, "--format", "fingerprints",
		writeFile(t, "live.txt", randomList(r, 2000)))
	var keys strings.Builder
	for range 200 {
		fmt.Fprintf(&keys, "http://a.example/%d\n", r.IntN(4000))
	}
	if code, _, said := runHere(keys.String(), "delete", "--index", dir, "-"); code != exitDone {
		t.Fatal(said)
	}
}

// state is the contents of an index. A compaction or an import increases its generation.
type state struct {
	compacted bool
	plan      string
	documents string
}

func stateOf(t *testing.T, dir string) state {
	t.Helper()
	x, err := index.Open(dir, &index.Options{ReadOnly: true})
	must(t, err)
	stats := x.Stats()
	must(t, x.Close())
	return state{stats.Generation > 1, stats.Plan, strings.Join(exported(t, dir), "\n")}
}

// TestKillCompaction kills a compaction or an import at a random moment. The index must have the
// state before or after the command, and the command must work again.
func TestKillCompaction(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 4))
	dir := t.TempDir()
	base, copied := filepath.Join(dir, "base"), filepath.Join(dir, "copy")
	createIndex(t, base, r)
	before := stateOf(t, base)
	restore := func() { must(t, os.RemoveAll(copied), os.CopyFS(copied, os.DirFS(base))) }
	seen := make(map[string]int)
	for _, args := range [][]string{{"compact"}, {"compact", "--plan", "3"},
		{"import", writeFile(t, "more.txt", randomList(r, 2000))}} {
		args = append(args, "--index", copied)
		restore()
		start := time.Now()
		if out, err := process(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		took, after := time.Since(start), stateOf(t, copied)
		restore() // a second import would add the documents without keys again
		for range testenv.Number(1, 4, 12, 70) {
			ended := runFor(t, time.Duration(r.Int64N(int64(took)*5/4)), args...)
			now := stateOf(t, copied)
			if now != after && (now != before || ended) {
				t.Fatalf("%v, ended %t: the index has %d documents, compacted %t, plan %s", args,
					ended, strings.Count(now.documents, "\n"), now.compacted, now.plan)
			}
			seen[fmt.Sprintf("ended %t, done %t", ended, now == after)]++
			if now == after || r.IntN(6) == 0 {
				restore()
			}
		}
		mustRun(t, args...)
		mustRun(t, "compact", "--index", copied)
		if now := stateOf(t, copied); now != after {
			t.Fatalf("%v is not done: compacted %t, plan %s", args, now.compacted, now.plan)
		}
		if _, err := os.Stat(filepath.Join(copied, "incoming")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the folder incoming remains: %v", err)
		}
	}
	t.Log(seen)
}

// runFor starts the command and kills it after some time. It reports whether the command ended
// before.
func runFor(t *testing.T, limit time.Duration, args ...string) (ended bool) {
	t.Helper()
	cmd := process(args...)
	must(t, cmd.Start())
	time.Sleep(limit)
	cmd.Process.Kill()
	err := cmd.Wait()
	// on Windows, a killed process has exited too
	if err != nil && cmd.ProcessState.Exited() && runtime.GOOS != "windows" {
		t.Fatalf("%v: %v", args, err)
	}
	return err == nil
}
