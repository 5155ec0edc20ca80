package index_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"golang.org/x/sync/errgroup"
)

// length returns one of its arguments: the length of a test under the race detector, by default,
// with NEARDUP_CI or with NEARDUP_LONG.
func length(race, usual, ci, long int) int {
	if testenv.Race && !testenv.Long() {
		return race
	}
	return testenv.Number(usual/4, usual, ci, long)
}

// TestConcurrentHistories makes all kinds of calls from eight goroutines, with shared keys,
// scopes and groups of near-duplicates. Some order of the calls must explain every answer.
func TestConcurrentHistories(t *testing.T) {
	worlds(t, false, false,
		testenv.EnvInt(t, "NEARDUP_CALLS", length(4000, 25_000, 300_000, 10_000_000)))
}

// TestNestedHistories makes calls within other calls, at moments that are rare between goroutines:
// when the outer call checks its context, just before and after it opens a view or applies a
// commit, and before it creates a file of a compaction or a checkpoint. Some order of the calls
// must explain every answer.
func TestNestedHistories(t *testing.T) {
	worlds(t, true, false,
		testenv.EnvInt(t, "NEARDUP_CALLS", length(4000, 20_000, 200_000, 5_000_000)))
}

// TestConcurrentCrashHistories is like TestConcurrentHistories, with a slow disk and crashes at any
// moment. The remaining documents must be the result of all acknowledged calls and some of the
// unfinished calls. This includes the documents that verdicts name, and the content of checkpoints.
func TestConcurrentCrashHistories(t *testing.T) {
	worlds(t, false, true,
		testenv.EnvInt(t, "NEARDUP_CRASH_POINTS", length(30, 100, 1000, 10_000)))
}

// worlds runs worlds until the number of calls, or of crashes, reaches the wanted number.
func worlds(t *testing.T, nested, crash bool, want int) {
	t.Parallel()
	seed, done, n := testenv.Seed(t), 0, uint64(0)
	plans := roundPlans
	// Nested calls conflict most often on few sites. Under the race detector, a world with large
	// batches and without live entries in memory takes minutes.
	if nested || testenv.Race && !testenv.Long() {
		plans = plans[:3]
	}
	for ; done < want; n++ {
		rng := rand.New(rand.NewPCG(seed, n))
		w := &world{rng: rng, nested: nested, dir: "ix", at: make(map[place]int)}
		if crash {
			w.crashes = newCrashes(w)
		}
		err := w.begin()
		for rounds := 1 + rng.IntN(4); err == nil && rounds > 0; rounds-- {
			if err = w.round(plans[rng.IntN(len(plans))]); err == nil {
				err = w.betweenRounds(t.Context())
			}
		}
		if err := errors.Join(err, w.index.Close()); err != nil {
			w.options.FS = nil
			t.Fatalf("NEARDUP_SEED=%d, world %d, %+v: %v", seed, n, w.options, err)
		}
		done += w.done
	}
	t.Logf("%d calls or crashes in %d worlds", done, n)
}

// workerCount is the number of goroutines that call the index concurrently.
const workerCount = 8

// site is a small part of an index. Calls on different sites are independent. Calls on one site
// depend on each other.
type site struct {
	scope    string
	groups   [][]fingerprint.Fingerprint // groups of near-duplicates
	shingles fingerprint.ShingleSignature
	keys     []string
	urls     bool                // most keys are URLs of one host; texts have several distances
	docs     indextest.Documents // before the calls of the round

	mu    sync.Mutex
	calls []*call
	ids   []uint64 // recent IDs, for deletions
}

// world is an index and its expected content. Many goroutines call the index concurrently, with
// shared keys, scopes and groups of near-duplicates. The index must be linearizable: some order of
// the calls, each between its start and its end, must explain every answer. After a crash, the
// index must equal the result of such an order of all acknowledged calls and some of the unfinished
// calls.
type world struct {
	options index.Options
	index   *index.Index
	done    int // number of crashes, or of calls; each document of a batch counts

	compacts bool // the index is compacted during the calls
	nested   bool // calls are made within other calls, instead of from eight goroutines

	dir   string
	rng   *rand.Rand
	rule  indextest.Rule
	clock atomic.Int64
	ticks atomic.Int64 // clock of the index
	sites []*site
	at    map[place]int // sites by scope and fingerprint

	mu      sync.Mutex
	syncs   []*call // calls of Sync
	copies  []*checkpoint
	crashes *crashes // nil if the file system does not crash
	nest    *nest    // of the round, if calls are nested
}

