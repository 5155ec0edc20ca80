package filter

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// growing is the filter of a table that is written to, a scalable Bloom filter (Almeida,
// Baquero, Preguiça and Hutchison, 2007): when its newest generation is full, a larger one
// follows. Nothing is ever taken out.
type growing struct {
	Table
	budget int64 // bytes

	mu          sync.Mutex                // held to change generations
	generations atomic.Pointer[[]*Prefix] // what is added goes into the last one; nil in it says yes to everything
	room        atomic.Int64              // how many fingerprints the last one is still for
	next        int64                     // how many the next one is for, with mu
}

const (
	firstGeneration = 64 << 10 // fingerprints
	// timesLarger is by how much each generation is larger than the one before. A look-up
	// asks all of them.
	timesLarger = 4
)

func newGrowing(t Table, budget, first int64) *growing {
	g := &growing{Table: t, budget: budget, next: first}
	g.generations.Store(new([]*Prefix))
	return g
}

// add adds what is not there yet, as far as one can tell, and reports whether that took a
// new generation. It takes permuted fingerprints.
func (g *growing) add(permuted []uint64) (grown bool) {
	for _, p := range *g.generations.Load() {
		if p != nil {
			p.fetch(permuted)
		}
	}
	for _, fp := range permuted {
		if g.mayContain(fp) {
			continue
		}
		if g.room.Add(-1) < 0 {
			grown = g.grow() || grown
		}
		all := *g.generations.Load()
		if last := all[len(all)-1]; last != nil {
			last.Add(fp)
		}
	}
	return grown
}

// grow adds a generation, unless someone else has.
func (g *growing) grow() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.room.Load() >= 0 {
		return false
	}
	g.extend(g.next)
	g.next *= timesLarger
	return true
}

// reserve adds a generation for what is stored already. The next one is as large.
func (g *growing) reserve(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = max(g.next, n)
	g.extend(g.next)
}

// extend adds a generation, as large as the budget allows. Where that would be smaller than
// the last one, the last one takes all that comes, and becomes less selective.
func (g *growing) extend(n int64) {
	all := *g.generations.Load()
	p := fit(g.Prefix, n, g.budget-g.bytes())
	if len(all) > 0 && (p == nil || p.Bytes() < all[len(all)-1].Bytes()) {
		g.room.Store(math.MaxInt64)
		return
	}
	if p == nil || p.exact() {
		n = math.MaxInt64
	}
	all = append(slices.Clone(all), p)
	g.generations.Store(&all)
	g.room.Store(n) // last: who sees room finds the generation
}

// include adds the filter that was saved as the first generation; nil: none is of use.
func (g *growing) include(saved *Prefix, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = max(g.next, n)
	all := append([]*Prefix{saved}, *g.generations.Load()...)
	g.generations.Store(&all)
}

func (g *growing) mayContain(permuted uint64) bool {
	for _, p := range *g.generations.Load() {
		if p == nil || p.MayContain(permuted) {
			return true
		}
	}
	return false
}

func (g *growing) appendCandidates(dst []uint64, permuted uint64) []uint64 {
	all := *g.generations.Load()
	if slices.Contains(all, nil) {
		return AppendAll(dst, g.Prefix, g.Radius)
	}
	for _, p := range all {
		dst = p.AppendCandidates(dst, permuted, g.Radius)
	}
	return dst
}

func (g *growing) bytes() (n int64) {
	for _, p := range *g.generations.Load() {
		if p != nil {
			n += p.Bytes()
		}
	}
	return n
}
