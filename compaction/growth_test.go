package compaction_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"golang.org/x/sync/errgroup"
)

// The index of TestGrowth grows in a separate process, with 8 writers, 4 readers and background
// compactions. The number of a document determines its content and the expected verdict. Of eight
// documents, six are new, one is a recrawl, and one is near an earlier document of its writer.
const (
	growthWriters = 8
	growthReaders = 4
	growthBatch   = 32 // one commit per call, so a batch is present as a whole or not at all
)

// grown is the n-th document of a writer.
type grown struct {
	index.Document
	of       string       // key of the earlier document, or its own if it is new
	status   index.Status // expected
	distance int
}

func growthDocument(writer, n uint64) grown {
	r := rand.New(rand.NewPCG(writer, n))
	g := grown{status: index.New}
	g.Fingerprint = fingerprint.Fingerprint(r.Uint64())
	g.Key = fmt.Sprintf("http://%d.example/%d", writer, n)
	g.of = g.Key
	switch class := n % 8; {
	case class == 6 && n > 8: // a recrawled document, which has no near-duplicates
		g = growthDocument(writer, r.Uint64N(n/8)*8+5)
		g.status = index.Known
	case class == 7 && n > 8:
		of := growthDocument(writer, r.Uint64N(n/8)*8+r.Uint64N(5))
		g.of, g.status, g.distance = of.Key, index.Duplicate, 1+r.IntN(3)
		g.Fingerprint = near(r, of.Fingerprint, g.distance)
	}
	return g
}

// near returns fp with n random bits inverted.
func near(r *rand.Rand, fp fingerprint.Fingerprint, n int) fingerprint.Fingerprint {
	return fingerprint.Fingerprint(testgen.Flip(r, uint64(fp), ^uint64(0), n))
}

// growing is the state of the process that is killed.
type growing struct {
	x    *index.Index
	done [growthWriters]atomic.Uint64 // acknowledged documents per writer
	over atomic.Bool
	out  sync.Mutex
}

// TestGrowing is not a test. It is the process that TestGrowth starts and kills. It prints each
// acknowledged batch, and times in microseconds, on standard output. It ends when standard input
// ends.
func TestGrowing(t *testing.T) {
	dir := os.Getenv("NEARDUP_GROWING")
	if dir == "" {
		t.Skip("not a test: TestGrowth starts it")
	}
	g := new(growing)
	for w, n := range strings.Fields(os.Getenv("NEARDUP_GROWN")) {
		done, err := strconv.ParseUint(n, 10, 64)
		must(t, err)
		g.done[w].Store(done)
	}
	var err error
	g.x, err = index.Open(dir, nil)
	must(t, err)
	watcher := watch(t, g.x, compaction.Policy{AtLeast: 1000, Every: time.Second,
		Done: func(r compaction.Report, err error) { g.say("compaction", err) }})
	g.say("open")
	go func() {
		io.Copy(io.Discard, os.Stdin)
		g.over.Store(true)
	}()
	group, ctx := errgroup.WithContext(t.Context())
	for w := range uint64(growthWriters) {
		group.Go(func() error { return g.write(ctx, w) })
	}
	for n := range uint64(growthReaders) {
		group.Go(func() error { return g.read(ctx, "query", n, &g.over) })
	}
	must(t, group.Wait())
	watcher.Close()
	var quiet atomic.Bool
	time.AfterFunc(time.Duration(testenv.Number(200, 200, 2000, 2000))*time.Millisecond,
		func() { quiet.Store(true) })
	must(t, g.read(t.Context(), "quiet", 1, &quiet), g.x.Close())
}

func (g *growing) say(words ...any) {
	g.out.Lock()
	defer g.out.Unlock()
	fmt.Fprintln(os.Stdout, words...)
}