type place struct {
	scope string
	fp    fingerprint.Fingerprint
}

// checkpoint is a checkpoint that was made during calls.
type checkpoint struct {
	dir        string
	start, end int64
	holds      []indextest.Documents // documents per site, set after all calls have ended
}

// begin opens an index in memory with random options.
func (w *world) begin() error {
	rng, disk := w.rng, vfs.FS(vfs.NewMem())
	if w.crashes != nil {
		disk = w.crashes.fs
	}
	w.compacts = rng.IntN(3) > 0
	w.options = index.Options{
		MaxDistance: []int{3, 3, 6, 1}[rng.IntN(4)], Now: w.now,
		CacheBytes: 1 << 18, FilterBytes: []int64{0, 0, -1, 64, 1 << 12}[rng.IntN(5)],
		MaxShingleDistance: []int{0, 0, 9, -1}[rng.IntN(4)],
		ShortAllowance:     []int{0, 0, 6, -1}[rng.IntN(4)],
		MaxLengthRatio:     []float64{0, 0, 1, -1}[rng.IntN(4)],
		SiteTexts:          []int{0, 64, 64, -1}[rng.IntN(4)], // few texts are drawn
		KeepDuplicates:     rng.IntN(5) == 0, Durability: []index.Durability{index.Sync, index.Sync,
			index.Sync, index.NoSync}[rng.IntN(4)],
		FS: index.Injecting(disk, func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && (strings.Contains(op.Path, "incoming") ||
				strings.HasPrefix(op.Path, "copy")) {
				w.nest.hook(writing)
			}
			return nil
		}),
	}
	return w.open()
}

// now returns a time that advances by one second every eight calls.
func (w *world) now() time.Time { return time.Unix(1_800_000_000+w.ticks.Add(1)/8, 0).UTC() }

func (w *world) open() (err error) {
	if w.index, err = index.Open(w.dir, &w.options); err != nil {
		return err
	}
	if w.rng.IntN(2) == 0 { // too few to list all writes of other calls
		w.index.ListWrites(1 + w.rng.IntN(20))
	}
	w.rule = indextest.RuleOf(w.options, w.index.Plan().MaxDistance)
	return nil
}

// compact compacts the open index. It sometimes starts two compactions, of which one waits for the
// other.
func (w *world) compact(ctx context.Context, rng *rand.Rand) error {
	var group errgroup.Group
	for range 1 + rng.IntN(4)/3 {
		group.Go(func() error {
			_, err := compaction.Compact(ctx, w.index, compaction.Options{MemoryBytes: 1 << 20})
			return err
		})
	}
	return group.Wait()
}

// betweenRounds leaves the index as it is, opens it again, or compacts it while it is closed.
func (w *world) betweenRounds(ctx context.Context) error {
	what := w.rng.IntN(4)
	if what == 0 {
		return nil
	}
	err := w.index.Close()
	if what > 1 && err == nil {
		_, err = compaction.Run(ctx, w.dir, compaction.Options{FS: w.options.FS,
			CacheBytes: w.options.CacheBytes, FilterBytes: w.options.FilterBytes})
	}
	return errors.Join(err, w.open())
}

// newSites adds n sites, and returns their numbers. If n is small, each gets enough groups of
// near-duplicates for all rounds.
func (w *world) newSites(n int) (numbers []int) {
	for range n {
		number := len(w.sites)
		s := &site{urls: number%4 > 1,
			scope: []string{"", "shared", fmt.Sprint("scope ", number)}[number%3]}
		for i := range s.shingles {
			s.shingles[i] = w.rng.Uint64()
		}
		for range max(4, 96/n) {
			var group []fingerprint.Fingerprint
			base := w.rng.Uint64()
			for _, bits := range []int{0, 1, 2, 3, 3, 5} {
				fp := fingerprint.Fingerprint(testgen.Flip(w.rng, base, ^uint64(0), bits))
				group = append(group, fp)
				w.at[place{s.scope, fp}] = number
			}
			s.groups = append(s.groups, group)
		}
		pair := testgen.CollidingKeys(uint64(number))
		s.keys = append(pair[:], fmt.Sprint("key ", number), fmt.Sprint("other key ", number))
		for i := range 40 {
			if s.urls {
				s.keys = append(s.keys, fmt.Sprintf("http://host-%d/%d", number+i/36, i))
			}
		}
		w.sites = append(w.sites, s)
		numbers = append(numbers, number)
	}
	return numbers
}

