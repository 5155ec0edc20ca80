package compaction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// exactness takes an index from state to state and compares its answers with those of
// the reference in each.
type exactness struct {
	t     *testing.T
	rng   *rand.Rand
	fs    vfs.FS
	plan  *plan.Plan
	m     *reference
	n     int // documents that come at a time
	keys  int
	turn  int
	found int // matches
	opts  index.Options
}

// filterBytes and cacheBytes are none, hardly any, some, and more than enough.
var (
	filterBytes = []int64{0, -1, 1000, 1 << 16}
	cacheBytes  = []int64{1, 0, 1 << 14}
)

// manyProbes is from when on a query takes long if every probe reads a block.
const manyProbes = 500

// open opens the index, each time with other memory.
func (e *exactness) open(readOnly bool) *index.Index {
	e.t.Helper()
	e.turn++
	e.opts = index.Options{
		FS: e.fs, Plan: e.plan, Durability: index.NoSync, ReadOnly: readOnly, Now: e.m.now,
		FilterBytes: filterBytes[e.turn%len(filterBytes)], CacheBytes: cacheBytes[e.turn%len(cacheBytes)],
	}
	if e.plan.Probes() > manyProbes && !atLength() {
		e.opts.FilterBytes, e.opts.CacheBytes = 0, 0
	}
	x, err := index.Open("ix", &e.opts)
	if err != nil {
		e.t.Fatal(err)
	}
	return x
}

// session opens the index, changes it, and asks it.
func (e *exactness) session(state string, change func(*index.Index)) {
	e.t.Helper()
	x := e.open(change == nil)
	if change != nil {
		change(x)
	}
	e.check(state, x)
	if err := x.Close(); err != nil {
		e.t.Fatal(err)
	}
}

// check asks for what is near to documents of all data sets.
func (e *exactness) check(state string, x *index.Index) {
	e.t.Helper()
	if e.t.Failed() {
		return
	}
	queries := max(1, min(6, 4*manyProbes/e.plan.Probes()))
	if atLength() {
		queries *= 10
	}
	var fps []uint64
	for _, d := range e.m.docs {
		fps = append(fps, uint64(d.Fingerprint))
	}
	if len(fps) == 0 {
		fps = []uint64{0}
	}
	defer func() {
		if e.t.Failed() {
			e.t.Logf("%s, options %+v", state, e.opts)
		}
	}()
	for _, q := range testgen.Queries(e.rng, fps, queries, e.plan.MaxDistance) {
		e.found += e.m.checkQuery(e.t, x, fingerprint.Fingerprint(q), "", e.rng.IntN(e.plan.MaxDistance+1), e.rng.IntN(3))
	}
}

// draw makes documents of all data sets, a third of them with keys.
func (e *exactness) draw() []index.Document {
	var docs []index.Document
	for _, set := range testgen.Sets(e.rng, e.n/3) {
		for _, fp := range set.Fingerprints {
			d := index.Document{Fingerprint: fingerprint.Fingerprint(fp)}
			if e.rng.IntN(3) == 0 {
				d.Key = fmt.Sprint("page ", e.keys)
				e.keys++
			}
			docs = append(docs, d)
		}
	}
	e.rng.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	return docs
}

func (e *exactness) add(x *index.Index, docs []index.Document) {
	e.t.Helper()
	if err := x.Add(context.Background(), docs...); err != nil {
		e.t.Fatal(err)
	}
	e.m.add(docs)
}

