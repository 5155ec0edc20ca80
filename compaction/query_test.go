package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// exactness draws documents and queries for a plan.
type exactness struct {
	*drawer
	rng   *rand.Rand
	n     int // documents per step
	keyed int
	fps   []uint64 // of all documents so far
}

// draw makes documents of all data sets. A third of them have keys, Shingles and a scope.
func (e *exactness) draw(n int) []index.Document {
	var docs []index.Document
	for _, set := range testgen.Sets(e.rng, e.n/3) {
		for _, fp := range set.Fingerprints {
			d := index.Document{Fingerprint: fingerprint.Fingerprint(fp)}
			if e.IntN(3) == 0 {
				d.Key, d.Shingles = fmt.Sprint("page ", e.keyed),
					fingerprint.ShingleSignature{2: uint64(e.IntN(3))}
				d.Scope = pick(e, "", "", "a")
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

// deletion returns a step that removes half of the keys so far.
func (e *exactness) deletion() step {
	s := step{what: "delete"}
	for i := range e.keyed {
		if e.IntN(2) == 0 {
			s.keys = append(s.keys, fmt.Sprint("page ", i))
		}
	}
	return s
}

// queries returns steps that query near copies of the documents, by each method.
func (e *exactness) queries(p *plan.Plan, most int) (steps []step) {
	n := max(1, min(most, 4*manyProbes/p.Probes()))
	queries := bare(testgen.Queries(e.rng, e.fps, n, p.MaxDistance))
	of := func(first index.Document) []index.Document {
		first.Fingerprint = queries[0].Fingerprint
		return append([]index.Document{first}, queries[1:max(1, len(queries)/4)]...)
	}
	for _, method := range []string{oneByOne, "each", "scanned", ""} {
		for _, s := range []step{
			{docs: queries, k: p.MaxDistance}, {docs: queries, k: e.IntN(p.MaxDistance + 1),
				limit: 1 + e.IntN(2)}, {},
			{docs: of(index.Document{Scope: "a"}), k: p.MaxDistance},
			{docs: of(index.Document{Shingles: fingerprint.ShingleSignature{2: 1}}),
				k: p.MaxDistance},
		} {
			s.what, s.method = "query", method
			steps = append(steps, s)
		}
	}
	return steps
}

// steps returns steps that load, add and remove documents, compact the index with another plan,
// and add and remove more. Queries follow each of these steps.
func (e *exactness) steps(p, next *plan.Plan, queries int) []step {
	opts := e.open().open
	opts.MaxShingleDistance, opts.Durability = 1, index.NoSync
	if max(p.Probes(), next.Probes()) > manyProbes && !testenv.Long() {
		opts.FilterBytes, opts.CacheBytes = 0, 0
	}
	made := opts
	made.Plan = p
	steps := []step{
		{what: "load", docs: e.draw(e.n * 3 / 4), open: made,
			work: compaction.Options{MemoryBytes: 1}},
		{what: "open", open: opts}, {what: "add", docs: e.draw(e.n / 4)}, e.deletion(),
	}
	steps = append(steps, e.queries(p, queries)...)
	steps = append(steps,
		step{what: "close"},
		step{what: "compact", work: compaction.Options{Plan: next, MemoryBytes: 1,
			FilterBytes: pick[int64](e, 0, -1, 1000, 1<<16)}},
		step{what: "open", open: opts}, step{what: "add", docs: e.draw(e.n / 4)}, e.deletion())
	return append(append(steps, e.queries(next, queries)...), step{what: "close"})
}

// plansToCheck returns the plans of all designs for k up to 10 that have at most the given number
// of tables. It adds other plans.
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

// TestQueryIsExact compares designs for every k up to 10 with brute force: by default every sixth
// one, in CI every third.
func TestQueryIsExact(t *testing.T) {
	size, tables, every := testenv.Number(400, 400, 400, 10_000), testenv.Number(16, 16, 16, 100),
		uint64(testenv.Number(6, 6, 3, 1))
	if testenv.Race {
		size, tables, every = 300, 4, 24
	}
	s := testenv.Seed(t)
	plans := plansToCheck(t, tables)
	for i, p := range plans {
		if uint64(i)%every != s%every {
			continue
		}
		t.Run(fmt.Sprintf("k=%d,tables=%d,%d", p.MaxDistance, len(p.Tables), i),
			func(t *testing.T) {
				t.Parallel()
				d := newDrawer(s, uint64(i))
				e := &exactness{drawer: d, rng: d.source.(*rand.Rand),
					n: max(300, size*3/(2+len(p.Tables)))}
				newHistory(vfs.NewMem()).must(t, e.steps(p, plans[e.IntN(len(plans))],
					testenv.Number(20, 40, 60, 100))...)
			})
	}
}
