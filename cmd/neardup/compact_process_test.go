package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// contents has the documents that an index should have.
type contents struct {
	keyed map[string]fingerprint.Fingerprint
	bare  []fingerprint.Fingerprint
}

func (c *contents) add(docs []index.Document) {
	for _, d := range docs {
		if d.Key == "" {
			c.bare = append(c.bare, d.Fingerprint)
		} else {
			c.keyed[d.Key] = d.Fingerprint
		}
	}
}

// exported returns the expected output of export, sorted.
func (c *contents) exported() []string {
	var lines []string
	for key, fp := range c.keyed {
		lines = append(lines, fmt.Sprintf("%s\t%s", fp, key))
	}
	for _, fp := range c.bare {
		lines = append(lines, fp.String())
	}
	slices.Sort(lines)
	return lines
}

// drawDocuments returns documents. Half of them have a key, and keys may be repeated.
func drawDocuments(r *rand.Rand, n, keys int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
		if i%2 == 0 {
			docs[i].Key = fmt.Sprintf("http://a.example/%d", r.IntN(keys))
		}
	}
	return docs
}

func writeFingerprints(t *testing.T, path string, docs []index.Document) {
	t.Helper()
	var out strings.Builder
	for _, d := range docs {
		fmt.Fprintf(&out, "%s\t%s\n", d.Fingerprint, d.Key)
	}
	writeFile(t, path, strings.ReplaceAll(out.String(), "\t\n", "\n"))
}

// sizes has the size of the index and of the imported data.
type sizes struct{ packed, since, deleted, keys, imported int }

func testSizes() sizes {
	if os.Getenv("NEARDUP_CI") != "" && !testing.Short() {
		return sizes{12_000, 4_000, 400, 8_000, 4_000}
	}
	return sizes{6_000, 2_000, 200, 4_000, 2_000}
}

// makeIndex makes an index with many packed documents and some live ones. Some of both were
// replaced or deleted.
func makeIndex(t *testing.T, dir string, r *rand.Rand) *contents {
	t.Helper()
	c := &contents{keyed: make(map[string]fingerprint.Fingerprint)}
	size := testSizes()
	docs := drawDocuments(r, size.packed, size.keys)
	c.add(docs)
	input := dir + ".txt"
	writeFingerprints(t, input, docs)
	mustRun(t, "import", "--index", dir, input)

	x, err := index.Open(dir, &index.Options{MustExist: true, Durability: index.NoSync})
	must(t, err)
	docs = drawDocuments(r, size.since, size.keys)
	c.add(docs)
	var gone []string
	for range size.deleted {
		gone = append(gone, fmt.Sprintf("http://a.example/%d", r.IntN(size.keys)))
		delete(c.keyed, gone[len(gone)-1])
	}
	ctx := context.Background()
	must(t, x.Add(ctx, docs...))
	if _, err := x.Delete(ctx, gone...); err != nil {
		t.Fatal(err)
	}
	must(t, x.Close())
	if got := exported(t, dir); !slices.Equal(got, c.exported()) {
		t.Fatalf("%d documents, want %d", len(got), len(c.exported()))
	}
	return c
}

// change is a command that is killed, with the contents of the index before and after it.
type change struct {
	args          []string
	before, after []string
	plan          string // after it; "": as before
	took          time.Duration
}

// TestKillCompaction kills a compaction or an import at a random moment. The index must have the
// state before or after the command, and the command must work again.
func TestKillCompaction(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 4))
	kills := 10
	switch {
	case os.Getenv("NEARDUP_LONG") != "":
		kills = 200
	// used with the race detector, with which every run takes ten times as long
	case testing.Short():
		kills = 2
	case os.Getenv("NEARDUP_CI") != "":
		kills = 20
	}
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	c := makeIndex(t, base, r)
	before := c.exported()
	size := testSizes()
	docs := drawDocuments(r, size.imported, size.keys)
	c.add(docs)
	input := filepath.Join(dir, "more.txt")
	writeFingerprints(t, input, docs)
	plan, err := plan.Named("3", 3)
	must(t, err)
	changes := []*change{
		{args: []string{"compact"}, before: before, after: before},
		{args: []string{"compact", "--plan", "3"}, before: before, after: before,
			plan: plan.String()},
		{args: []string{"import", input}, before: before, after: c.exported()},
	}
	copied := filepath.Join(dir, "copy")
	for _, change := range changes { // measures the duration of the command
		must(t, os.CopyFS(copied, os.DirFS(base)))
		change.finish(t, copied)
		must(t, os.RemoveAll(copied))
	}
	done := make(map[string]int)
	for n := 0; kills > 0; n++ {
		change := changes[n%len(changes)]
		must(t, os.CopyFS(copied, os.DirFS(base)))
		for range min(kills, 1+r.IntN(6)) {
			kills--
			ended := change.kill(t, copied, r)
			after := change.check(t, copied)
			if !after && ended {
				t.Fatalf("%v ended well and is not done", change.args)
			}
			done[fmt.Sprintf("ended %t, done %t", ended, after)]++
			if after {
				break
			}
		}
		change.finish(t, copied)
		must(t, os.RemoveAll(copied))
	}
	t.Log(done)
}

// command returns the arguments of the command for an index.
func (c *change) command(dir string) []string {
	return append([]string{c.args[0], "--index", dir}, c.args[1:]...)
}

// kill starts the command and kills it after a random time. It reports whether the command ended
// before that.
func (c *change) kill(t *testing.T, dir string, r *rand.Rand) (ended bool) {
	t.Helper()
	cmd := process(c.command(dir)...)
	must(t, cmd.Start())
	time.Sleep(time.Duration(r.Int64N(int64(max(c.took, 100*time.Millisecond)) * 5 / 4)))
	cmd.Process.Kill()
	err := cmd.Wait()
	// on Windows, a killed process has exited too
	if err != nil && cmd.ProcessState.Exited() && runtime.GOOS != "windows" {
		t.Fatalf("%v: %v", c.args, err)
	}
	return err == nil
}

// check reports whether the command took effect, and that nothing else changed.
func (c *change) check(t *testing.T, dir string) (done bool) {
	t.Helper()
	x, err := index.Open(dir, &index.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("after %v: %v", c.args, err)
	}
	stats := x.Stats()
	must(t, x.Close())
	done = stats.Generation > 1
	want := c.before
	if done {
		want = c.after
	}
	if got := exported(t, dir); !slices.Equal(got, want) {
		t.Fatalf("after %v, done %t: %d documents, want %d", c.args, done, len(got), len(want))
	}
	if done && c.plan != "" && stats.Plan != c.plan {
		t.Fatalf("after %v: plan %s, want %s", c.args, stats.Plan, c.plan)
	}
	return done
}

// finish runs the command, unless it took effect before, and then compacts.
func (c *change) finish(t *testing.T, dir string) {
	t.Helper()
	if !c.check(t, dir) {
		start := time.Now()
		if out, err := process(c.command(dir)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.args, err, out)
		}
		c.took = time.Since(start)
	}
	mustRun(t, "compact", "--index", dir)
	if !c.check(t, dir) {
		t.Fatalf("%v is not done", c.args)
	}
	if _, err := os.Stat(filepath.Join(dir, "incoming")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the folder incoming is left: %v", err)
	}
}