func (e *exactness) load(docs []index.Document) {
	e.t.Helper()
	_, err := compaction.Load(context.Background(), "ix", seqOf(docs, nil), compaction.LoadOptions{
		Index: index.Options{FS: e.fs, Plan: e.plan, Now: e.m.now, FilterBytes: filterBytes[e.turn%len(filterBytes)]}, MemoryBytes: 1,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.m.load(docs)
}

// run compacts the index, under another plan if there is one.
func (e *exactness) run(plan *plan.Plan) {
	e.t.Helper()
	_, err := compaction.Run(context.Background(), "ix", compaction.Options{
		FS: e.fs, Plan: plan, MemoryBytes: 1, FilterBytes: filterBytes[(e.turn+1)%len(filterBytes)],
	})
	if err != nil {
		e.t.Fatal(err)
	}
	if plan != nil {
		e.plan, e.m.k = plan, plan.MaxDistance
	}
}

// wait lets an hour go by.
func (e *exactness) wait() { e.m.second += 3600 }

// deleteSome deletes the documents of some keys and, of those that have none, all of
// some fingerprints by their age, so that packed fingerprints are left without any.
func (e *exactness) deleteSome(x *index.Index, before time.Time) {
	e.t.Helper()
	var keys []string
	for _, d := range e.m.docs {
		if d.Key != "" && e.rng.IntN(2) == 0 {
			keys = append(keys, d.Key)
		}
	}
	n, err := x.Delete(context.Background(), keys...)
	if want := e.m.delete(keys); err != nil || n != want {
		e.t.Fatalf("deleted %d of %d: %v", n, want, err)
	}
	n, err = x.DeleteBefore(context.Background(), before)
	if want := e.m.deleteBefore(before); err != nil || n != want {
		e.t.Fatalf("expired %d of %d: %v", n, want, err)
	}
}

// all goes through all states.
func (e *exactness) all(next *plan.Plan) {
	first := e.draw()
	e.session("made", func(*index.Index) {})
	e.wait()
	if e.rng.IntN(2) == 0 {
		e.load(first)
		e.session("loaded", nil)
	} else {
		e.session("added", func(x *index.Index) { e.add(x, first) })
		e.run(nil)
		e.session("packed", nil)
	}
	e.wait()
	second := e.m.second
	e.session("added to what is packed", func(x *index.Index) { e.add(x, e.draw()) })
	gone := e.m.clone()
	e.session("deleted by key and by age", func(x *index.Index) { e.deleteSome(x, time.Unix(second, 0)) })
	e.session("documents of packed fingerprints added again", func(x *index.Index) {
		var again []index.Document
		for i, d := range gone.docs {
			if i%3 == 0 {
				again = append(again, index.Document{Fingerprint: d.Fingerprint})
			}
		}
		e.add(x, again)
	})
	e.run(nil)
	e.session("packed again", nil)
	e.wait()
	e.load(e.draw()[:e.n/2])
	e.session("loaded again, and added", func(x *index.Index) { e.add(x, e.draw()[:e.n/2]) })
	e.run(next)
	e.session("under another plan", func(x *index.Index) { e.add(x, e.draw()[:e.n/4]) })
	e.session("everything deleted", func(x *index.Index) { e.deleteSome(x, time.Unix(e.m.second+1, 0)) })
	e.run(nil)
	e.session("nothing packed", nil)
	if e.found == 0 {
		e.t.Error("no query found anything")
	}
}

// plansToCheck are those of all designs, for k up to 10, with up to so many tables.
func plansToCheck(t *testing.T, tables int) (plans []*plan.Plan) {
	for k := range 11 {
		for _, d := range plan.Designs(k) {
			p, err := plan.Named(d, k)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Tables) <= tables {
				plans = append(plans, p)
			}
		}
	}
	return plans
}

// TestQueryIsExactInEveryState compares every design, at every k up to 10, with brute
// force; by default, every third.
func TestQueryIsExactInEveryState(t *testing.T) {
	size, tables := 400, 16
	if atLength() {
		size, tables = 10_000, 100
	}
	if raceEnabled {
		size, tables = 300, 4
	}
	s := testseed.Of(t)
	plans := plansToCheck(t, tables)
	for i, p := range plans {
		if !atLength() && uint64(i)%3 != s%3 {
			continue
		}
		t.Run(fmt.Sprintf("k=%d,tables=%d,%d", p.MaxDistance, len(p.Tables), i), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(s, uint64(i)))
			e := &exactness{t: t, rng: rng, fs: vfs.NewMem(), plan: p, n: max(300, size*3/(2+len(p.Tables))), turn: rng.IntN(12)}
			e.m = &reference{k: p.MaxDistance, second: time.Now().Unix()}
			e.all(plans[rng.IntN(len(plans))])
		})
	}
}
