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
	doc.ID = uint64(d.IntN(9)) // of the caller, to be ignored, as Added is without KeepAdded
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

// some draws documents for a step. Now and then all are the same, which makes a large posting.
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
	case 7: // everything before one of the hours of a history
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

// used returns the steps that make an index with packed and live documents. Some were replaced or
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

// plansOf returns all designs of package plan for these k, and some other plans, if they are
// wanted.
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

// TestHistoriesMatchModel tests that the index answers as the model does after any history.
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
