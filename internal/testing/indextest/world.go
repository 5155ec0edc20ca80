package indextest

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
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// Workers is the number of goroutines that call the index concurrently.
const Workers = 8

// site is a small part of an index. Calls on different sites are independent. Calls on one site
// depend on each other.
type site struct {
	scope    string
	groups   [][]fingerprint.Fingerprint // groups of near-duplicates
	shingles fingerprint.ShingleSignature
	keys     []string
	urls     bool      // most keys are URLs of one host, and the texts have several distances
	docs     Documents // before the calls of the round

	mu    sync.Mutex
	calls []*call
	ids   []uint64 // recent IDs, for deletions
}

// World is an index and its expected content.
type World struct {
	Options index.Options
	Index   *index.Index
	Calls   int64 // number of calls so far; each document of a batch counts
	Moments int64 // number of crashes checked

	// Meanwhile, if set, is called repeatedly during the calls of a round. It may change the
	// files, but not the stored documents.
	Meanwhile func(ctx context.Context, x *index.Index) error

	// Around, if set, makes the index call view around each of its snapshots, and apply around
	// each commit. Instead of eight goroutines, one calls the index, and within its calls others
	// are made.
	Around func(x *index.Index, view, apply func())

	dir   string
	rng   *rand.Rand
	rule  Rule
	clock atomic.Int64
	ticks atomic.Int64 // clock of the index
	sites []*site
	round []int         // the sites of the current round
	at    map[place]int // sites by scope and fingerprint

	syncs   []*call // calls of Sync; with mu held
	mu      sync.Mutex
	copies  []*checkpoint
	copied  int
	crashes *crashes // nil if the file system does not crash
	nest    *nest    // of the round, if Around is set
}

type place struct {
	scope string
	fp    fingerprint.Fingerprint
}

// checkpoint is a checkpoint that was made during calls.
type checkpoint struct {
	dir        string
	start, end int64
	holds      []Documents // documents of each site, set when all calls have ended
}

// NewWorld opens an index in memory. If crash is set, the file system simulates crashes.
func NewWorld(rng *rand.Rand, crash bool) (*World, error) {
	w := &World{rng: rng, dir: "ix", at: make(map[place]int)}
	w.Options = index.Options{
		FS: vfs.NewMem(), MaxDistance: []int{3, 3, 6, 1}[rng.IntN(4)],
		CacheBytes: 1 << 18, FilterBytes: []int64{0, 0, -1, 64, 1 << 12}[rng.IntN(5)],
		MaxShingleDistance: []int{0, 0, 9, -1}[rng.IntN(4)],
		ShortAllowance:     []int{0, 0, 6, -1}[rng.IntN(4)],
		MaxLengthRatio:     []float64{0, 0, 1, -1}[rng.IntN(4)],
		SiteTexts:          []int{0, 64, 64, -1}[rng.IntN(4)], // few texts are drawn
		KeepDuplicates:     rng.IntN(5) == 0, Durability: []index.Durability{index.Sync, index.Sync,
			index.Sync, index.NoSync}[rng.IntN(4)],
	}
	w.Options.Now = w.now
	if crash {
		w.crashes = newCrashes(rng)
		w.Options.FS = w.crashes.fs
	}
	w.Options.FS = errorfs.Wrap(w.Options.FS, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && (strings.Contains(op.Path, "incoming") ||
			strings.HasPrefix(op.Path, "copy")) {
			w.nest.write()
		}
		return nil
	}))
	return w, w.open()
}

// now returns a time that advances by one second every eight calls.
func (w *World) now() time.Time { return time.Unix(1_800_000_000+w.ticks.Add(1)/8, 0).UTC() }

func (w *World) open() (err error) {
	if w.Index, err = index.Open(w.dir, &w.Options); err != nil {
		return err
	}
	w.rule = RuleOf(w.Options, w.Index.Plan().MaxDistance)
	return nil
}

// Between closes the index, calls do, and opens the index again. do may change the files, but not
// the stored documents.
func (w *World) Between(do func(o index.Options) error) error {
	err := w.Index.Close()
	if err == nil && do != nil {
		err = do(w.Options)
	}
	return errors.Join(err, w.open())
}

