package filter

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// growing is the filter of a table, a scalable Bloom filter (Almeida, Baquero, Preguiça and
// Hutchison, 2007): when its newest generation is full, a larger one follows. Nothing is ever
// taken out.
type growing struct {
	Table
	budget int64 // bytes

	mu          sync.Mutex // held to change generations
	generations atomic.Pointer[[]*Prefix]
	room        atomic.Int64 // how many fingerprints the last generation still has room for
	next        int64        // how many the next one is for; guarded by mu
}

const (
	firstGeneration = 256 << 10 // fingerprints
	// timesLarger is by how much each generation is larger than the one before. A look-up
	// asks all of them.
	timesLarger = 4
)

func newGrowing(t Table, budget, first int64) *growing {
	g := &growing{Table: t, budget: budget, next: first}
	g.generations.Store(&[]*Prefix{})
	return g
}

// all returns the generations. A nil one passes everything.
func (g *growing) all() []*Prefix { return *g.generations.Load() }

// add adds permuted fingerprints that the filter does not pass yet.
func (g *growing) add(permuted []uint64) {
	for _, p := range g.all() {
		if p != nil {
			p.fetch(permuted)
		}
	}
	for _, fp := range permuted {
		if g.mayContain(fp) {
			continue
		}
		if g.room.Add(-1) < 0 {
			g.grow()
		}
		if all := g.all(); all[len(all)-1] != nil {
			all[len(all)-1].Add(fp)
		}
	}
}

// grow adds a generation, unless another goroutine has.
func (g *growing) grow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.room.Load() < 0 {
		g.extend(g.next)
		g.next *= timesLarger
	}
}

// reserve adds a generation for what is stored already. The next one is as large.
func (g *growing) reserve(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = max(g.next, n)
	g.extend(g.next)
}

// extend adds a generation, as large as the budget allows. If that is smaller than the last
// one, the last one takes all that follows and becomes less selective.
func (g *growing) extend(n int64) {
	all := slices.Clone(g.all())
	p := fit(g.Prefix, n, g.budget-g.bytes())
	if len(all) > 0 && (p == nil || p.Bytes() < all[len(all)-1].Bytes()) {
		g.room.Store(math.MaxInt64)
		return
	}
	all = append(all, p)
	g.generations.Store(&all)
	if p == nil || p.exact() {
		n = math.MaxInt64
	}
	g.room.Store(n) // last: a goroutine that sees room finds the generation
}

// include adds a filter that was saved as the first generation; nil: no filter is of use.
func (g *growing) include(saved *Prefix, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = max(g.next, n)
	all := append([]*Prefix{saved}, g.all()...)
	g.generations.Store(&all)
}

func (g *growing) mayContain(permuted uint64) bool {
	for _, p := range g.all() {
		if p == nil || p.MayContain(permuted) {
			return true
		}
	}
	return false
}

func (g *growing) appendCandidates(dst []uint64, permuted uint64) []uint64 {
	all := g.all()
	if slices.Contains(all, nil) {
		return AppendAll(dst, g.Prefix, g.Radius)
	}
	for _, p := range all {
		dst = p.AppendCandidates(dst, permuted, g.Radius)
	}
	return dst
}

// bytes returns the memory of the generations.
func (g *growing) bytes() (n int64) {
	for _, p := range g.all() {
		if p != nil {
			n += p.Bytes()
		}
	}
	return n
}
