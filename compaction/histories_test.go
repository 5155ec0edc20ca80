package compaction_test

import (
	"flag"
	"fmt"
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
	"pgregory.net/rapid"
)

// source provides the random numbers of a history. It is a *rand.Rand, or rapid, which can
// shorten a failing history.
type source interface{ IntN(n int) int }

type rapidSource struct{ *rapid.T }

func (r rapidSource) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(r.T, "n") }

func pick[T any](src source, from ...T) T { return from[src.IntN(len(from))] }

// keyNames is the number of keys. The first two have the same hash.
const keyNames = 100

var colliding = testgen.CollidingKeys(0)

func keyName(i int) string {
	if i < 2 {
		return colliding[i]
	}
	return fmt.Sprintf("http://a.example/%d", i)
}

// drawer draws documents and steps.
type drawer struct {
	source
	keys  int // number of keys that documents use
	most  int // maximal number of documents per step
	plans []*plan.Plan
	rule  index.Options // the match rule
}

// document draws a document. Some are near each other, some are equal, and some have only a
// fingerprint. Keys are repeated, some scopes have equal hashes, and lengths and Shingles vary.
func (d *drawer) document() index.Document {
	doc := index.Document{Fingerprint: fingerprint.Fingerprint(
		uint64(d.IntN(40)) * 0x9e3779b97f4a7c15)}
	for range d.IntN(6) {
		doc.Fingerprint ^= 1 << d.IntN(64)
	}
	if d.IntN(4) == 0 {
		return doc
	}
	doc.ID = uint64(d.IntN(9)) // the index must ignore it, and Added unless KeepAdded is set
	doc.Added = pick(d, time.Time{}, epoch.Add(-time.Hour), epoch.Add(3*time.Hour))
	if i := d.IntN(d.keys * 4 / 3); i < d.keys {
		doc.Key = keyName(i)
	}
	if i := d.IntN(8); i < 3 {
		doc.Scope = []string{"a.example", colliding[0], colliding[1]}[i]
	}
	if d.IntN(3) == 0 {
		doc.Shingles = fingerprint.ShingleSignature{pick[uint64](d, 7, 0xffff, 0x3ffff, ^uint64(0)),
			0, 0, pick[uint64](d, 0, 1, ^uint64(0))}
	}
	if d.IntN(3) == 0 {
		doc.Tokens = pick(d, 100, 120, 130, 131, 150, 1000)
		doc.Digest = fingerprint.Digest(doc.Tokens % 4)
	}
	return doc
}

func (d *drawer) documents(n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i] = d.document()
	}
	return docs
}

// some draws documents for a step. Sometimes all have one fingerprint, for a large posting.
func (d *drawer) some() []index.Document {
	docs := d.documents(1 + d.IntN(d.most))
	if d.IntN(8) == 0 {
		for i := range docs {
			docs[i] = index.Document{Fingerprint: docs[0].Fingerprint}
		}
	}
	return docs
}

func (d *drawer) someKeys(n int) (keys []string) {
	for range n {
		keys = append(keys, keyName(d.IntN(d.keys)))
	}
	return append(keys, "", "nobody's", keys[0]) // one key occurs twice
}

// open draws the options of Open.
func (d *drawer) open() step {
	o := d.rule
	o.FilterBytes = pick[int64](d, 0, -1, 64, 1<<12, 1<<20)
	o.CacheBytes = pick[int64](d, 0, 1, 1<<16)
	o.Durability = pick(d, index.Sync, index.NoSync)
	return step{what: "open", open: o}
}

// write draws a step on an open index that writes or queries.
func (d *drawer) write() step {
	switch d.IntN(14) {
	case 11, 12:
		return step{what: "compact open",
			work: compaction.Options{MemoryBytes: pick[int64](d, 0, 1)}}
	case 13:
		return step{what: "freeze"}
	case 0, 1:
		return step{what: "add", docs: d.some()}
	case 2:
		return step{what: "check", docs: d.documents(1)}
	case 3, 4:
		return step{what: "check", docs: d.some()}
	case 5:
		return step{what: "delete", keys: d.someKeys(3)}
	case 6:
		ids := make([]uint64, 1+d.IntN(4))
		for i := range ids {
			ids[i] = uint64(d.IntN(120))
		}
		ids = append(ids, ids[0]) // one ID occurs twice
		return step{what: "delete IDs", ids: ids}
	case 7: // the documents from before one of the hours of a history
		return step{what: "expire", before: epoch.Add(time.Duration(d.IntN(8)) * time.Hour)}
	case 8:
		return step{what: "sync"}
	case 9:
		return step{what: "pairs", k: d.IntN(5)}
	}
	return step{what: "query", docs: d.some(), k: d.IntN(6), limit: d.IntN(4),
		method: pick(d, oneByOne, oneByOne, "each", "scanned", "")}
}

