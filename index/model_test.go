package index_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	planning "github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"github.com/neardup/neardup/internal/testing/testhook"
)

var must = testenv.Must

// modelled is an index with its model.
type modelled struct {
	*index.Index
	*indextest.Model
}

func openModelled(t *testing.T, opts index.Options) modelled {
	x := index.OpenMem(t, opts)
	return modelled{x, indextest.NewModel(indextest.RuleOf(opts, x.Plan().MaxDistance))}
}

// check compares the verdicts on a batch with the model, and returns them. The model uses the times
// that the index assigns.
func (m modelled) check(
	t *testing.T, ctx context.Context, docs []index.Document,
) []index.Verdict {
	t.Helper()
	before := slices.Clone(docs)
	verdicts, err := m.Index.CheckAndAddBatch(ctx, docs)
	if err != nil || len(verdicts) != len(docs) || !slices.Equal(docs, before) {
		t.Fatalf("%d verdicts on %d documents: %v", len(verdicts), len(docs), err)
	}
	for i, got := range verdicts {
		m.Now = got.Document.Added
		if want := m.Model.CheckAndAdd(docs[i]); got != want {
			t.Fatalf("document %d, %+v:\n%+v, not\n%+v", i, docs[i], got, want)
		}
		if stored := got.Document.ID != 0; stored == got.Document.Added.IsZero() {
			t.Fatalf("document %d, stored %v, was added %v", i, stored, got.Document.Added)
		}
	}
	m.compare(t)
	return verdicts
}

// compare compares the index with its model, and verifies the index.
func (m modelled) compare(t *testing.T) {
	t.Helper()
	must(t, m.Model.Compare(m.Index), indextest.Problems(m.Index))
}

// add adds documents to the index and the model.
func (m modelled) add(t *testing.T, docs ...index.Document) {
	t.Helper()
	own := slices.Clone(docs)
	must(t, m.Index.Add(t.Context(), own...))
	m.Now = own[0].Added
	m.Model.Add(docs...)
}

// delete deletes documents of the index and the model.
func (m modelled) delete(t *testing.T, keys ...string) {
	t.Helper()
	deleted, err := m.Index.Delete(t.Context(), keys...)
	must(t, err)
	if want := m.Model.Delete(keys...); deleted != want {
		t.Fatalf("%d deleted, want %d", deleted, want)
	}
	m.compare(t)
}

func keysOf(docs []index.Document) (keys []string) {
	for i := range docs {
		keys = append(keys, docs[i].Key)
	}
	return keys
}

func idsUpTo(n uint64) (ids []uint64) {
	for id := range n {
		ids = append(ids, id+1)
	}
	return ids
}

// fill adds documents that have only a fingerprint.
func (m modelled) fill(t *testing.T, fps []uint64) {
	t.Helper()
	for chunk := range slices.Chunk(fps, 100_000) {
		docs := make([]index.Document, len(chunk))
		for i, fp := range chunk {
			docs[i].Fingerprint = fingerprint.Fingerprint(fp)
		}
		must(t, m.Index.Add(t.Context(), docs...))
		m.Docs = append(m.Docs, docs...)
	}
}

// query compares the answers to queries at every distance.
func (m modelled) query(t *testing.T, queries []uint64) {
	t.Helper()
	for _, q := range queries {
		for k := range m.Rule.MaxDistance + 1 {
			must(t, m.Model.Query(m.Index, index.Document{Fingerprint: fingerprint.Fingerprint(q)},
				k, 0))
		}
	}
}

// compareCounts compares the counts of duplicates.
func (m modelled) compareCounts(t *testing.T) {
	t.Helper()
	for id := uint64(1); id < m.NextID; id++ {
		got, err := m.Duplicates(t.Context(), id)
		must(t, err)
		want := uint64(0)
		if c := m.Counts[id]; c != nil && m.Docs.Has(id) {
			want = c.Checks
		}
		if got[0] != want {
			t.Fatalf("document %d has %d duplicates, not %d", id, got[0], want)
		}
	}
}

// TestEdgesOfWindows tests calls with about as many documents as a window has. The last documents
// of the checked batch are a recrawl and a copy of the first one.
func TestEdgesOfWindows(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 513} {
		m := openModelled(t, index.Options{MaxDistance: 1})
		docs := append(index.Strangers(n), index.Strangers(1)...)
		copied := docs[0]
		copied.Key = "a copy of the first"
		m.check(t, t.Context(), append(docs, copied))
		m.delete(t, keysOf(docs)...)
		m.add(t, index.Strangers(n)...)
		deleted, err := m.DeleteIDs(t.Context(), idsUpTo(m.NextID)...)
		if err != nil || deleted != len(m.Docs) {
			t.Errorf("%d deleted by ID of %d: %v", deleted, len(m.Docs), err)
		}
		m.Docs = nil
		m.compare(t)
	}
}

// TestCheckAndAddOverWindows compares a batch of several windows with the model. Chains of
// near-duplicates cross the borders of the windows.
func TestCheckAndAddOverWindows(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for i, keep := range []bool{false, true, false, true} {
		docs := make([]index.Document, 900)
		for i, fp := range testgen.Clustered(rng, len(docs)) {
			docs[i].Fingerprint = fingerprint.Fingerprint(fp)
			if rng.IntN(2) == 0 {
				docs[i].Key = fmt.Sprint(rng.IntN(600))
			}
			if rng.IntN(3) > 0 {
				docs[i].Shingles = fingerprint.ShingleSignature{testgen.Flip(rng, 1,
					^uint64(0), rng.IntN(15))}
				docs[i].Tokens = 100 + rng.IntN(50)
			}
		}
		ctx := t.Context()
		if i < 2 {
			ctx = testhook.WithParts(ctx, 8, 32)
		}
		openModelled(t, index.Options{KeepDuplicates: keep}).check(t, ctx, docs)
	}
}

