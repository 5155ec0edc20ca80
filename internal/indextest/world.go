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
	"github.com/neardup/neardup/internal/testgen"
)

// Workers is how many goroutines call the index at a time.
const Workers = 8

// site is a small part of an index: what happens here has nothing to do with other
// sites, and each call within has much to do with the others.
type site struct {
	scope   string
	groups  [][]fingerprint.Fingerprint // of near-duplicates
	shingle fingerprint.Fingerprint
	keys    []string
	docs    Documents // before the calls

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

	dir   string
	rng   *rand.Rand
	rule  Rule
	clock atomic.Int64
	ticks atomic.Int64 // of the clock that the index looks at
	sites []*site
	at    map[place]int // sites by scope and fingerprint

	syncs   []*call // calls of Sync; with mu held
	mu      sync.Mutex
	copies  []*checkpoint
	copied  int
	crashes *crashes // nil: the file system does not crash
	filled  int      // documents, if it does not
}

type place struct {
	scope string
	fp    fingerprint.Fingerprint
}

// checkpoint is one that was made while calls went on.
type checkpoint struct {
	dir        string
	start, end int64
}

// NewWorld opens an index in memory, in a file system that crashes if crash is set.
func NewWorld(rng *rand.Rand, crash bool) (*World, error) {
	w := &World{rng: rng, dir: "ix", at: make(map[place]int)}
	w.Options = index.Options{
		FS: vfs.NewMem(), MaxDistance: []int{3, 3, 6, 1}[rng.IntN(4)],
		CacheBytes: 1 << 18, FilterBytes: []int64{0, 0, -1, 64, 1 << 12}[rng.IntN(5)],
		MaxShingleDistance: []int{0, 0, 6, -1}[rng.IntN(4)], MaxLengthRatio: []float64{0, 0, 1, -1}[rng.IntN(4)],
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
		s := &site{shingle: fingerprint.Fingerprint(w.rng.Uint64()), scope: []string{"", "shared", fmt.Sprint("scope ", number)}[number%3]}
		for range groups {
			base := fingerprint.Fingerprint(w.rng.Uint64())
			group := []fingerprint.Fingerprint{base}
			for _, bits := range []int{1, 2, 3, 3, 5} {
				group = append(group, flipped(w.rng.IntN, base, bits))
			}
			for _, fp := range group {
				w.at[place{s.scope, fp}] = number
			}
			s.groups = append(s.groups, group)
		}
		pair := testgen.CollidingKeys(uint64(number))
		s.keys = append(pair[:], fmt.Sprint("key ", number), fmt.Sprint("other key ", number))
		w.sites = append(w.sites, s)
		numbers = append(numbers, number)
	}
	return numbers
}

// Plan of a round: how many sites are in it, how many calls each worker makes, how
// large batches are, and how many documents come meanwhile that are near to nothing.
type Plan struct{ Sites, Calls, Batch, Fill int }

// largeBatch is how many documents make a batch with hardly any key twice.
const largeBatch = 64

// Plans are a few sites under single calls, and many sites under batches that are as
// large as, and larger than, what the index compares document by document.
var Plans = []Plan{{2, 40, 6, 0}, {4, 60, 6, 0}, {8, 60, 20, 0}, {400, 4, 250, 0}}

// Round lets all workers call the index, and compares what they were told, what is stored
// in the end, and what crashes would have left, with the model.
func (w *World) Round(p Plan) error {
	sites := w.newSites(max(1, p.Sites/2))
	for len(sites) < min(p.Sites, len(w.sites)) {
		if n := w.rng.IntN(len(w.sites)); !slices.Contains(sites, n) {
			sites = append(sites, n)
		}
	}
	errs := make([]error, Workers+1)
	if w.Options.Durability == index.NoSync { // or a crash may go back further than this
		if err := w.Index.Sync(context.Background()); err != nil {
			return err
		}
	}
	w.crashes.start(w)
	var wg sync.WaitGroup
	fill := rand.New(rand.NewPCG(w.rng.Uint64(), 0))
	wg.Go(func() { errs[Workers] = w.fill(fill, p.Fill) })
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
	w.crashes.stop()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.settle()
}

const fillScope = "fill"

