package indextest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// Workers is how many goroutines call the index at a time.
const Workers = 8

// site is a small part of an index: what happens here has nothing to do with other
// sites, and each call within has much to do with the others.
type site struct {
	scope    string
	groups   [][]fingerprint.Fingerprint // of near-duplicates
	shingles fingerprint.ShingleSignature
	keys     []string
	urls     bool      // most keys are URLs of one host, and the texts have several distances
	docs     Documents // before the calls

	mu    sync.Mutex
	calls []*call
	ids   []uint64 // of late, to be deleted or not
}

// World is an index and what is known of it.
type World struct {
	Options index.Options
	Index   *index.Index
	Calls   int64 // so far; what a batch holds counts as one each
	Moments int64 // crashes looked at

	// Meanwhile, if set, is called again and again while calls go on. It may change what is on the
	// disk, but not the stored documents.
	Meanwhile func(ctx context.Context, x *index.Index) error

	dir   string
	rng   *rand.Rand
	rule  Rule
	clock atomic.Int64
	ticks atomic.Int64 // of the clock that the index looks at
	sites []*site
	round []int         // the sites of this one
	at    map[place]int // sites by scope and fingerprint

	syncs   []*call // calls of Sync; with mu held
	mu      sync.Mutex
	copies  []*checkpoint
	copied  int
	crashes *crashes // nil: the file system does not crash
}

type place struct {
	scope string
	fp    fingerprint.Fingerprint
}

// checkpoint is one that was made while calls went on.
type checkpoint struct {
	dir        string
	start, end int64
	holds      []Documents // of each site, when all calls have ended
}

// NewWorld opens an index in memory, in a file system that crashes if crash is set.
func NewWorld(rng *rand.Rand, crash bool) (*World, error) {
	w := &World{rng: rng, dir: "ix", at: make(map[place]int)}
	w.Options = index.Options{
		FS: vfs.NewMem(), MaxDistance: []int{3, 3, 6, 1}[rng.IntN(4)],
		CacheBytes: 1 << 18, FilterBytes: []int64{0, 0, -1, 64, 1 << 12}[rng.IntN(5)],
		MaxShingleDistance: []int{0, 0, 9, -1}[rng.IntN(4)], ShortAllowance: []int{0, 0, 6, -1}[rng.IntN(4)], MaxLengthRatio: []float64{0, 0, 1, -1}[rng.IntN(4)],
		SiteTexts:      []int{0, 64, 64, -1}[rng.IntN(4)], // fewer texts are drawn
		KeepDuplicates: rng.IntN(5) == 0, Durability: []index.Durability{index.Sync, index.Sync, index.Sync, index.NoSync}[rng.IntN(4)],
	}
	w.Options.Now = w.now
	if crash {
		w.crashes = newCrashes(rng)
		w.Options.FS = w.crashes.fs
	}
	return w, w.open()
}

// now goes on by a second each few times that it is asked.
func (w *World) now() time.Time { return time.Unix(1_800_000_000+w.ticks.Add(1)/8, 0).UTC() }

func (w *World) open() (err error) {
	if w.Index, err = index.Open(w.dir, &w.Options); err != nil {
		return err
	}
	w.rule = RuleOf(w.Options, w.Index.Plan().MaxDistance)
	return nil
}

// Between closes the index, lets do change what is on the disk but not what is stored,
// and opens it again.
func (w *World) Between(do func(o index.Options) error) error {
	err := w.Index.Close()
	if err == nil && do != nil {
		err = do(w.Options)
	}
	return errors.Join(err, w.open())
}

// newSites adds n sites. The first of them has the empty scope, and so bare documents.
// Where they are few, there are groups for all the time that they are used.
func (w *World) newSites(n int) []int {
	groups := max(4, 96/n)
	var numbers []int
	for range n {
		number := len(w.sites)
		s := &site{shingles: fingerprint.ShingleSignature{w.rng.Uint64(), w.rng.Uint64(), w.rng.Uint64(), w.rng.Uint64()}, scope: []string{"", "shared", fmt.Sprint("scope ", number)}[number%3]}
		for range groups {
			base := fingerprint.Fingerprint(w.rng.Uint64())
			group := []fingerprint.Fingerprint{base}
			for _, bits := range []int{1, 2, 3, 3, 5} {
				group = append(group, fingerprint.Fingerprint(testgen.Flip(w.rng, uint64(base), ^uint64(0), bits)))
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

// Plan of a round: how many sites are in it, how many calls each worker makes, and how
// large batches are.
type Plan struct{ Sites, Calls, Batch int }

// largeBatch is how many documents make a batch with hardly any key twice.
const largeBatch = 64

// Plans are a few sites under single calls, and many sites under batches that are as
// large as, and larger than, what the index compares document by document.
var Plans = []Plan{{2, 40, 6}, {4, 60, 6}, {8, 60, 20}, {400, 4, 250}}

// Round lets all workers call the index, and compares what they were told, what is stored
// in the end, and what crashes would have left, with the model.
func (w *World) Round(p Plan) error {
	sites := w.newSites(max(1, p.Sites/2))
	for len(sites) < min(p.Sites, len(w.sites)) {
		if n := w.rng.IntN(len(w.sites)); !slices.Contains(sites, n) {
			sites = append(sites, n)
		}
	}
	w.round = sites
	errs := make([]error, Workers+1)
	if w.Options.Durability == index.NoSync { // or a crash may go back further than this
		if err := w.Index.Sync(context.Background()); err != nil {
			return err
		}
	}
	w.crashes.start(w)
	over, end := context.WithCancel(context.Background())
	var background sync.WaitGroup
	meanwhile := rand.New(rand.NewPCG(w.rng.Uint64(), 1))
	background.Go(func() { errs[Workers] = w.meanwhile(over, meanwhile) })
	var wg sync.WaitGroup
	for n := range Workers {
		k := &worker{w: w, rng: rand.New(rand.NewPCG(w.rng.Uint64(), uint64(n))), sites: sites, plan: p}
		wg.Go(func() {
			for range p.Calls {
				if errs[n] = k.call(); errs[n] != nil {
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

// meanwhile calls Meanwhile until it is over. Now and then its context ends at any moment.
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
		time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond) // most of the time is for calls
	}
	return nil
}

// settle compares with the model, and begins anew from what is stored.
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

// look returns what each site holds, and an error if the index is not in order.
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

// lookAt opens an index and looks at it.
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

// documents returns what each site holds.
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