// between draws a step on a closed index.
func (d *drawer) between() step {
	work := compaction.Options{MemoryBytes: pick[int64](d, 0, 1),
		CacheBytes: pick[int64](d, 1, 1<<18), FilterBytes: pick[int64](d, 0, -1, 1, 1<<12)}
	switch i := d.IntN(6); {
	case i == 0 && len(d.plans) > 0:
		work.Plan = pick(d, d.plans...)
		return step{what: "compact", work: work}
	case i <= 1:
		return step{what: "compact", work: work}
	case i <= 3:
		return step{what: "load", docs: d.some(), keep: d.IntN(2) == 0, work: work,
			open: index.Options{CacheBytes: work.CacheBytes, FilterBytes: work.FilterBytes}}
	}
	return step{what: "wait", wait: pick(d, time.Hour, time.Hour, time.Second, -2*time.Hour)}
}

// used returns the steps that create an index with packed and live documents. Some were replaced or
// deleted, and the last ones are only in the log.
func (d *drawer) used() []step {
	session := func() []step {
		add := func() step { return step{what: "add", docs: d.documents(60)} }
		return opened(index.Options{}, add(), add(), add(),
			step{what: "delete", keys: d.someKeys(20)})
	}
	return slices.Concat(session(), []step{{what: "compact"}}, session())
}

func newDrawer(seed, n uint64) *drawer {
	return &drawer{source: rand.New(rand.NewPCG(seed, n)), keys: keyNames, most: 40}
}

func namedPlan(t testing.TB, name string, k int) *plan.Plan {
	t.Helper()
	p, err := plan.Named(name, k)
	must(t, err)
	return p
}

// undesigned are plans that no design of package plan produces.
var undesigned = []string{
	"k=2 0-63/12~2",
	"k=3 0-63/20 20-39,0-19,40-63/20 40-63,0-39/24~1",
	"k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1",
}

// plansOf returns the wanted plans with k in from..to, of all designs of package plan and the
// undesigned plans.
func plansOf(t testing.TB, from, to int, wanted func(*plan.Plan) bool) (plans []*plan.Plan) {
	t.Helper()
	for k := from; k <= to; k++ {
		for _, d := range plan.Designs(k) {
			plans = append(plans, namedPlan(t, d, k))
		}
	}
	for _, text := range undesigned {
		p, err := plan.Parse(text)
		must(t, err)
		if from <= p.MaxDistance && p.MaxDistance <= to {
			plans = append(plans, p)
		}
	}
	return slices.DeleteFunc(plans, func(p *plan.Plan) bool { return !wanted(p) })
}

// quickPlans returns plans that are fast without filters.
func quickPlans(t testing.TB, from, to int) []*plan.Plan {
	t.Helper()
	return plansOf(t, from, to, func(p *plan.Plan) bool {
		return p.Probes() <= manyProbes || testenv.Long()
	})
}

// manyProbes is the number of probes from which a query is slow if every probe reads a block.
const manyProbes = 500

// TestHistoriesMatchModel compares the index with the model after each step of random histories.
func TestHistoriesMatchModel(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		must(t, flag.Set("rapid.checks", fmt.Sprint(testenv.Number(15, 60, 150, 3000))))
		t.Cleanup(func() { f.Value.Set(f.DefValue) })
	}
	plans := quickPlans(t, 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		d := &drawer{source: rapidSource{t}, keys: 8, most: 40, plans: plans}
		d.rule = index.Options{KeepDuplicates: d.IntN(3) == 0,
			MaxShingleDistance: pick(d, 0, 0, 13, 18, -1), ShortAllowance: pick(d, 0, 0, 10, -1),
			MaxLengthRatio: pick(d, 0, 0, 1, 1.5, -1)}
		h := newHistory(vfs.NewMem())
		defer func() {
			if h.x != nil {
				h.x.Close()
			}
		}()
		made := d.open().open
		made.Plan = pick(d, plans...)
		h.must(t, opened(made)...)
		for range rapid.IntRange(1, 6).Draw(t, "sessions") {
			h.must(t, d.open())
			for range rapid.IntRange(0, 6).Draw(t, "writes") {
				h.must(t, d.write())
			}
			h.must(t, step{what: "close"}, d.between())
		}
		h.must(t, d.open(), step{what: "close"})
	})
}

