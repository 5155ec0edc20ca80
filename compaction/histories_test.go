package compaction_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
	"pgregory.net/rapid"
)

// rule draws what matches, for a whole history.
func (d *drawer) drawRule() {
	d.rule.KeepDuplicates = d.IntN(3) == 0
	d.rule.MaxShingleDistance = pick(d, 0, 0, 13, 18, -1)
	d.rule.MaxLengthRatio = pick(d, 0, 0, 1, 1.5, -1)
}

// undesigned are plans that are of no design.
var undesigned = []string{
	"k=2 0-63/12~2",
	"k=3 0-63/20 20-39,0-19,40-63/20 40-63,0-39/24~1",
	"k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1",
}

// quickPlans are those of all designs for k that do not take long without filters, and
// some that are of no design.
func quickPlans(t testing.TB, k int) (plans []*plan.Plan) {
	t.Helper()
	for _, d := range plan.Designs(k) {
		p := namedPlan(t, d, k)
		if p.Probes() <= manyProbes || atLength() {
			plans = append(plans, p)
		}
	}
	for _, text := range undesigned {
		if p := parsePlan(t, text); p.MaxDistance == k {
			plans = append(plans, p)
		}
	}
	return plans
}

// manyProbes is from when on a query takes long if every probe reads a block.
const manyProbes = 500

// TestHistoriesAreTheModel: whatever happens to an index, it answers as the model does.
func TestHistoriesAreTheModel(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		must(t, flag.Set("rapid.checks", fmt.Sprint(number(15, 60, 150, 3000))))
		t.Cleanup(func() { f.Value.Set(f.DefValue) })
	}
	var plans []*plan.Plan
	for k := range 6 {
		plans = append(plans, quickPlans(t, k)...)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := &drawer{source: rapidSource{t}, keys: 8, most: 40, plans: plans}
		d.drawRule()
		h := newHistory(vfs.NewMem())
		defer func() {
			if h.x != nil {
				h.x.Close()
			}
		}()
		made := d.open()
		made.open.Plan = pick(d, plans...)
		h.must(t, made, step{what: "close"})
		for range rapid.IntRange(1, 6).Draw(t, "sessions") {
			h.must(t, d.session(rapid.IntRange(0, 6).Draw(t, "writes"))...)
			h.must(t, d.between())
		}
		h.must(t, d.open(), step{what: "close"})
	})
}

// exactness are the steps that take an index from state to state, with queries in each.
type exactness struct {
	*drawer
	rng   *rand.Rand
	plan  *plan.Plan
	n     int // documents that come at a time
	keyed int
	fps   []uint64 // of all documents so far
	steps []step
}

// draw makes documents of all data sets, a third of them with keys.
func (e *exactness) draw(n int) []index.Document {
	var docs []index.Document
	for _, set := range testgen.Sets(e.rng, e.n/3) {
		for _, fp := range set.Fingerprints {
			d := index.Document{Fingerprint: fingerprint.Fingerprint(fp)}
			if e.IntN(3) == 0 {
				d.Key = fmt.Sprint("page ", e.keyed)
				e.keyed++
			}
			docs = append(docs, d)
		}
	}
	e.rng.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	docs = docs[:min(n, len(docs))]
	for _, d := range docs {
		e.fps = append(e.fps, uint64(d.Fingerprint))
	}
	return docs
}

// session opens the index, changes it, and asks for what is near to all documents.
func (e *exactness) session(changes ...step) {
	open := e.open()
	if e.plan.Probes() > manyProbes && !atLength() {
		open.open.FilterBytes, open.open.CacheBytes = 0, 0
	}
	e.steps = append(append(e.steps, open), changes...)
	queries := max(1, min(6, 4*manyProbes/e.plan.Probes())) * number(1, 1, 1, 10)
	ask := step{what: "query", method: oneByOne, k: e.plan.MaxDistance}
	for _, q := range testgen.Queries(e.rng, e.fps, queries, e.plan.MaxDistance) {
		ask.docs = append(ask.docs, index.Document{Fingerprint: fingerprint.Fingerprint(q)})
	}
	nearer := ask
	nearer.k, nearer.limit = e.IntN(e.plan.MaxDistance+1), e.IntN(3)
	e.steps = append(e.steps, ask, nearer, step{what: "close"})
}

