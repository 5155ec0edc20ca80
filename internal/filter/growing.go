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

	mu          sync.Mutex // held to change generations
	generations atomic.Pointer[generations]
	room        atomic.Int64 // how many fingerprints the last one is still for
	next        int64        // how many the next one is for, with mu
	kept        []uint64     // what was added to a small generation, permuted, with mu
}

// generations are those of a moment. What is added goes into the last one. nil says yes to everything.
type generations struct {
	all  []*Prefix
	keep int64 // how many that are added to the last one are kept: the next one takes them in, and its place; 0: it stays
}

const (
	firstGeneration = 64 << 10 // fingerprints
	// timesLarger is by how much each generation is larger than the one before. A look-up
	// asks all of them.
	timesLarger = 4
	// smallGeneration is the largest that another one takes the place of, where the budget is ample: what is kept
	// takes no more than the part keptShare of it.
	smallGeneration = firstGeneration * timesLarger
	keptShare       = 8
)

func newGrowing(t Table, budget, first int64) *growing {
	g := &growing{Table: t, budget: budget, next: first}
	g.generations.Store(&generations{})
	return g
}

// add adds what is not there yet, as far as one can tell, and reports whether that took a
// new generation. It takes permuted fingerprints.
func (g *growing) add(permuted []uint64) (grown bool) {
	for _, p := range g.generations.Load().all {
		if p != nil {
			p.fetch(permuted)
		}
	}
	for _, fp := range permuted {
		now := g.generations.Load()
		if now.keep == 0 {
			if now.mayContain(fp) {
				continue
			}
			if g.room.Add(-1) < 0 {
				grown = g.grow() || grown
			}
			now = g.generations.Load()
		}
		if now.keep > 0 {
			grown = g.addSmall(fp) || grown
		} else {
			now.add(fp)
		}
	}
	return grown
}

// addSmall is add to a small generation, unless a larger one has just taken its place. What it says yes to
// already is kept as well: the next one may not. Those before it stay.
func (g *growing) addSmall(fp uint64) (grown bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.generations.Load()
	last := len(now.all) - 1
	if mayContain(now.all[:last], fp) {
		return false
	}
	if !mayContain(now.all[last:], fp) {
		if g.room.Add(-1) < 0 {
			g.extend(g.next)
			g.next *= timesLarger
			grown, now = true, g.generations.Load()
		}
		now.add(fp)
	}
	if now.keep > 0 {
		if g.kept = append(g.kept, fp); int64(len(g.kept)) > now.keep {
			g.compactKept()
		}
	}
	return grown
}

func (g *growing) compactKept() {
	slices.Sort(g.kept)
	g.kept = slices.Compact(g.kept)
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
	before := g.generations.Load()
	all := slices.Clone(before.all)
	p := fit(g.Prefix, n, g.budget-g.bytes())
	if len(all) > 0 && (p == nil || p.Bytes() < all[len(all)-1].Bytes()) {
		g.kept = nil
		g.generations.Store(&generations{all, 0})
		g.room.Store(math.MaxInt64)
		return
	}
	room, keep := n, int64(0)
	if before.keep > 0 {
		g.compactKept() // what came again takes no room
		p.AddAll(g.kept)
		all, room = all[:len(all)-1], n-int64(len(g.kept))
	}
	switch {
	case p == nil || p.exact():
		room = math.MaxInt64
	case len(all) == 0 && n <= smallGeneration && keptBytes(2*n) <= g.budget/keptShare:
		keep = 2 * n
	}
	if keep == 0 {
		g.kept = nil
	}
	g.generations.Store(&generations{append(all, p), keep})
	g.room.Store(room) // last: who sees room finds the generation
}

// include adds the filter that was saved as the first generation; nil: none is of use.
func (g *growing) include(saved *Prefix, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = max(g.next, n)
	now := g.generations.Load()
	g.generations.Store(&generations{append([]*Prefix{saved}, now.all...), now.keep})
}

func (g *growing) mayContain(permuted uint64) bool { return g.generations.Load().mayContain(permuted) }

func (now *generations) mayContain(permuted uint64) bool { return mayContain(now.all, permuted) }

func mayContain(filters []*Prefix, permuted uint64) bool {
	for _, p := range filters {
		if p == nil || p.MayContain(permuted) {
			return true
		}
	}
	return false
}

func (now *generations) add(permuted uint64) {
	if last := now.all[len(now.all)-1]; last != nil {
		last.Add(permuted)
	}
}

func (g *growing) appendCandidates(dst []uint64, permuted uint64) []uint64 {
	all := g.generations.Load().all
	if slices.Contains(all, nil) {
		return AppendAll(dst, g.Prefix, g.Radius)
	}
	for _, p := range all {
		dst = p.AppendCandidates(dst, permuted, g.Radius)
	}
	return dst
}

func keptBytes(n int64) int64 { return 8 * n }

// bytes returns what the generations take.
func (g *growing) bytes() (n int64) {
	for _, p := range g.generations.Load().all {
		if p != nil {
			n += p.Bytes()
		}
	}
	return n
}