// roundPlan has the number of sites of a round, the number of calls per worker, and the batch size.
type roundPlan struct{ Sites, Calls, Batch int }

// largeBatch is the size from which a batch hardly ever repeats a key.
const largeBatch = 64

// roundPlans has rounds of mostly single calls on few sites, and rounds of large batches on many
// sites.
var roundPlans = []roundPlan{{2, 40, 6}, {4, 60, 6}, {8, 60, 20}, {400, 4, 250}}

// round lets all workers call the index. It then compares the answers, the stored documents and
// the files after crashes with the model.
func (w *world) round(p roundPlan) error {
	sites := w.newSites(max(1, p.Sites/2))
	for len(sites) < min(p.Sites, len(w.sites)) {
		if n := w.rng.IntN(len(w.sites)); !slices.Contains(sites, n) {
			sites = append(sites, n)
		}
	}
	// without this sync, a crash could lose earlier rounds
	if w.options.Durability == index.NoSync {
		if err := w.index.Sync(context.Background()); err != nil {
			return err
		}
	}
	workers := make([]*worker, workerCount)
	for n := range workers {
		workers[n] = &worker{w: w, rng: rand.New(rand.NewPCG(w.rng.Uint64(), uint64(n))),
			sites: sites, plan: p}
	}
	run := w.runConcurrently
	if w.nested {
		run = w.runNested
	}
	if err := run(workers); err != nil {
		return err
	}
	return w.settle()
}

