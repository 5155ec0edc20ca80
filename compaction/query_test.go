package compaction_test

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

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

// draw makes documents of all data sets, a third of them with keys, Shingles and a scope.
func (e *exactness) draw(n int) []index.Document {
	var docs []index.Document
	for _, set := range testgen.Sets(e.rng, e.n/3) {
		for _, fp := range set.Fingerprints {
			d := index.Document{Fingerprint: fingerprint.Fingerprint(fp)}
			if e.IntN(3) == 0 {
				d.Key, d.Shingles = fmt.Sprint("page ", e.keyed), fingerprint.ShingleSignature{2: uint64(e.IntN(3))}
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

// session opens the index, changes it, and asks for what is near to all documents.
func (e *exactness) session(changes ...step) {
	open := e.open()
	if e.plan.Probes() > manyProbes && !testenv.Long() {
		open.open.FilterBytes, open.open.CacheBytes = 0, 0
	}
	e.steps = append(append(e.steps, open), changes...)
	queries := max(1, min(6, 4*manyProbes/e.plan.Probes())) * testenv.Number(1, 1, 1, 10)
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
	size, tables, every := testenv.Number(400, 400, 400, 10_000), testenv.Number(16, 16, 16, 100), uint64(testenv.Number(6, 6, 3, 1))
	if testenv.Race {
		size, tables, every = 300, 4, 24
	}
	s := testenv.Seed(t)
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

// checkLarge compares the answers to some queries with what looking at every fingerprint
// gives, the i-th of which is of document i+1.
func checkLarge(t *testing.T, fps []uint64, opts index.Options, queries []uint64) {
	t.Helper()
	x, err := index.Open("ix", &opts)
	must(t, err)
	defer x.Close()
	k, found := x.Plan().MaxDistance, 0
	for _, q := range queries {
		var want []index.Match
		for i, fp := range fps {
			if d := bits.OnesCount64(fp ^ q); d <= k {
				want = append(want, index.Match{Document: index.Document{ID: uint64(i + 1), Fingerprint: fingerprint.Fingerprint(fp)}, Distance: d})
			}
		}
		slices.SortStableFunc(want, func(a, b index.Match) int { return cmp.Compare(a.Distance, b.Distance) })
		got, err := x.Query(context.Background(), indextest.QueryOf(&index.Document{Fingerprint: fingerprint.Fingerprint(q)}, x.Plan().MaxDistance, 0))
		if diff := indextest.Difference(got, want); err != nil || diff != "" {
			t.Fatalf("plan %v, filter of %d bytes: query %016x: %v: %s", x.Plan(), opts.FilterBytes, q, err, diff)
		}
		found += len(got)
	}
	if found == 0 {
		t.Error("no query found anything")
	}
}

// TestQueryIsExactOverChunksOfTheDirectory has prefixes whose ranges go over many blocks,
// and over the ends of chunks of the directory.
func TestQueryIsExactOverChunksOfTheDirectory(t *testing.T) {
	t.Parallel()
	if testenv.Race && !testenv.Long() {
		t.Skip("it has no races of its own, and takes long")
	}
	fsys, rng := vfs.NewMem(), rand.New(rand.NewPCG(testenv.Seed(t), 1))
	// Besides scattered fingerprints, there are 200,000 of one prefix in each table, and
	// 50,000 without a gap.
	fps := testgen.Uniform(rng, 500_000)
	top, bottom := rng.Uint64()<<40, rng.Uint64()>>40
	for range 200_000 {
		fps = append(fps, top|rng.Uint64()>>24, bottom|rng.Uint64()<<24)
	}
	for i := range uint64(50_000) {
		fps = append(fps, 0x5555555500000000+i)
	}
	rng.Shuffle(len(fps), func(i, j int) { fps[i], fps[j] = fps[j], fps[i] })
	report, err := compaction.Load(t.Context(), "ix", seqOf(bare(fps), nil), compaction.LoadOptions{
		Index: index.Options{FS: fsys, Plan: namedPlan(t, "2", 3)}, MemoryBytes: 8 << 20,
	})
	must(t, err)
	for _, table := range report.Tables {
		if table.BytesAfter < 4500<<10 { // a chunk lists 4,096 blocks of 1 KB
			t.Fatalf("%+v: one chunk lists all blocks", table)
		}
	}
	queries := testgen.Queries(rng, fps, 40, 3)
	for i := range uint64(10) {
		queries = append(queries, 0x5555555500000000+i*7001, top|rng.Uint64()>>24, bottom|rng.Uint64()<<24)
	}
	checkLarge(t, fps, index.Options{FS: fsys}, queries)
	checkLarge(t, fps, index.Options{FS: fsys, FilterBytes: -1, CacheBytes: 1 << 20}, queries)
}

// TestQueryBatchIsQueryInEveryWay compares the ways to answer many queries with brute
// force, over packed and live documents.
func TestQueryBatchIsQueryInEveryWay(t *testing.T) {
	size, asked := testenv.Number(900, 1500, 3000, 3000), testenv.Number(60, 150, 400, 400)
	if testenv.Race {
		size, asked = 300, 20
	}
	for i, text := range []string{
		"k=3 0-63/32~1 32-63,0-31/32~1",
		"k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16",
		"k=0 0-63/64",
		"k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1",
		"k=10 0-63/16~2 16-31,0-15,32-63/16~2 32-47,0-31,48-63/16~2 48-63,0-47/16~1",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			p := parsePlan(t, text)
			n, q := size, asked
			if p.Probes() > 200 {
				n, q = size/3, min(asked, 40)
			}
			d := newDrawer(testenv.Seed(t), uint64(i))
			e := &exactness{drawer: d, rng: d.source.(*rand.Rand), n: n}
			opts := index.Options{Plan: p, MaxShingleDistance: 1, Durability: index.NoSync, FilterBytes: []int64{0, 1 << 16}[i%2], CacheBytes: []int64{1, 0, 1 << 14}[i%3]}
			steps := []step{{what: "load", docs: e.draw(n * 3 / 4), open: opts}, {what: "open", open: opts}, {what: "add", docs: e.draw(n / 4)}, e.gone(0)[0]}
			queries := bare(testgen.Queries(e.rng, e.fps, q, p.MaxDistance))
			of := func(first index.Document) []index.Document {
				first.Fingerprint = queries[0].Fingerprint
				return append([]index.Document{first}, queries[1:len(queries)/4]...)
			}
			for _, method := range []string{oneByOne, "each", "scanned", ""} {
				for _, s := range []step{
					{docs: queries, k: p.MaxDistance}, {docs: queries, k: p.MaxDistance / 2, limit: 2}, {docs: queries[:1], k: p.MaxDistance}, {},
					{docs: of(index.Document{Scope: "a"}), k: p.MaxDistance}, {docs: of(index.Document{Shingles: fingerprint.ShingleSignature{2: 1}}), k: p.MaxDistance},
				} {
					s.what, s.method = "query", method
					steps = append(steps, s)
				}
			}
			newHistory(vfs.NewMem()).must(t, append(steps, step{what: "close"})...)
		})
	}
}