// fill adds documents that are near to nothing, so that filters grow.
func (w *World) fill(rng *rand.Rand, n int) error {
	for ; n > 0; n -= 1000 {
		docs := make([]index.Document, min(n, 1000))
		for i := range docs {
			docs[i] = index.Document{Fingerprint: fingerprint.Fingerprint(rng.Uint64()), Scope: fillScope}
		}
		if err := w.Index.Add(context.Background(), docs...); err != nil {
			return err
		}
		w.filled += len(docs)
	}
	return nil
}

// settle compares with the model, and begins anew from what is stored.
func (w *World) settle() error {
	left, err := w.look(w.Index)
	if err != nil {
		return err
	}
	var copied [][]Documents
	for _, c := range w.copies {
		docs, err := w.lookAt(w.Options.FS, c.dir)
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		copied = append(copied, docs)
	}
	for n, s := range w.sites {
		for i, c := range w.copies {
			s.calls = append(s.calls, found(n, c.start, c.end, copied[i][n]))
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
	sites, others, err := w.documents(context.Background(), x)
	if err != nil {
		return nil, err
	}
	total := others
	for _, docs := range sites {
		total += len(docs)
	}
	if stats := x.Stats(); stats.Documents != uint64(total) || x == w.Index && others != w.filled {
		return nil, fmt.Errorf("%d documents, %d of them of %d that fill, by the counters %d", total, others, w.filled, stats.Documents)
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

// documents returns what each site holds, and how many documents are of none.
func (w *World) documents(ctx context.Context, x *index.Index) (sites []Documents, others int, err error) {
	sites = make([]Documents, len(w.sites))
	for d, err := range x.Documents(ctx) {
		if err != nil {
			return nil, 0, err
		}
		if d.Scope == fillScope {
			others++
			continue
		}
		n, known := w.at[place{d.Scope, d.Fingerprint}]
		if !known {
			return nil, 0, fmt.Errorf("%+v was never added", d)
		}
		sites[n] = append(sites[n], d)
	}
	for _, docs := range sites {
		slices.SortFunc(docs, func(a, b index.Document) int { return cmp.Compare(a.ID, b.ID) })
	}
	return sites, others, nil
}

// worker is one of the goroutines that call the index.
type worker struct {
	w     *World
	rng   *rand.Rand
	sites []int
	plan  Plan
}

func (k *worker) site() (int, *site) {
	n := k.sites[k.rng.IntN(len(k.sites))]
	return n, k.w.sites[n]
}

// draw makes up a document of a site. For some time most are of one group, so that many
// look for what is just being stored, and then of the next.
func (k *worker) draw(s *site) index.Document {
	group := s.groups[k.w.clock.Load()/20%int64(len(s.groups))]
	if k.rng.IntN(4) == 0 {
		group = s.groups[k.rng.IntN(len(s.groups))]
	}
	d := index.Document{Scope: s.scope, Fingerprint: group[k.rng.IntN(len(group))]}
	if k.rng.IntN(4) > 0 {
		d.Key = s.keys[k.rng.IntN(len(s.keys))]
	}
	if k.rng.IntN(3) == 0 {
		d.Shingle = []fingerprint.Fingerprint{s.shingle, s.shingle, s.shingle ^ 0xf, ^s.shingle}[k.rng.IntN(4)]
	}
	if k.rng.IntN(3) == 0 {
		d.Tokens = []int{100, 100, 120, 300}[k.rng.IntN(4)]
	}
	return d
}

// note keeps calls that have ended.
func (k *worker) note(start int64, calls ...*call) {
	end := k.w.clock.Add(1)
	for _, c := range calls {
		c.start, c.end = start, end
		s := k.w.sites[c.site]
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.ids = append(s.ids, c.gave...)
		s.mu.Unlock()
	}
}

// call makes one call, now and then with a context that ends at any moment: what has
// failed has not happened.
func (k *worker) call() error {
	ctx := context.Background()
	if k.rng.IntN(16) == 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(k.rng.IntN(400))*time.Microsecond)
		defer cancel()
		ctx = limited
	}
	start := k.w.clock.Add(1)
	calls, err := k.draws()(ctx)
	k.note(start, calls...)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return err
}

// draws returns the call to make.
func (k *worker) draws() func(context.Context) ([]*call, error) {
	batches := 12
	if k.plan.Batch > 100 {
		batches = 120
	}
	for _, c := range []struct {
		often int
		call  func(context.Context) ([]*call, error)
	}{
		{batches, k.checkAndAddBatch},
		{12, k.add}, {12, k.delete}, {6, k.deleteIDs}, {2, k.deleteBefore},
		{12, k.query}, {5, k.queryBatch}, {10, k.get}, {2, k.documents}, {3, k.sync}, {1, k.verify}, {1, k.checkpoint},
	} {
		if k.rng.IntN(100) < c.often {
			return c.call
		}
	}
	return k.checkAndAdd
}

// checked is a call of CheckAndAdd.
func (k *worker) checked(site int, d index.Document, v index.Verdict) *call {
	c := &call{site: site, said: []any{"CheckAndAdd", d, v}, of: v.Of.ID}
	if v.Document.ID != 0 {
		c.gave = []uint64{v.Document.ID}
	}
	c.apply = func(docs Documents) (Documents, bool) {
		m := Model{Rule: k.w.rule, Docs: slices.Clip(docs), NextID: v.Document.ID, Now: v.Document.Added}
		right := m.CheckAndAdd(d) == v
		return m.Docs, right
	}
	return c
}

func (k *worker) checkAndAdd(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	d := k.draw(s)
	v, err := k.w.Index.CheckAndAdd(ctx, d)
	if err != nil {
		return nil, err
	}
	return []*call{k.checked(n, d, v)}, nil
}

func (k *worker) checkAndAddBatch(ctx context.Context) (calls []*call, err error) {
	batch := k.w.clock.Add(1)
	docs, sites := make([]index.Document, 1+k.rng.IntN(k.plan.Batch)), make([]int, k.plan.Batch)
	for i := range docs {
		n, s := k.site()
		docs[i], sites[i] = k.draw(s), n
		if len(docs) > largeBatch && k.rng.IntN(8) > 0 {
			docs[i].Key = "" // a key that comes again ends what is looked at together
		}
	}
	verdicts, err := k.w.Index.CheckAndAddBatch(ctx, docs)
	for i, v := range verdicts {
		c := k.checked(sites[i], docs[i], v)
		c.batch = batch
		calls = append(calls, c)
	}
	return calls, err
}

func (k *worker) add(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	var docs []index.Document
	for range 1 + k.rng.IntN(3) {
		docs = append(docs, k.draw(s))
	}
	if err := k.w.Index.Add(ctx, docs...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(docs, func(a, b index.Document) int { return cmp.Compare(a.ID, b.ID) })
	for i := len(docs) - 2; i >= 0; i-- { // the last of a key counts
		if docs[i].ID == docs[i+1].ID {
			docs = slices.Delete(docs, i, i+1)
		}
	}
	c := &call{site: n, said: []any{"Add", docs}}
	for _, d := range docs {
		c.gave = append(c.gave, d.ID)
	}
	c.apply = func(there Documents) (Documents, bool) {
		return append(slices.Clip(there.WithoutKeys(keysOf(docs)...)), docs...), true
	}
	return []*call{c}, nil
}

// removal is a call that removed n documents.
func removal(site, n int, without func(Documents) Documents, said ...any) *call {
	return &call{site: site, said: append(said, n), apply: func(docs Documents) (Documents, bool) {
		left := without(docs)
		return left, len(docs)-len(left) == n
	}}
}

func (k *worker) delete(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	var keys []string
	for _, i := range draw(k.rng.IntN, len(s.keys), 1+k.rng.IntN(2)) {
		keys = append(keys, s.keys[i])
	}
	deleted, err := k.w.Index.Delete(ctx, keys...)
	if err != nil {
		return nil, err
	}
	return []*call{removal(n, deleted, func(docs Documents) Documents { return docs.WithoutKeys(keys...) }, "Delete", keys)}, nil
}

// deleteIDs deletes a single document, as those with and without a record go one after
// the other.
func (k *worker) deleteIDs(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	s.mu.Lock()
	id := uint64(1 << 40)
	if len(s.ids) > 0 {
		id = s.ids[k.rng.IntN(len(s.ids))]
	}
	s.mu.Unlock()
	deleted, err := k.w.Index.DeleteIDs(ctx, id)
	if err != nil {
		return nil, err
	}
	return []*call{removal(n, deleted, func(docs Documents) Documents {
		return docs.Without(func(d *index.Document) bool { return d.ID == id })
	}, "DeleteIDs", id)}, nil
}

// deleteBefore deletes what was added some seconds ago, or long ago. Documents with a
// record go in one commit, bare ones in another.
func (k *worker) deleteBefore(context.Context) (calls []*call, err error) {
	before := k.w.now().Add(-time.Duration(k.rng.IntN(20)) * time.Second)
	if k.rng.IntN(2) > 0 || k.plan.Batch > 100 || k.w.Index.Stats().Documents > 500 { // more than 1,024 would not go at once
		before = before.Add(-time.Hour)
	}
	if _, err := k.w.Index.DeleteBefore(context.Background(), before); err != nil {
		return nil, err
	}
	for n, s := range k.w.sites {
		for _, bare := range []bool{false, true} {
			if bare && s.scope != "" {
				continue
			}
			calls = append(calls, &call{site: n, said: []any{"DeleteBefore", before, bare}, apply: func(docs Documents) (Documents, bool) {
				return docs.Without(func(d *index.Document) bool { return Bare(d) == bare && d.Added.Before(before) }), true
			}})
		}
	}
	return calls, nil
}

// asks makes some queries of one moment, each within up to k bits and with a limit.
func (k *worker) asks(queries int, ask func([]index.Query) ([][]index.Match, error)) ([]*call, error) {
	n, s := k.site()
	within, limit := k.w.rule, k.rng.IntN(3)
	within.MaxDistance = k.rng.IntN(k.w.rule.MaxDistance + 1)
	asked, all := make([]index.Document, queries), make([]index.Query, queries)
	for i := range asked {
		asked[i] = k.draw(s)
		all[i] = QueryOf(&asked[i], within.MaxDistance, limit)
	}
	answers, err := ask(all)
	if err != nil {
		return nil, err
	}
	return []*call{{site: n, reads: true, said: []any{"Query", within, limit, asked, answers}, apply: func(docs Documents) (Documents, bool) {
		for i := range asked {
			if !slices.Equal(docs.Near(within, &asked[i], limit), answers[i]) {
				return docs, false
			}
		}
		return docs, true
	}}}, nil
}

func (k *worker) query(ctx context.Context) ([]*call, error) {
	return k.asks(1, func(asked []index.Query) ([][]index.Match, error) {
		matches, err := k.w.Index.Query(ctx, asked[0])
		return [][]index.Match{matches}, err
	})
}

func (k *worker) queryBatch(ctx context.Context) ([]*call, error) {
	return k.asks(1+k.rng.IntN(20), func(asked []index.Query) (answers [][]index.Match, err error) {
		for a, err := range k.w.Index.QueryBatch(ctx, asked) {
			if err != nil {
				return nil, err
			}
			answers = append(answers, a.Matches)
		}
		return answers, nil
	})
}

func (k *worker) get(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	key := s.keys[k.rng.IntN(len(s.keys))]
	d, found, err := k.w.Index.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return []*call{{site: n, reads: true, said: []any{"Get", key, found, d}, apply: func(docs Documents) (Documents, bool) {
		want, stored := docs.Key(key)
		return docs, found == stored && (!found || d == want)
	}}}, nil
}

func (k *worker) documents(ctx context.Context) (calls []*call, err error) {
	sites, _, err := k.w.documents(ctx, k.w.Index)
	for n, docs := range sites {
		calls = append(calls, found(n, 0, 0, docs))
	}
	return calls, err
}

func (k *worker) sync(context.Context) ([]*call, error) {
	c := &call{start: k.w.clock.Add(1)}
	if err := k.w.Index.Sync(context.Background()); err != nil {
		return nil, err
	}
	c.end = k.w.clock.Add(1)
	k.w.mu.Lock()
	k.w.syncs = append(k.w.syncs, c)
	k.w.mu.Unlock()
	return nil, nil
}

func (k *worker) verify(ctx context.Context) ([]*call, error) {
	for p := range k.w.Index.Verify(ctx) {
		if ctx.Err() == nil {
			return nil, fmt.Errorf("what Verify found while others write: %v", p)
		}
	}
	return nil, nil
}

func (k *worker) checkpoint(ctx context.Context) ([]*call, error) {
	k.w.mu.Lock()
	k.w.copied++
	c := &checkpoint{dir: fmt.Sprint("copy", k.w.copied), start: k.w.clock.Add(1)}
	k.w.mu.Unlock()
	if err := k.w.Index.Checkpoint(ctx, c.dir); err != nil {
		return nil, err
	}
	c.end = k.w.clock.Add(1)
	k.w.mu.Lock()
	k.w.copies = append(k.w.copies, c)
	k.w.mu.Unlock()
	return nil, nil
}