func (g *growing) write(ctx context.Context, w uint64) error {
	for again := true; ctx.Err() == nil && !g.over.Load(); again = false {
		first := g.done[w].Load()
		var want []grown
		var docs []index.Document
		for n := range uint64(growthBatch) {
			want = append(want, growthDocument(w, first+n))
			docs = append(docs, want[n].Document)
		}
		start := time.Now()
		verdicts, err := g.x.CheckAndAddBatch(ctx, docs)
		took := time.Since(start)
		if err != nil {
			return err
		}
		for i, v := range verdicts {
			// a killed process has stored the document without reporting it
			known := again && want[i].status == index.New && v.Status == index.Known
			if !known && v.Status != want[i].status || v.Status != index.New &&
				(v.Of.Key != want[i].of || v.Of.Distance != want[i].distance) {
				return fmt.Errorf("document %d of writer %d: %+v, want %+v",
					first+uint64(i), w, v, want[i])
			}
		}
		g.done[w].Store(first + growthBatch)
		g.say("ack", took.Microseconds(), w, first+growthBatch)
	}
	return ctx.Err()
}

// read queries stored and unknown documents, at most a thousand times per second.
func (g *growing) read(
	ctx context.Context, name string, number uint64, over *atomic.Bool,
) error {
	r := rand.New(rand.NewPCG(number, uint64(time.Now().UnixNano())))
	for ctx.Err() == nil && !over.Load() {
		want, w := grown{}, r.Uint64N(growthWriters)
		q := index.Query{Signature: fingerprint.Signature{
			Fingerprint: fingerprint.Fingerprint(r.Uint64())}}
		if done := g.done[w].Load(); done > 0 && r.IntN(2) == 0 {
			if d := growthDocument(w, r.Uint64N(done)); d.status == index.New {
				want, want.distance = d, r.IntN(4)
				q.Fingerprint = near(r, want.Fingerprint, want.distance)
			}
		}
		start := time.Now()
		got, err := g.x.Query(ctx, q)
		took := time.Since(start)
		if err != nil {
			return err
		}
		if there := want.Key != ""; len(got) > 1 || there != (len(got) == 1) || there &&
			(got[0].Key != want.Key || got[0].Distance != want.distance) {
			return fmt.Errorf("query %v: %+v, want %+v", q.Fingerprint, got, want)
		}
		g.say(name, took.Microseconds())
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// growth is what the parent process records.
type growth struct {
	t    *testing.T
	dir  string
	done [growthWriters]uint64
}

// quarter has the figures of the part of a quarter in which no process is killed.
type quarter struct {
	rate  float64            // documents per second
	times map[string][]int64 // microseconds of batches, of queries, and of queries without writes
}

func (g *growth) total() (n uint64) {
	for _, done := range g.done {
		n += done
	}
	return n
}

// run starts a process. It kills the process after the given time, or ends it at the given number
// of documents.
func (g *growth) run(kill bool, most time.Duration, documents uint64) (q quarter) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestGrowing$", "-test.timeout", "0")
	cmd.Env = append(os.Environ(), "NEARDUP_GROWING="+g.dir,
		"NEARDUP_GROWN="+strings.Trim(fmt.Sprint(g.done), "[]"), "MALLOC_ARENA_MAX=1")
	in, err := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	var complaint, other bytes.Buffer // standard error, and unexpected lines of standard output
	cmd.Stderr = &complaint
	must(g.t, err, outErr, cmd.Start())
	end := func() { in.Close() }
	if kill {
		end = func() { cmd.Process.Kill() }
	}
	defer time.AfterFunc(most, end).Stop()
	before, opened, last := g.total(), time.Now(), time.Now()
	q.times = make(map[string][]int64)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var us int64
		var w, n uint64
		name, rest, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "open":
			opened = time.Now()
		case "ack":
			fmt.Sscan(rest, &us, &w, &n)
			g.done[w], last = n, time.Now()
			if g.total() >= documents {
				end()
			}
		case "query", "quiet", "compaction":
			fmt.Sscan(rest, &us)
		default:
			fmt.Fprintln(&other, lines.Text())
		}
		q.times[name] = append(q.times[name], us)
	}
	if err := cmd.Wait(); !kill && err != nil || cmd.ProcessState.Exited() &&
		!cmd.ProcessState.Success() {
		g.t.Fatalf("%v: %s%s", err, complaint.String(), other.String())
	}
	q.rate = float64(g.total()-before) / max(last.Sub(opened).Seconds(), 1e-9)
	return q
}

