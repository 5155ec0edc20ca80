package filter

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// growing is the filter of a table, a scalable Bloom filter (Almeida, Baquero, Preguiça and
// Hutchison, 2007). If its newest generation is full, it adds a larger one. It never removes
// fingerprints.
type growing struct {
	Table
	budget int64 // bytes

	mu          sync.Mutex // held to change generations
	generations atomic.Pointer[[]*Prefix]
	room        atomic.Int64 // the number of fingerprints that the last generation can still take
	next        int64        // the number of fingerprints of the next generation; guarded by mu
}

const (
	firstGeneration = 256 << 10 // fingerprints
	// timesLarger is the ratio of the sizes of successive generations. A lookup reads all
	// generations.
	timesLarger = 4
)

func newGrowing(t Table, budget, first int64) *growing {
	g := &growing{Table: t, budget: budget, next: first}
	g.generations.Store(&[]*Prefix{})
	return g
}

// all returns the generations. A nil generation contains every fingerprint.
func (g *growing) all() []*Prefix { return *g.generations.Load() }

// add adds the permuted fingerprints that the filter does not contain yet.
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

// grow adds a generation, unless another goroutine has added one.
func (g *growing) grow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.room.Load() < 0 {
		g.extend(g.next)
		g.next *= timesLarger
	}
}

// reserve adds a generation for n stored fingerprints. The next generation has the same size.
func (g *growing) reserve(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = max(g.next, n)
	g.extend(g.next)
}

// extend adds a generation for n fingerprints, or a smaller one if the budget is smaller. If the
// new generation would be smaller than the last one, the last one takes all further fingerprints
// and becomes less selective.
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
	g.room.Store(n) // last, so that a goroutine that sees the room finds the generation
}

// include inserts a stored filter as the first generation. If saved is nil, the filter contains
// every fingerprint.
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
