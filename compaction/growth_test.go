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

// The index of TestGrowth grows in a separate process, under 8 writers, 4 readers and background
// compactions. The number of a document determines its content and the expected verdict. Most
// documents are new. Of eight documents one is a recrawl, and one is near an earlier document of
// the same writer.
const (
	growthWriters = 8
	growthReaders = 4
	growthBatch   = 32 // one commit per call, so a batch is present as a whole or not at all
)

// grown is the n-th document of a writer.
type grown struct {
	index.Document
	of       uint64 // number of the earlier document, or its own if it is new
	status   index.Status
	distance int
}

func growthDocument(writer, n uint64) grown {
	r := rand.New(rand.NewPCG(writer, n))
	g := grown{of: n, status: index.New}
	switch class := n % 8; {
	case class == 6 && n > 8: // a recrawled document, which has no near-duplicates
		g.of, g.status = r.Uint64N(n/8)*8+5, index.Known
	case class == 7 && n > 8:
		g.of, g.status, g.distance = r.Uint64N(n/8)*8+r.Uint64N(5), index.Duplicate, 1+r.IntN(3)
	default:
		g.Fingerprint = fingerprint.Fingerprint(r.Uint64())
		g.Key = fmt.Sprintf("http://%d.example/%d", writer, n)
		return g
	}
	g.Document = growthDocument(writer, g.of).Document
	if g.status == index.Duplicate {
		g.Key = fmt.Sprintf("http://%d.example/%d", writer, n)
		g.Fingerprint = near(r, g.Fingerprint, g.distance)
	}
	return g
}

// near returns fp with n random bits inverted.
func near(r *rand.Rand, fp fingerprint.Fingerprint, n int) fingerprint.Fingerprint {
	return fingerprint.Fingerprint(testgen.Flip(r, uint64(fp), ^uint64(0), n))
}

// growthStored returns how many of the first n documents of a writer are stored.
func growthStored(writer, n uint64) (stored uint64) {
	stored = n / 8 * 6
	for i := n / 8 * 8; i < n; i++ {
		if growthDocument(writer, i).status == index.New {
			stored++
		}
	}
	if n > 7 {
		stored += 2 // documents 6 and 7 have no earlier ones
	}
	return stored
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
		t.Skip("it is part of TestGrowth")
	}
	g := new(growing)
	for w, n := range strings.Fields(os.Getenv("NEARDUP_GROWN")) {
		done, err := strconv.ParseUint(n, 10, 64)
		must(t, err)
		g.done[w].Store(done)
	}
	atLeast, err := strconv.ParseUint(os.Getenv("NEARDUP_GROWTH_AT_LEAST"), 10, 64)
	must(t, err)
	if g.x, err = index.Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	watcher := watch(t, t.Context(), g.x, compaction.Policy{AtLeast: atLeast, Every: time.Second,
		Done: func(r compaction.Report, err error) {
			g.say("compaction %d %.1fs %v\n", r.Documents, r.Seconds, err)
		}})
	must(t, g.remembers())
	g.say("open\n")
	go func() {
		io.Copy(io.Discard, os.Stdin)
		g.over.Store(true)
		failed <- nil
	}()
	group, ctx := errgroup.WithContext(t.Context())
	for w := range uint64(growthWriters) {
		group.Go(func() error { return g.write(ctx, w) })
	}
	for n := range uint64(growthReaders) {
		group.Go(func() error { return g.read("query", n, &g.over) })
	}
	must(t, group.Wait())
	watcher.Close()
	var quiet atomic.Bool
	time.AfterFunc(time.Duration(testenv.Number(200, 200, 2000, 2000))*time.Millisecond,
		func() { quiet.Store(true) })
	must(t, g.read("quiet", 1, &quiet), g.x.Close())
	g.say("closed\n")
}

func (g *growing) say(format string, args ...any) {
	g.out.Lock()
	defer g.out.Unlock()
	fmt.Fprintf(os.Stdout, format, args...)
}

// remembers looks up the last acknowledged documents and some earlier ones.
func (g *growing) remembers() error {
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for w := range uint64(growthWriters) {
		done := g.done[w].Load()
		for i := range min(done, 200) {
			n := done - 1 - i
			if i >= 100 {
				n = r.Uint64N(done)
			}
			want := growthDocument(w, n)
			got, found, err := g.x.Get(context.Background(), want.Key)
			if stored := want.status != index.Duplicate; err != nil || found != stored || found &&
				got.Fingerprint != want.Fingerprint {
				return fmt.Errorf("document %d of writer %d, %+v: %+v, %t, %v", n, w, want,
					got, found, err)
			}
		}
	}
	return nil
}

