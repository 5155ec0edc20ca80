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
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testgen"
	"golang.org/x/sync/errgroup"
)

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

// A world is an index and its expected content. Many goroutines call the index concurrently, with
// shared keys, scopes and groups of near-duplicates. The index is accepted only if it is
// linearizable: some order of the calls, each between its begin and its end, must explain every
// answer. After a crash, the index must equal the result of such an order of all acknowledged
// calls and some of the unfinished calls.
type world struct {
	options index.Options
	index   *index.Index
	calls   int64 // number of calls so far; each document of a batch counts
	moments int64 // number of crashes checked

	compacts bool // the index is compacted during the calls
	nested   bool // calls are made within other calls, instead of from eight goroutines

	dir   string
	rng   *rand.Rand
	rule  indextest.Rule
	clock atomic.Int64
	ticks atomic.Int64 // clock of the index
	sites []*site
	at    map[place]int // sites by scope and fingerprint

	syncs   []*call // calls of Sync; with mu held
	mu      sync.Mutex
	copies  []*checkpoint
	copied  int
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
	holds      []indextest.Documents // documents of each site, set when all calls have ended
}

// newWorld opens an index in memory. If crash is set, the file system simulates crashes.
func newWorld(rng *rand.Rand, crash bool) (*world, error) {
	w := &world{rng: rng, dir: "ix", at: make(map[place]int)}
	w.options = index.Options{
		FS: vfs.NewMem(), MaxDistance: []int{3, 3, 6, 1}[rng.IntN(4)],
		CacheBytes: 1 << 18, FilterBytes: []int64{0, 0, -1, 64, 1 << 12}[rng.IntN(5)],
		MaxShingleDistance: []int{0, 0, 9, -1}[rng.IntN(4)],
		ShortAllowance:     []int{0, 0, 6, -1}[rng.IntN(4)],
		MaxLengthRatio:     []float64{0, 0, 1, -1}[rng.IntN(4)],
		SiteTexts:          []int{0, 64, 64, -1}[rng.IntN(4)], // few texts are drawn
		KeepDuplicates:     rng.IntN(5) == 0, Durability: []index.Durability{index.Sync, index.Sync,
			index.Sync, index.NoSync}[rng.IntN(4)],
	}
	w.options.Now = w.now
	if crash {
		w.crashes = newCrashes(rng)
		w.options.FS = w.crashes.fs
	}
	w.options.FS = errorfs.Wrap(w.options.FS, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && (strings.Contains(op.Path, "incoming") ||
			strings.HasPrefix(op.Path, "copy")) {
			w.nest.write()
		}
		return nil
	}))
	return w, w.open()
}

// now returns a time that advances by one second every eight calls.
func (w *world) now() time.Time { return time.Unix(1_800_000_000+w.ticks.Add(1)/8, 0).UTC() }

func (w *world) open() (err error) {
	if w.index, err = index.Open(w.dir, &w.options); err != nil {
		return err
	}
	if w.rng.IntN(2) == 0 { // so few that the index does not know the writes of others
		w.index.ListWrites(1 + w.rng.IntN(20))
	}
	w.rule = indextest.RuleOf(w.options, w.index.Plan().MaxDistance)
	return nil
}

// reopen closes the index, calls do, and opens the index again. do may change the files, but not
// the stored documents.
func (w *world) reopen(do func() error) error {
	err := w.index.Close()
	if err == nil {
		err = do()
	}
	return errors.Join(err, w.open())
}

// compact compacts the open index. Now and then it starts two compactions, of which one waits for
// the other.
func (w *world) compact(ctx context.Context, rng *rand.Rand) error {
	one := func() error {
		_, err := compaction.Compact(ctx, w.index, compaction.Options{MemoryBytes: 1 << 20})
		return err
	}
	if rng.IntN(4) > 0 {
		return one()
	}
	var both errgroup.Group
	both.Go(one)
	return errors.Join(one(), both.Wait())
}

// betweenRounds leaves the index as it is, opens it again, or compacts it while it is closed.
func (w *world) betweenRounds(ctx context.Context) error {
	switch w.rng.IntN(4) {
	case 0:
		return nil
	case 1:
		return w.reopen(func() error { return nil })
	}
	return w.reopen(func() error {
		_, err := compaction.Run(ctx, w.dir, compaction.Options{FS: w.options.FS,
			CacheBytes: w.options.CacheBytes, FilterBytes: w.options.FilterBytes})
		return err
	})
}