// exactness returns steps that load, add and remove n documents of all data sets, compact the index
// under the next plan, and add and remove more. Queries follow each of these steps.
func exactness(r *rand.Rand, n, most int, plans ...*plan.Plan) (steps []step) {
	d := &drawer{source: r}
	keyed, fps := 0, []uint64(nil) // of all documents so far
	draw := func(n int) []index.Document {
		var all []uint64
		for _, set := range testgen.Sets(r, n) {
			all = append(all, set.Fingerprints...)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		fps = append(fps, all[:n]...)
		docs := bare(all[:n])
		for i := range docs {
			if r.IntN(3) == 0 {
				docs[i].Key, docs[i].Scope = fmt.Sprint("page ", keyed), pick(r, "", "", "a")
				docs[i].Shingles = fingerprint.ShingleSignature{2: uint64(r.IntN(3))}
				keyed++
			}
		}
		return docs
	}
	opts := d.open().open
	opts.MaxShingleDistance, opts.Durability = 1, index.NoSync
	if max(plans[0].Probes(), plans[1].Probes()) > manyProbes && !testenv.Long() {
		opts.FilterBytes, opts.CacheBytes = 0, 0
	}
	work := compaction.Options{MemoryBytes: 1, FilterBytes: pick[int64](r, 0, -1, 1000, 1<<16)}
	made := opts
	made.Plan, work.Plan = plans[0], plans[1]
	steps = []step{{what: "load", docs: draw(n * 3 / 4), open: made, work: work}}
	for i, p := range plans {
		if i > 0 {
			steps = append(steps, step{what: "compact", work: work})
		}
		session := []step{{what: "add", docs: draw(n / 4)}, {what: "delete"}}
		for key := range keyed {
			if r.IntN(2) == 0 {
				session[1].keys = append(session[1].keys, fmt.Sprint("page ", key))
			}
		}
		queries := bare(testgen.Queries(r, fps, max(1, min(most, 4*manyProbes/p.Probes())),
			p.MaxDistance))
		scoped, similar := slices.Clone(queries), slices.Clone(queries)
		scoped[0].Scope, similar[0].Shingles = "a", fingerprint.ShingleSignature{2: 1}
		for _, method := range []string{oneByOne, "each", "scanned", ""} {
			q := step{what: "query", method: method, k: p.MaxDistance, docs: queries}
			limited, in, like, none := q, q, q, q
			limited.k, limited.limit = r.IntN(p.MaxDistance+1), 1+r.IntN(2)
			in.docs, like.docs = scoped[:1+len(queries)/4], similar[:1+len(queries)/4]
			none.docs = nil
			session = append(session, q, limited, in, like, none)
		}
		steps = append(steps, opened(opts, session...)...)
	}
	return steps
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
	plans := plansOf(t, 0, 10, func(p *plan.Plan) bool { return len(p.Tables) <= tables })
	for i, p := range plans {
		if uint64(i)%every != s%every {
			continue
		}
		t.Run(fmt.Sprintf("k=%d,tables=%d,%d", p.MaxDistance, len(p.Tables), i),
			func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(s, uint64(i)))
				newHistory(vfs.NewMem()).must(t, exactness(r, max(300, size*3/(2+len(p.Tables))),
					testenv.Number(20, 40, 60, 100), p, plans[r.IntN(len(plans))])...)
			})
	}
}

// TestRemovedDocumentsAreDropped recrawls every page ten times with changed text, deletes 90 % of
// the pages, and compacts. The index must then equal one that only ever had the remaining
// documents: no removed IDs, the same entries and the same size. The histories check answers.
func TestRemovedDocumentsAreDropped(t *testing.T) {
	if testenv.Race {
		t.Skip("slow, and has only one goroutine")
	}
	const crawls = 10
	n := testenv.Number(1000, 5000, 20_000, 1_000_000)
	for _, packed := range []bool{false, true} {
		ctx, r := t.Context(), rand.New(rand.NewPCG(testenv.Seed(t), 1))
		opts := index.Options{FS: vfs.NewMem(), Durability: index.NoSync,
			Now: func() time.Time { return epoch }}
		x, err := index.Open("ix", &opts)
		must(t, err)
		var docs []index.Document
		for crawl := range 1 + crawls {
			docs = bare(testgen.Uniform(r, n))
			for i := range docs {
				docs[i].Key = fmt.Sprint("http://a.example/", i)
			}
			for some := range slices.Chunk(docs, 1000) {
				_, err := x.CheckAndAddBatch(ctx, some)
				must(t, err)
			}
			if packed && crawl == 0 {
				_, err = compaction.Compact(ctx, x, compaction.Options{})
				must(t, err)
			}
		}
		rest := docs[:n/10]
		var keys []string
		for _, d := range docs[n/10:] {
			keys = append(keys, d.Key)
		}
		removed, err := x.Delete(ctx, keys...)
		must(t, err)
		if s := x.Stats(); removed != len(keys) || s.Removed != uint64(crawls*n+removed) ||
			s.Documents != uint64(len(rest)) {
			t.Errorf("%d removed of %d: %+v", removed, len(keys), s)
		}
		_, err = compaction.Compact(ctx, x, compaction.Options{})
		must(t, err)
		if s := x.Stats(); s.Removed != 0 || s.Live != 0 || s.Packed != uint64(len(rest)) ||
			s.Documents != uint64(len(rest)) {
			t.Errorf("after the compaction: %+v", s)
		}
		must(t, indextest.Problems(x), x.Close())

		// Compact leaves deleted records to Pebble. Run drops them.
		got, err := compaction.Run(ctx, "ix", compaction.Options{FS: opts.FS})
		must(t, err)
		opts.FS = vfs.NewMem()
		x, err = index.Open("ix", &opts)
		must(t, err, x.Add(ctx, rest...), x.Close())
		want, err := compaction.Run(ctx, "ix", compaction.Options{FS: opts.FS})
		must(t, err)
		if got.BytesAfter > want.BytesAfter*11/10+8<<10 {
			t.Errorf("%d bytes on disk, want %d, as for an index of the remaining documents",
				got.BytesAfter, want.BytesAfter)
		}
	}
}
