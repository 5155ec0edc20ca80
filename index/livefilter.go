package index

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/index/filter"
	"github.com/neardup/neardup/index/plan"
)

// liveFilters are the prefix filters of what was written since the last
// compaction, one for each table of a plan. They grow with it.
//
// Growing, and making them when an index is opened, is a goroutine's work: it
// registers an empty larger set of filters under the commit lock, from when on
// every add goes to both sets; then it scans what is stored, and puts the larger
// set in the place of the other. Nothing is lost between: an add before the
// registration had its commit visible when the lock was given up, so the scan,
// which begins later, finds it.
type liveFilters struct {
	source liveSource
	limit  int64                   // of the capacity, for what is in memory to stay within the budget
	set    atomic.Pointer[liveSet] // what answers
	next   atomic.Pointer[liveSet] // what is being filled, or nil

	// Under the commit lock.
	growing bool
	growAt  int64 // the count of set beyond which a larger one is made

	wake chan struct{}
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// liveSource is what live filters are made from.
type liveSource struct {
	plan   *plan.Plan
	budget int64 // bytes of memory for all tables; while filters grow, at most twice that

	// live says about how many fingerprints there are when the filters are made.
	// 0: none, for certain. A wrong guess costs another scan.
	live int64

	least int64 // the capacity that filters have at least, if the budget allows. 0: 64 Ki.

	// commit is held from before add is called to when its commit is visible to
	// scan. The filters' goroutine takes it for moments.
	commit sync.Locker

	// scan yields every live fingerprint, as it is stored, of a moment after it was
	// called, and returns nil when yield returns false.
	scan func(yield func(stored uint64) bool) error

	// saved, if not nil, is asked first, once, for filters of a plan of one table: a
	// filter, nil for none, and a scan that yields at least what it lacks.
	saved func() (filter *filter.Prefix, rest func(yield func(stored uint64) bool) error, err error)

	// failed is told why a scan failed. The filters stay right, and less selective
	// than they could be until a later scan succeeds.
	failed func(error)
}

const (
	defaultLeastLive = 64 << 10
	// liveBytesEach is what each fingerprint takes in a blocked filter that is full.
	liveBytesEach = 2
	// mostLive bounds the capacity where the budget does not.
	mostLive = 1 << 50
)

// newLiveFilters returns filters that are ready at once if nothing is live. Else
// they say yes to everything until a scan has succeeded. close must be called.
func newLiveFilters(source liveSource) *liveFilters {
	f := &liveFilters{source: source, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	if source.least == 0 {
		f.source.least = defaultLeastLive
	}
	f.limit = liveLimit(source.plan, source.budget)
	if source.live > 0 {
		f.set.Store(everything(source.plan, source.live))
		f.startGrowing()
	} else {
		set := f.newSet(f.source.least)
		f.growAt = set.capacity
		f.set.Store(set)
	}
	f.done.Go(f.run)
	return f
}

// add makes the filters find fingerprints, given as they are stored. It is called
// with the commit lock held, before the commit is visible.
func (f *liveFilters) add(stored []uint64) {
	set := f.set.Load()
	set.add(stored)
	if next := f.next.Load(); next != nil {
		next.add(stored)
	}
	if set.count.Load() > f.growAt && !f.growing {
		f.startGrowing()
	}
}

// current returns the filters as they are now. They stay right for every view
// that was opened while they were current, and for the newest state as long as the
// caller holds the commit lock.
func (f *liveFilters) current() *liveSet { return f.set.Load() }

// since returns filters that are right for a view, given what was current just
// before it was opened. A set that came between was perhaps scanned after the
// view was opened, and then misses what the view still has and a commit deleted.
func (f *liveFilters) since(before *liveSet) *liveSet {
	if f.set.Load() == before {
		return before
	}
	return everything(f.source.plan, 1)
}

// The following ask the current filters.

func (f *liveFilters) appendMaybe(dst []uint64, table int, permuted uint64, radius int) []uint64 {
	return f.current().appendMaybe(dst, table, permuted, radius)
}

func (f *liveFilters) mayContain(stored uint64) bool { return f.current().mayContain(stored) }

func (f *liveFilters) empty() bool { return f.current().empty() }

// bytes returns the memory that the filters take now.
func (f *liveFilters) bytes() int64 {
	n := f.set.Load().bytes()
	if next := f.next.Load(); next != nil {
		n += next.bytes()
	}
	return n
}

// close stops the work in the background and waits for its end. The caller must
// not hold the commit lock. The filters can be asked and added to afterwards, but
// grow no more.
func (f *liveFilters) close() {
	f.once.Do(func() { close(f.stop) })
	f.done.Wait()
}

func (f *liveFilters) stopped() bool {
	select {
	case <-f.stop:
		return true
	default:
		return false
	}
}

// startGrowing wakes the goroutine. The commit lock is held.
func (f *liveFilters) startGrowing() {
	f.growing = true
	f.wake <- struct{}{} // has room: nothing was growing
}

func (f *liveFilters) run() {
	for {
		select {
		case <-f.stop:
			return
		case <-f.wake:
			if err := f.grow(); err != nil {
				f.source.failed(err)
			}
		}
	}
}

// grow replaces the filters by such with room for half as many again. When
// more or far less is found than the count said, which knows no deletes and
// begins as a guess, it does so again.
func (f *liveFilters) grow() error {
	if saved := f.source.saved; saved != nil {
		f.source.saved = nil
		done, err := f.growSaved(saved)
		if err != nil {
			f.source.failed(err)
		}
		if done {
			return nil
		}
	}
	capacity := withRoom(f.set.Load().count.Load())
	for shrunk := false; ; {
		next := f.newSet(capacity)
		f.register(next)
		n, err := f.fill(next, f.source.scan)
		switch {
		case err != nil || f.stopped():
			f.giveUp()
			return err
		case n > next.capacity:
			capacity = withRoom(max(n, capacity))
		case !shrunk && n < capacity/2 && f.within(withRoom(n)) < f.within(capacity):
			capacity, shrunk = withRoom(n), true
		default:
			f.publish(next)
			return nil
		}
	}
}

// growSaved begins with a filter that was saved, and reports whether it did.
func (f *liveFilters) growSaved(saved func() (*filter.Prefix, func(func(uint64) bool) error, error)) (bool, error) {
	from, rest, err := saved()
	if err != nil || from == nil {
		return false, err
	}
	count := f.set.Load().count.Load()
	next := &liveSet{tables: f.source.plan.Tables, filters: []*filter.Prefix{from}, order: []int{0}, capacity: withRoom(count)}
	next.count.Store(count)
	f.register(next)
	n, err := f.fill(next, rest)
	if err != nil || f.stopped() {
		return f.stopped(), err
	}
	if n > next.capacity { // more came meanwhile, and not all of it was added
		return false, nil
	}
	f.publish(next)
	return true, nil
}

// withRoom returns the capacity of filters that are made when there are so many.
func withRoom(fingerprints int64) int64 { return fingerprints + fingerprints/2 }

// newSet returns filters for so many fingerprints, or as many as there may be.
func (f *liveFilters) newSet(capacity int64) *liveSet {
	s := newLiveSet(f.source.plan, f.within(capacity))
	if s.exact() || s.capacity == f.limit {
		s.capacity = math.MaxInt64
	}
	if wantsLiveHash(f.source.plan) {
		s.hash = filter.NewHash(f.source.budget - s.bytes())
	}
	return s
}

func (f *liveFilters) within(capacity int64) int64 {
	return min(max(capacity, f.source.least), f.limit)
}

func (f *liveFilters) register(next *liveSet) {
	f.source.commit.Lock()
	defer f.source.commit.Unlock()
	f.next.Store(next)
}

func (f *liveFilters) publish(next *liveSet) {
	f.source.commit.Lock()
	defer f.source.commit.Unlock()
	f.set.Store(next)
	f.next.Store(nil)
	f.growing, f.growAt = false, next.capacity
	if next.count.Load() > f.growAt { // by what came meanwhile
		f.startGrowing()
	}
}

// giveUp leaves the filters as they are until as many again were added as they are for.
func (f *liveFilters) giveUp() {
	f.source.commit.Lock()
	defer f.source.commit.Unlock()
	set := f.set.Load()
	f.next.Store(nil)
	f.growing, f.growAt = false, set.count.Load()+max(set.capacity, f.source.least)
}

// fill adds what is scanned and returns how many there were; it ends early when
// that is more than the set is for, and when the filters are closed.
func (f *liveFilters) fill(set *liveSet, scan func(func(uint64) bool) error) (n int64, err error) {
	batch := make([]uint64, 0, 1024)
	flush := func() bool {
		set.add(batch)
		n, batch = n+int64(len(batch)), batch[:0]
		return n <= set.capacity && !f.stopped()
	}
	err = scan(func(stored uint64) bool {
		batch = append(batch, stored)
		return len(batch) < cap(batch) || flush()
	})
	flush()
	return n, err
}

// liveLimit returns the largest capacity of filters that stay within a budget.
func liveLimit(p *plan.Plan, budget int64) int64 {
	limit := int64(0)
	for step := int64(mostLive / 2); step > 0; step /= 2 {
		bytes := int64(0)
		for _, t := range p.Tables {
			bytes += liveTableBytes(t.Prefix, limit+step)
		}
		if bytes <= budget {
			limit += step
		}
	}
	return limit
}

// liveTableBytes returns what NewPrefixFilter takes at most for a table: a bit
// array when it is no larger than the blocked filter.
func liveTableBytes(prefix int, capacity int64) int64 {
	bytes := capacity * liveBytesEach
	if array, ok := filter.ArrayBytes(prefix); ok {
		return min(bytes, array)
	}
	return bytes
}

// wantsLiveHash reports whether a plan's probes of a million live fingerprints would
// meet too many prefixes that are there.
func wantsLiveHash(p *plan.Plan) bool {
	const live, most = 1 << 20, 8
	passing := 0.0
	for _, t := range p.Tables {
		passing += float64(t.Probes()) * min(1, math.Ldexp(live, -t.Prefix))
	}
	return passing > most
}

// liveSet is a filter for each table of a plan.
type liveSet struct {
	tables   []plan.Table
	filters  []*filter.Prefix
	order    []int        // the tables whose filter takes memory, the smallest first
	hash     *filter.Hash // of all that was added; nil: the filters do without
	capacity int64        // how many they are for. math.MaxInt64: larger ones are not possible or no better.
	count    atomic.Int64
}

func newLiveSet(p *plan.Plan, capacity int64) *liveSet {
	s := &liveSet{tables: p.Tables, capacity: capacity}
	for i, t := range p.Tables {
		filter, err := filter.NewPrefix(t.Prefix, capacity, capacity*liveBytesEach)
		if err != nil {
			panic(err) // plan.New lets no such table pass
		}
		s.filters = append(s.filters, filter)
		if !filter.PassesAll() {
			s.order = append(s.order, i)
		}
	}
	slices.SortStableFunc(s.order, func(i, j int) int { return cmp.Compare(s.filters[i].Bytes(), s.filters[j].Bytes()) })
	return s
}

// everything returns filters that say yes to everything and count so many.
func everything(p *plan.Plan, count int64) *liveSet {
	s := newLiveSet(p, 0)
	s.count.Store(count)
	return s
}

// exact reports whether all filters are bit arrays.
func (s *liveSet) exact() bool {
	return !slices.ContainsFunc(s.filters, func(f *filter.Prefix) bool { return !f.Exact() })
}

// add adds fingerprints, given as they are stored. Any goroutine may call it.
func (s *liveSet) add(stored []uint64) {
	var permuted [4 * filter.AddAhead]uint64
	for chunk := range slices.Chunk(stored, len(permuted)) {
		for _, i := range s.order {
			for j, fp := range chunk {
				permuted[j] = s.tables[i].Permute(fp)
			}
			s.filters[i].AddAll(permuted[:len(chunk)])
		}
		if s.hash != nil {
			s.hash.Add(chunk)
		}
	}
	s.count.Add(int64(len(stored)))
}

// appendMaybe is filter.Prefix.AppendMaybe of a table's filter.
func (s *liveSet) appendMaybe(dst []uint64, table int, permuted uint64, radius int) []uint64 {
	if s.empty() {
		return dst
	}
	return s.filters[table].AppendCandidates(dst, permuted, radius)
}

// appendNear appends what was added within k bits of a fingerprint, all as they are
// stored. It is false where only the tables can tell.
func (s *liveSet) appendNear(dst []uint64, stored uint64, k int) ([]uint64, bool) {
	if s.hash == nil {
		return dst, false
	}
	return s.hash.AppendNear(dst, stored, k)
}

// mayContain reports whether a fingerprint, given as it is stored, may have been added.
func (s *liveSet) mayContain(stored uint64) bool {
	if s.hash != nil && !s.hash.MayContain(stored) {
		return false
	}
	for _, i := range s.order {
		if !s.filters[i].MayContain(s.tables[i].Permute(stored)) {
			return false
		}
	}
	return !s.empty()
}

// empty reports that nothing was added.
func (s *liveSet) empty() bool { return s.count.Load() == 0 }

func (s *liveSet) bytes() int64 {
	n := int64(0)
	for _, f := range s.filters {
		n += f.Bytes()
	}
	if s.hash != nil {
		return n + s.hash.Bytes()
	}
	return n
}