// TestGrowth lets an index grow and kills its process repeatedly. With NEARDUP_LONG, it stops at 20
// million documents or after 28 minutes, and kills 200 times. Each quarter begins with its kills,
// and only the remaining time is measured.
func TestGrowth(t *testing.T) {
	documents := uint64(testenv.Number(4_000, 40_000, 200_000, 20_000_000))
	kills := testenv.Number(4, 4, 20, 200)
	if !testenv.Long() {
		t.Parallel()
	}
	r := rand.New(rand.NewPCG(testenv.Seed(t), 20))
	g := &growth{t: t, dir: filepath.Join(t.TempDir(), "ix")}
	start := time.Now()
	var rates []float64
	for n := range uint64(4) {
		for range kills / 4 {
			most := time.Duration(r.IntN(testenv.Number(600, 600, 1500, 2500))) * time.Millisecond
			g.run(true, most, 1<<63)
		}
		end := start.Add(time.Duration(n+1) * 7 * time.Minute)
		q := g.run(false, time.Until(end), max(documents*(n+1)/4, g.total()+documents/8))
		rates = append(rates, q.rate)
		t.Logf("quarter %d: %.0f/s, %d compactions; calls of %d: %s; queries: %s; when quiet: %s",
			n+1, q.rate, len(q.times["compaction"]), growthBatch, quantiles(q.times["ack"]),
			quantiles(q.times["query"]), quantiles(q.times["quiet"]))
		if !testenv.Long() {
			continue
		}
		if longest := quantile(q.times["ack"], 1); longest > time.Second.Microseconds() {
			t.Errorf("quarter %d: a write took %d us", n+1, longest)
		}
		query, quiet := quantile(q.times["query"], .99), quantile(q.times["quiet"], .99)
		if query > 5*quiet {
			t.Errorf("quarter %d: p99 of queries is %d us, and %d us without writes", n+1, query,
				quiet)
		}
	}
	t.Logf("%d documents checked in %v; the rate of the last quarter is %.2f of the first",
		g.total(), time.Since(start), rates[3]/rates[0])
	if testenv.Long() && rates[3] < .8*rates[0] {
		t.Error("the last quarter was too slow")
	}
	must(t, g.compare())
}

// quantile returns a quantile of times, which it sorts.
func quantile(times []int64, of float64) int64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, int(of*float64(len(times))))]
}

func quantiles(times []int64) string {
	return fmt.Sprintf("p50 %d us, p99 %d, longest %d", quantile(times, .5), quantile(times, .99),
		quantile(times, 1))
}

// compare checks every document at the end.
func (g *growth) compare() (err error) {
	x, err := index.Open(g.dir, &index.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	want, got := uint64(0), uint64(0)
	for w, done := range g.done {
		for n := range done {
			if growthDocument(uint64(w), n).status == index.New {
				want++
			}
		}
	}
	for d, err := range x.Documents(context.Background()) {
		if err != nil {
			return err
		}
		var w, n uint64
		if _, err := fmt.Sscanf(d.Key, "http://%d.example/%d", &w, &n); err != nil ||
			w >= growthWriters || n >= g.done[w] ||
			d.Fingerprint != growthDocument(w, n).Fingerprint {
			return fmt.Errorf("%+v was never added", d)
		}
		got++
	}
	if got != want || x.Stats().Documents != want {
		return fmt.Errorf("%d documents, %d by Stats, want %d", got, x.Stats().Documents, want)
	}
	if want > 2_000_000 {
		return nil
	}
	return indextest.Problems(x)
}