// runConcurrently lets all workers call the index concurrently.
func (w *world) runConcurrently(workers []*worker) error {
	if w.crashes != nil {
		w.crashes.run(true)
		defer w.crashes.run(false)
	}
	over, end := context.WithCancel(context.Background())
	rng := rand.New(rand.NewPCG(w.rng.Uint64(), 1))
	var calls, background errgroup.Group
	background.Go(func() error { return w.keepCompacting(over, rng) })
	for _, k := range workers {
		calls.Go(func() error {
			for range k.plan.Calls {
				if err := k.call(context.Background(), everything); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := calls.Wait()
	end()
	return errors.Join(err, background.Wait())
}

// keepCompacting compacts the index until over ends. Some compactions get a context that ends at a
// random moment.
func (w *world) keepCompacting(over context.Context, rng *rand.Rand) error {
	for w.compacts && over.Err() == nil {
		limit := time.Hour
		if rng.IntN(3) == 0 {
			limit = time.Duration(rng.IntN(8000)) * time.Microsecond
		}
		ctx, cancel := context.WithTimeout(over, limit)
		err := w.compact(ctx, rng)
		failed := err != nil && ctx.Err() == nil
		cancel()
		if failed {
			return err
		}
		// leave most of the time to the calls
		time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond)
	}
	return nil
}

// settle compares the index with the model. The content of the index starts the next round.
func (w *world) settle() error {
	left, err := w.look(w.index)
	if err != nil {
		return err
	}
	for _, c := range w.copies {
		if c.holds, err = w.lookAt(w.options.FS, c.dir); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	for n, s := range w.sites {
		for _, c := range w.copies {
			s.calls = append(s.calls, found(n, c.start, c.end, c.holds[n]))
		}
		now := w.clock.Add(2)
		calls := append(slices.Clip(s.calls), found(n, now-1, now, left[n]))
		if err := explain(s.docs, calls); err != nil {
			return err
		}
	}
	if w.crashes != nil {
		if err := w.crashes.check(); err != nil {
			return err
		}
	}
	for n, s := range w.sites {
		if w.crashes == nil {
			w.done += len(s.calls)
		}
		s.docs, s.calls, s.ids = left[n], nil, nil
		for _, d := range s.docs {
			s.ids = append(s.ids, d.ID)
		}
	}
	for _, c := range w.copies {
		if err := w.options.FS.RemoveAll(c.dir); err != nil {
			return err
		}
	}
	w.syncs, w.copies = nil, nil
	return nil
}

// look verifies the index, and returns the documents of each site.
func (w *world) look(x *index.Index) ([]indextest.Documents, error) {
	sites, err := w.documents(context.Background(), x)
	if err := errors.Join(indextest.Problems(x), err); err != nil {
		return nil, err
	}
	total := len(slices.Concat(sites...))
	if stats := x.Stats(); stats.Documents != uint64(total) {
		return nil, fmt.Errorf("%d documents, by the counters %d", total, stats.Documents)
	}
	return sites, nil
}

// lookAt opens an index and calls look.
func (w *world) lookAt(fs vfs.FS, dir string) (sites []indextest.Documents, err error) {
	o := w.options
	o.FS, o.MustExist = fs, true
	x, err := index.Open(dir, &o)
	if err != nil {
		return nil, err
	}
	sites, err = w.look(x)
	return sites, errors.Join(err, x.Close())
}

// documents returns the documents of each site.
func (w *world) documents(
	ctx context.Context, x *index.Index,
) (sites []indextest.Documents, err error) {
	sites = make([]indextest.Documents, len(w.sites))
	for d, err := range x.Documents(ctx) {
		if err != nil {
			return nil, err
		}
		n, known := w.at[place{d.Scope, d.Fingerprint}]
		if !known {
			return nil, fmt.Errorf("%+v was never added", d)
		}
		sites[n] = append(sites[n], d)
	}
	for _, docs := range sites {
		slices.SortFunc(docs, func(a, b index.Document) int { return cmp.Compare(a.ID, b.ID) })
	}
	return sites, nil
}

// nest makes calls within other calls: when the outer call checks its context, opens a view,
// commits, or creates a file of a compaction or a checkpoint. The seed determines these moments,
// which are rare between goroutines.
type nest struct {
	inner *worker
	rng   *rand.Rand
	calls sync.WaitGroup
	mu    sync.Mutex // held during an inner call, which makes no further inner calls
	left  int        // moments until the next inner call
	err   error
}

// innerPatience is how long an outer call waits for an inner call. The inner call may wait for a
// lock that the outer call holds.
const innerPatience = 2 * time.Millisecond

// hook sometimes makes an inner call. The nest may be nil.
func (n *nest) hook(m mix) {
	if n == nil || !n.mu.TryLock() {
		return
	}
	if n.left--; n.left > 0 {
		n.mu.Unlock()
		return
	}
	n.left = 1 + n.rng.IntN(1<<n.rng.IntN(6))
	done := make(chan struct{})
	n.calls.Go(func() {
		defer close(done)
		defer n.mu.Unlock()
		n.err = errors.Join(n.err, n.inner.callOrCompact(context.Background(), m))
	})
	select {
	case <-done:
	case <-time.After(innerPatience):
	}
}

// hooked is a context that may make an inner call at each check.
type hooked struct {
	context.Context
	nest *nest
}

func (h hooked) Err() error {
	h.nest.hook(writing)
	return h.Context.Err()
}

// callOrCompact makes a call, or compacts the index.
func (k *worker) callOrCompact(ctx context.Context, m mix) error {
	if k.w.compacts && k.rng.IntN(16) == 0 {
		return k.w.compact(ctx, k.rng)
	}
	return k.call(ctx, m)
}

// runNested makes the calls of a round with one outer and one inner worker.
func (w *world) runNested(workers []*worker) (err error) {
	outer := workers[0]
	n := &nest{inner: workers[1], rng: rand.New(rand.NewPCG(w.rng.Uint64(), 2))}
	w.nest = n
	w.index.AroundView(func() { n.hook(writing) })
	w.index.AroundApply(func() { n.hook(reading) })
	for i := 0; i < outer.plan.Calls*workerCount && err == nil; i++ {
		err = outer.callOrCompact(hooked{context.Background(), n}, everything)
	}
	n.calls.Wait()
	w.nest = nil
	w.index.AroundView(nil)
	w.index.AroundApply(nil)
	return errors.Join(err, n.err)
}