// newSites adds n sites. The first one has the empty scope, and therefore bare documents. If
// there are few sites, each gets enough groups for its whole life.
func (w *World) newSites(n int) []int {
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

// Plan has the number of sites of a round, the number of calls per worker, and the batch size.
type Plan struct{ Sites, Calls, Batch int }

// largeBatch is the size from which a batch hardly ever repeats a key.
const largeBatch = 64

// Plans has rounds of single calls on few sites and rounds of batches on many sites. Some batches
// are larger than the index compares document by document.
var Plans = []Plan{{2, 40, 6}, {4, 60, 6}, {8, 60, 20}, {400, 4, 250}}

// Round lets all workers call the index. It then compares the answers, the stored documents and
// the files after crashes with the model.
func (w *World) Round(p Plan) error {
	sites := w.newSites(max(1, p.Sites/2))
	for len(sites) < min(p.Sites, len(w.sites)) {
		if n := w.rng.IntN(len(w.sites)); !slices.Contains(sites, n) {
			sites = append(sites, n)
		}
	}
	w.round = sites
	errs := make([]error, Workers+1)
	// without this sync, a crash could lose earlier rounds
	if w.Options.Durability == index.NoSync {
		if err := w.Index.Sync(context.Background()); err != nil {
			return err
		}
	}
	var workers [Workers]*worker
	for n := range workers {
		workers[n] = &worker{w: w, rng: rand.New(rand.NewPCG(w.rng.Uint64(), uint64(n))),
			sites: sites, plan: p}
	}
	if w.Around != nil {
		if err := w.nested(workers[0], workers[1]); err != nil {
			return err
		}
		return w.settle()
	}
	w.crashes.start(w)
	over, end := context.WithCancel(context.Background())
	var background sync.WaitGroup
	meanwhile := rand.New(rand.NewPCG(w.rng.Uint64(), 1))
	background.Go(func() { errs[Workers] = w.meanwhile(over, meanwhile) })
	var wg sync.WaitGroup
	for n, k := range workers {
		wg.Go(func() {
			for range p.Calls {
				if errs[n] = k.call(context.Background(), k.draws()); errs[n] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	end()
	background.Wait()
	w.crashes.stop()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.settle()
}

// meanwhile calls Meanwhile until over ends. Some calls get a context that ends at a random
// moment.
func (w *World) meanwhile(over context.Context, rng *rand.Rand) error {
	for w.Meanwhile != nil && over.Err() == nil {
		ctx, cancel := over, context.CancelFunc(func() {})
		if rng.IntN(3) == 0 {
			ctx, cancel = context.WithTimeout(over, time.Duration(rng.IntN(8000))*time.Microsecond)
		}
		err := w.Meanwhile(ctx, w.Index)
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
func (w *World) settle() error {
	left, err := w.look(w.Index)
	if err != nil {
		return err
	}
	for _, c := range w.copies {
		if c.holds, err = w.lookAt(w.Options.FS, c.dir); err != nil {
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
		w.Calls += int64(len(s.calls))
		s.docs, s.calls, s.ids = left[n], nil, nil
		for _, d := range s.docs {
			s.ids = append(s.ids, d.ID)
		}
	}
	for _, c := range w.copies {
		if err := w.Options.FS.RemoveAll(c.dir); err != nil {
			return err
		}
	}
	w.syncs, w.copies = nil, nil
	return nil
}

// look returns the documents of each site. It verifies the index.
func (w *World) look(x *index.Index) ([]Documents, error) {
	if err := Problems(x); err != nil {
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
func (w *World) lookAt(fs vfs.FS, dir string) (sites []Documents, err error) {
	o := w.Options
	o.FS, o.MustExist = fs, true
	x, err := index.Open(dir, &o)
	if err != nil {
		return nil, err
	}
	sites, err = w.look(x)
	return sites, errors.Join(err, x.Close())
}

// documents returns the documents of each site.
func (w *World) documents(ctx context.Context, x *index.Index) (sites []Documents, err error) {
	sites = make([]Documents, len(w.sites))
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