// TestSitesOneByOne compares batches of pages that share templates with the model, for several
// values of Options.SiteTexts, with recrawls and deletions. The counts of duplicates must survive a
// restart.
func TestSitesOneByOne(t *testing.T) {
	verdicts := make(map[string]int)
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 4))
		opts := index.Options{FS: vfs.NewMem(), MaxDistance: 6,
			SiteTexts: []int{-1, 1, 3, 0}[seed%4], KeepDuplicates: seed%4 == 3}
		m := openModelled(t, opts)
		m.Counts = make(map[uint64]*indextest.Count)
		for range 6 {
			docs := make([]index.Document, 5+rng.IntN(120))
			for i := range docs {
				docs[i] = templatePage(rng, seed)
			}
			ctx := t.Context()
			if rng.IntN(2) == 0 {
				ctx = testhook.WithParts(ctx, 4, 16)
			}
			for _, v := range m.check(t, ctx, docs[5:]) {
				verdicts[fmt.Sprint(opts.SiteTexts < 0, " ", v.Status)]++
			}
			m.compareCounts(t)
			m.delete(t, keysOf(docs[:5])...)
			m.compareCounts(t)
			if rng.IntN(2) == 0 {
				must(t, m.Close())
				m.Index = index.OpenMem(t, opts)
				m.compareCounts(t)
			}
		}
	}
	t.Log(verdicts)
	for _, what := range []string{"false new", "false duplicate", "true duplicate"} {
		if verdicts[what] < 50 {
			t.Errorf("%d verdicts are %q", verdicts[what], what)
		}
	}
}

// templatePage returns a page of one of three templates on one of two sites, or of no site. Pages
// of a template differ in a few bits of the first fingerprint and in up to 40 bits of the shingles.
func templatePage(rng *rand.Rand, seed uint64) index.Document {
	template := rng.IntN(3)
	of := rand.New(rand.NewPCG(seed, uint64(template)))
	d := index.Document{
		Fingerprint: fingerprint.Fingerprint(testgen.Flip(rng, of.Uint64(),
			^uint64(0), rng.IntN(4))),
		Tokens: []int{15, 40, 400}[template] + rng.IntN(5),
		Digest: fingerprint.Digest(1 + rng.IntN(500)),
	}
	for i := range d.Shingles {
		d.Shingles[i] = testgen.Flip(rng, of.Uint64(), ^uint64(0), rng.IntN(11))
	}
	if rng.IntN(20) == 0 {
		d.Shingles, d.Tokens = fingerprint.ShingleSignature{}, rng.IntN(2)*60
	}
	d.Key = []string{fmt.Sprintf("http://%d.example/%d", template%2, rng.IntN(150)),
		fmt.Sprint("page ", rng.IntN(50)), ""}[max(0, rng.IntN(8)-5)]
	if rng.IntN(10) == 0 {
		d.Scope = "s"
	}
	return d
}

// TestQueryIsExactWithoutMultiIndex tests queries while the live entries are searched in memory,
// and after they no longer fit, when the tables are searched.
func TestQueryIsExactWithoutMultiIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 0))
	plan, err := planning.Parse(
		"k=6 0-63/13 13-29,0-12,30-63/17~1 30-46,0-29,47-63/17~1 47-63,0-46/17~1")
	must(t, err)
	m := openModelled(t, index.Options{Plan: plan, FilterBytes: 1 << 20})
	var fps []uint64
	fit, tooMany := false, false
	for _, set := range testgen.Sets(rng, 4096) {
		m.fill(t, set.Fingerprints)
		fps = append(fps, set.Fingerprints...)
		m.query(t, testgen.Queries(rng, fps, 8, 6))
		fit, tooMany = fit || m.HasNear(), tooMany || !m.HasNear()
	}
	if !fit || !tooMany {
		t.Errorf("searched in memory: %v; searched in the tables: %v", fit, tooMany)
	}
}

// TestQueryBatchBeyondItsLimits tests more queries than one pass over the index answers, and more
// hits than a pass keeps in memory.
func TestQueryBatchBeyondItsLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 5))
	m := openModelled(t, index.Options{})
	fps := testgen.Clustered(rng, 600)
	m.fill(t, fps)
	queries := make([]index.Query, 5000)
	for i, q := range testgen.Queries(rng, fps, len(queries), 3)[:len(queries)] {
		queries[i].Fingerprint = fingerprint.Fingerprint(q)
	}
	for _, limits := range []struct {
		queries int
		hits    int64
	}{{1 << 20, 700}, {150, 1 << 20}} {
		restore := index.SetBatchLimits(limits.queries, limits.hits)
		found, next := 0, 0
		for got, err := range m.QueryBatch(testhook.WithScannedBatches(t.Context(), true),
			queries) {
			must(t, err)
			want := m.Docs.Near(m.Rule, &index.Document{Fingerprint: queries[next].Fingerprint}, 0)
			if diff := indextest.Difference(got.Matches, want); got.Query != next || diff != "" {
				t.Fatalf("answer %d is for query %d: %s", next, got.Query, diff)
			}
			found, next = found+len(want), next+1
		}
		restore()
		if found < 2*700 || next != len(queries) {
			t.Errorf("%+v: %d matches, %d of %d answers", limits, found, next, len(queries))
		}
	}
	for a, err := range m.QueryBatch(t.Context(), nil) {
		t.Errorf("an answer to no query: %+v, %v", a, err)
	}
}