// newSites adds n sites. The first one has the empty scope, and therefore bare documents. If
// there are few sites, each gets enough groups for its whole life.
func (w *world) newSites(n int) []int {
	groups := max(4, 96/n)
	var numbers []int
	for range n {
		number := len(w.sites)
		s := &site{shingles: fingerprint.ShingleSignature{w.rng.Uint64(), w.rng.Uint64(),
			w.rng.Uint64(), w.rng.Uint64()}, scope: []string{"", "shared",
			fmt.Sprint("scope ", number)}[number%3]}
		for range groups {
			base := fingerprint.Fingerprint(w.rng.Uint64())
			group := []fingerprint.Fingerprint{base}
			for _, bits := range []int{1, 2, 3, 3, 5} {
				group = append(group,
					fingerprint.Fingerprint(testgen.Flip(w.rng, uint64(base), ^uint64(0), bits)))
			}
			for _, fp := range group {
				w.at[place{s.scope, fp}] = number
			}
			s.groups = append(s.groups, group)
		}
		pair := testgen.CollidingKeys(uint64(number))
		s.keys = append(pair[:], fmt.Sprint("key ", number), fmt.Sprint("other key ", number))
		if number%4 > 1 {
			s.urls = true
			for i := range 40 {
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

// roundPlans has rounds of single calls on few sites and rounds of batches on many sites. Some
// batches are larger than the index compares document by document.
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
	w.crashes.start(w)
	over, end := context.WithCancel(context.Background())
	rng := rand.New(rand.NewPCG(w.rng.Uint64(), 1))
	var calls, background errgroup.Group
	background.Go(func() error { return w.keepCompacting(over, rng) })
	for _, k := range workers {
		calls.Go(func() error {
			for range k.plan.Calls {
				if err := k.call(context.Background(), k.draws()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := calls.Wait()
	end()
	err = errors.Join(err, background.Wait())
	w.crashes.stop()
	return err
}

// keepCompacting compacts the index until over ends. Some compactions get a context that ends at a
// random moment.
func (w *world) keepCompacting(over context.Context, rng *rand.Rand) error {
	for w.compacts && over.Err() == nil {
		ctx, cancel := over, context.CancelFunc(func() {})
		if rng.IntN(3) == 0 {
			ctx, cancel = context.WithTimeout(over, time.Duration(rng.IntN(8000))*time.Microsecond)
		}
		err := w.compact(ctx, rng)
		if err != nil && ctx.Err() == nil {
			cancel()
			return err
		}
		cancel()
		// leave most of the time to the calls
		time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond)
	}
	return nil
}

// settle compares the index with the model and makes its content the start of the next round.
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
	if err := w.crashes.check(w); err != nil {
		return err
	}
	for n, s := range w.sites {
		w.calls += int64(len(s.calls))
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

// look returns the documents of each site. It verifies the index.
func (w *world) look(x *index.Index) ([]indextest.Documents, error) {
	if err := indextest.Problems(x); err != nil {
		return nil, err
	}
	sites, err := w.documents(context.Background(), x)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, docs := range sites {
		total += len(docs)
	}
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

// nest makes calls within other calls: when the outer call checks its context, takes a snapshot,
// commits, or writes a file of a compaction or a checkpoint. Such histories depend on chance only
// by their seed, and reach moments that hardly ever occur between goroutines.
type nest struct {
	inner *worker
	rng   *rand.Rand
	calls sync.WaitGroup
	mu    sync.Mutex // held during an inner call, which gets no calls within
	left  int        // moments until the next inner call
	err   error
}

// innerPatience is how long an outer call waits for an inner one, which may itself wait for the
// outer call to release a lock.
const innerPatience = 2 * time.Millisecond

// write and read make an inner call of that sort now and then. The nest may be nil.
func (n *nest) write() { n.hook((*worker).writes) }
func (n *nest) read()  { n.hook((*worker).reads) }

func (n *nest) hook(sort func(*worker) func(context.Context) ([]*call, error)) {
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
		n.err = errors.Join(n.err, n.inner.callOrCompact(context.Background(), sort))
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
	h.nest.write()
	return h.Context.Err()
}

// callOrCompact makes a call, or compacts the index.
func (k *worker) callOrCompact(
	ctx context.Context, draw func(*worker) func(context.Context) ([]*call, error),
) error {
	if k.w.compacts && k.rng.IntN(16) == 0 {
		return k.w.compact(ctx, k.rng)
	}
	return k.call(ctx, draw(k))
}

// runNested makes the calls of a round with one outer and one inner worker.
func (w *world) runNested(workers []*worker) (err error) {
	outer := workers[0]
	n := &nest{inner: workers[1], rng: rand.New(rand.NewPCG(w.rng.Uint64(), 2))}
	w.nest = n
	w.index.AroundView(n.write)
	w.index.AroundApply(n.read)
	for range outer.plan.Calls * workerCount {
		if err = outer.callOrCompact(hooked{context.Background(), n}, (*worker).draws); err != nil {
			break
		}
	}
	n.calls.Wait()
	w.nest = nil
	w.index.AroundView(nil)
	w.index.AroundApply(nil)
	return errors.Join(err, n.err)
}