func (e *exactness) run(plan *plan.Plan) {
	e.steps = append(e.steps, step{what: "compact", work: compaction.Options{Plan: plan, MemoryBytes: 1, FilterBytes: pick[int64](e, 0, -1, 1000, 1<<16)}})
}

func (e *exactness) load(docs []index.Document) {
	e.steps = append(e.steps, step{what: "load", docs: docs, open: e.open().open, work: compaction.Options{MemoryBytes: 1}})
}

// gone are half of the keys so far, and what is older than an hour of the history.
func (e *exactness) gone(hour int) []step {
	var keys []string
	for i := range e.keyed {
		if e.IntN(2) == 0 {
			keys = append(keys, fmt.Sprint("page ", i))
		}
	}
	return []step{{what: "delete", keys: keys}, {what: "expire", before: epoch.Add(time.Duration(hour) * time.Hour)}}
}

// all goes through all states.
func (e *exactness) all(next *plan.Plan) []step {
	hour := step{what: "wait", wait: time.Hour}
	made := e.open()
	made.open.Plan = e.plan
	e.steps = []step{made, {what: "close"}, hour}
	first := e.draw(e.n)
	if e.IntN(2) == 0 {
		e.load(first)
	} else {
		e.session(step{what: "add", docs: first})
		e.run(nil)
	}
	e.session()
	e.steps = append(e.steps, hour)
	second := e.draw(e.n)
	e.session(step{what: "add", docs: second})
	e.session(e.gone(2)...)
	var again []index.Document // of packed fingerprints of which all documents are gone
	for i, d := range first {
		if i%3 == 0 {
			again = append(again, index.Document{Fingerprint: d.Fingerprint})
		}
	}
	e.session(step{what: "add", docs: again})
	e.run(nil)
	e.session()
	e.steps = append(e.steps, hour)
	e.load(e.draw(e.n / 2))
	e.session(step{what: "add", docs: e.draw(e.n / 2)})
	e.run(next)
	e.plan = next
	e.session(step{what: "add", docs: e.draw(e.n / 4)})
	e.session(e.gone(9)...)
	e.run(nil)
	e.session()
	return e.steps
}

// plansToCheck are those of all designs, for k up to 10, with up to so many tables, and others.
func plansToCheck(t *testing.T, tables int) (plans []*plan.Plan) {
	for k := range 11 {
		for _, d := range plan.Designs(k) {
			p := namedPlan(t, d, k)
			if len(p.Tables) <= tables {
				plans = append(plans, p)
			}
		}
	}
	for _, text := range undesigned {
		plans = append(plans, parsePlan(t, text))
	}
	return plans
}

// TestQueryIsExactInEveryState compares every design, at every k up to 10, with brute
// force; by default every sixth, in CI every third.
func TestQueryIsExactInEveryState(t *testing.T) {
	size, tables, every := number(400, 400, 400, 10_000), number(16, 16, 16, 100), uint64(number(6, 6, 3, 1))
	if raceEnabled {
		size, tables, every = 300, 4, 24
	}
	s := testseed.Of(t)
	plans := plansToCheck(t, tables)
	for i, p := range plans {
		if uint64(i)%every != s%every {
			continue
		}
		t.Run(fmt.Sprintf("k=%d,tables=%d,%d", p.MaxDistance, len(p.Tables), i), func(t *testing.T) {
			t.Parallel()
			d := newDrawer(s, uint64(i))
			e := &exactness{drawer: d, rng: d.source.(*rand.Rand), plan: p, n: max(300, size*3/(2+len(p.Tables)))}
			newHistory(vfs.NewMem()).must(t, e.all(plans[e.IntN(len(plans))])...)
		})
	}
}