func (g *growing) write(ctx context.Context, w uint64) error {
	for again := true; ctx.Err() == nil && !g.over.Load(); again = false {
		first := g.done[w].Load()
		var docs []index.Document
		for n := range uint64(growthBatch) {
			docs = append(docs, growthDocument(w, first+n).Document)
		}
		start := time.Now()
		verdicts, err := g.x.CheckAndAddBatch(ctx, docs)
		took := time.Since(start)
		if err != nil {
			return err
		}
		for i, v := range verdicts {
			want := growthDocument(w, first+uint64(i))
			// a killed process stored it without reporting it
			known := again && want.status == index.New && v.Status == index.Known
			if !known && v.Status != want.status || v.Status != index.New &&
				v.Of.Key != growthDocument(w, want.of).Key || v.Of.Distance != want.distance {
				return fmt.Errorf("document %d of writer %d: %+v, not %+v",
					first+uint64(i), w, v, want)
			}
		}
		g.done[w].Store(first + growthBatch)
		g.say("ack %d %d %d\n", w, first+growthBatch, took.Microseconds())
	}
	return ctx.Err()
}

// read queries stored and unknown documents, at most a thousand times per second.
func (g *growing) read(name string, number uint64, over *atomic.Bool) error {
	r := rand.New(rand.NewPCG(number, uint64(time.Now().UnixNano())))
	for !over.Load() {
		random := fingerprint.Signature{Fingerprint: fingerprint.Fingerprint(r.Uint64())}
		q, want, w := index.Query{Signature: random}, grown{}, r.Uint64N(growthWriters)
		if done := g.done[w].Load(); done > 0 && r.IntN(2) == 0 {
			if want = growthDocument(w, r.Uint64N(done)); want.status == index.New {
				want.distance = r.IntN(4)
				q.Fingerprint = near(r, want.Fingerprint, want.distance)
			} else {
				want = grown{}
			}
		}
		start := time.Now()
		got, err := g.x.Query(context.Background(), q)
		took := time.Since(start)
		if err != nil {
			return err
		}
		if there := want.Key != ""; len(got) > 1 || there != (len(got) == 1) || there &&
			(got[0].Key != want.Key || got[0].Distance != want.distance) {
			return fmt.Errorf("query %v: %+v, not %+v", q.Fingerprint, got, want)
		}
		g.say("%s %d\n", name, took.Microseconds())
		time.Sleep(time.Millisecond)
	}
	return nil
}

// growth is what the parent process records.
type growth struct {
	t       *testing.T
	dir     string
	atLeast uint64
	done    [growthWriters]uint64

	quarters [4]quarter
	now      *quarter // receives the times; nil while processes are killed
}

// quarter has the figures of the part of a quarter in which no process is killed.
type quarter struct {
	documents   uint64
	seconds     float64
	calls       []int64 // microseconds
	queries     []int64
	quiet       []int64 // queries while no writes or compactions run
	compactions int
}

func (g *growth) total() (n uint64) {
	for _, done := range g.done {
		n += done
	}
	return n
}

// run starts a process. It kills the process after the given time, or ends it at the given number
// of documents.
func (g *growth) run(kill bool, most time.Duration, documents uint64) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestGrowing$", "-test.timeout", "0")
	cmd.Env = append(os.Environ(), "NEARDUP_GROWING="+g.dir,
		"NEARDUP_GROWN="+strings.Trim(fmt.Sprint(g.done), "[]"),
		fmt.Sprint("NEARDUP_GROWTH_AT_LEAST=", g.atLeast), "MALLOC_ARENA_MAX=1")
	in, err := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	var complaint, other bytes.Buffer // standard error, and unexpected lines of standard output
	cmd.Stderr = &complaint
	if err := errors.Join(err, outErr, cmd.Start()); err != nil {
		g.t.Fatal(err)
	}
	end := func() { in.Close() }
	if kill {
		end = func() { cmd.Process.Kill() }
	}
	timer := time.AfterFunc(most, end)
	defer timer.Stop()
	before := g.total()
	var opened, last time.Time
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var w, n uint64
		var us int64
		line := lines.Text()
		switch what, rest, _ := strings.Cut(line, " "); what {
		case "open":
			opened = time.Now()
		case "ack":
			fmt.Sscan(rest, &w, &n, &us)
			g.done[w], last = n, time.Now()
			if g.now != nil {
				g.now.calls = append(g.now.calls, us)
			}
			if g.total() >= documents {
				end()
			}
		case "query", "quiet":
			fmt.Sscan(rest, &us)
			if g.now != nil && what == "query" {
				g.now.queries = append(g.now.queries, us)
			} else if g.now != nil {
				g.now.quiet = append(g.now.quiet, us)
			}
		case "compaction":
			if g.now != nil {
				g.now.compactions++
			}
		default:
			fmt.Fprintln(&other, line)
		}
	}
	if err := cmd.Wait(); !kill && err != nil || cmd.ProcessState.Exited() &&
		!cmd.ProcessState.Success() {
		g.t.Fatalf("%v: %s%s", err, complaint.String(), other.String())
	}
	if g.now != nil && !opened.IsZero() {
		g.now.documents += g.total() - before
		g.now.seconds += last.Sub(opened).Seconds()
	}
}

// TestGrowth lets an index grow and kills its process at times. With NEARDUP_LONG it stops at 20
// million documents or after 28 minutes, and kills 200 times. NEARDUP_GROWTH sets other numbers
// of documents, minutes and kills. Each quarter begins with its kills, and only the remaining
// time is measured.
func TestGrowth(t *testing.T) {
	documents, minutes, kills := uint64(testenv.Number(4_000, 40_000, 200_000, 20_000_000)), 28.,
		testenv.Number(2, 4, 20, 200)
	if text := os.Getenv("NEARDUP_GROWTH"); text != "" {
		if _, err := fmt.Sscan(text, &documents, &minutes, &kills); err != nil {
			t.Fatalf("NEARDUP_GROWTH: %v", err)
		}
	} else if !testenv.Long() {
		t.Parallel()
	}
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 20))
	g := &growth{t: t, dir: filepath.Join(t.TempDir(), "ix"), atLeast: max(1000, documents/20)}
	start := time.Now()
	for n := range uint64(4) {
		for range kills / 4 {
			g.run(true,
				time.Duration(r.IntN(testenv.Number(600, 600, 1500, 2500)))*time.Millisecond, 1<<63)
		}
		g.now = &g.quarters[n]
		share := time.Duration(float64(n+1) / 4 * minutes * float64(time.Minute))
		g.run(false, share-time.Since(start), max(documents*(n+1)/4, g.total()+documents/8))
		g.now = nil
	}
	g.report(time.Since(start))
	if err := g.compare(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

func (g *growth) report(took time.Duration) {
	rate := func(q *quarter) float64 { return float64(q.documents) / max(q.seconds, 1e-9) }
	for n := range g.quarters {
		q := &g.quarters[n]
		g.t.Logf("quarter %d: %d documents in %.1f s, %.0f/s, %d compactions; calls of %d: p50 "+
			"%d us, p99 %d, longest %d; queries: p50 %d us, p99 %d, longest %d; when quiet p50 "+
			"%d, p99 %d",
			n+1, q.documents, q.seconds, rate(q), q.compactions, growthBatch, share(q.calls, .5),
			share(q.calls, .99), share(q.calls, 1),
			share(q.queries, .5), share(q.queries, .99), share(q.queries, 1), share(q.quiet, .5),
			share(q.quiet, .99))
		if testenv.Long() && share(q.calls, 1) > time.Second.Microseconds() {
			g.t.Errorf("quarter %d: a write took %d us", n+1, share(q.calls, 1))
		}
		if testenv.Long() && share(q.queries, .99) > 5*share(q.quiet, .99) {
			g.t.Errorf("quarter %d: p99 of queries is %d us, and %d when it is quiet", n+1,
				share(q.queries, .99), share(q.quiet, .99))
		}
	}
	first, last := rate(&g.quarters[0]), rate(&g.quarters[3])
	g.t.Logf("%d documents checked in %v; last quarter at %.2f of the first", g.total(),
		took, last/first)
	if testenv.Long() && last < .8*first {
		g.t.Errorf("the last quarter went at %.2f of the first", last/first)
	}
}

// share returns a quantile of times, which it sorts.
func share(times []int64, of float64) int64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, int(of*float64(len(times))))]
}

// compare checks every document at the end.
func (g *growth) compare() error {
	x, err := index.Open(g.dir, &index.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer x.Close()
	want := uint64(0)
	for w, n := range g.done {
		want += growthStored(uint64(w), n)
	}
	got := uint64(0)
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
		return fmt.Errorf("%d documents, by the counters %d, not %d", got,
			x.Stats().Documents, want)
	}
	if want < 2_000_000 {
		return indextest.Problems(x)
	}
	return nil
}
