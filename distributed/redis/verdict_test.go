package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/checktest"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// documents returns documents that are near each other in all ways that the rule distinguishes,
// with scopes and repeated keys.
func documents(r *rand.Rand, n int) (docs []index.Document) {
	for i := range n {
		d := index.Document{Fingerprint: fingerprint.Fingerprint(r.Uint64()),
			Shingles: fingerprint.ShingleSignature{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}}
		if i > 0 && r.IntN(4) > 0 {
			d = docs[r.IntN(i)]
			d.Fingerprint = fingerprint.Fingerprint(
				testgen.Flip(r, uint64(d.Fingerprint), ^uint64(0), r.IntN(6)))
			d.Shingles[1] = testgen.Flip(r, d.Shingles[1], ^uint64(0), r.IntN(64))
		}
		if r.IntN(6) == 0 {
			d.Shingles = fingerprint.ShingleSignature{}
		}
		d.Tokens, d.Key = []int{0, 50, 100, 120, 140, 400}[r.IntN(6)], ""
		d.Scope = []string{"", "", "a", "b"}[r.IntN(4)]
		if r.IntN(3) > 0 {
			d.Key = fmt.Sprintf("https://example.org/%d", r.IntN(n/3+1))
		}
		docs = append(docs, d)
	}
	return docs
}

// TestChecker tests that the Redis index passes the tests of a neardup.Checker.
func TestChecker(t *testing.T) {
	checktest.Run(t, func(t *testing.T) neardup.Checker { return openShared(t, Options{}) })
}

// TestVerdictsEqualEmbeddedIndex compares the verdicts of one client, single and in
// batches, with the model that the tests of the embedded index use.
func TestVerdictsEqualEmbeddedIndex(t *testing.T) {
	for i, o := range []Options{
		{MaxDistance: 3}, {MaxDistance: 3, Expected: 31_000_000}, {MaxDistance: 6},
		{MaxDistance: 6, Expected: 30_000_000}, {MaxDistance: 10, Expected: 1_000_000},
		{MaxDistance: index.Exact}, {MaxDistance: 3, Bare: true},
		{MaxDistance: 6, MaxShingleDistance: -1, MaxLengthRatio: 3},
		{MaxDistance: 6, MaxShingleDistance: 16, ShortAllowance: 5, MaxLengthRatio: -1},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			x, r := openShared(t, o), rand.New(rand.NewPCG(testenv.Seed(t), uint64(i)))
			x.longLog >>= i % 2 * 6 // commits rewrite logs
			rule := indextest.RuleOf(index.Options{Analyzer: x.analyzer,
				MaxShingleDistance: o.MaxShingleDistance, ShortAllowance: o.ShortAllowance,
				MaxLengthRatio: o.MaxLengthRatio}, max(o.MaxDistance, 0))
			sameHistory(t, x, indextest.NewModel(rule), r, documents(r, 600))
		})
	}
}

// TestBatchOrder tests that the documents of a batch are decided in their order. The first document
// replaces the nearest match of the second one. The third document then replaces its other match.
func TestBatchOrder(t *testing.T) {
	x := openShared(t, Options{MaxDistance: 1, Bare: true})
	_, err := x.CheckDocuments(t.Context(), []index.Document{{Key: "first", Fingerprint: 1},
		{Key: "second", Fingerprint: 2}})
	must(t, err)
	got, err := x.CheckDocuments(t.Context(), []index.Document{
		{Key: "first", Fingerprint: 0xff << 20}, {Key: "copy", Fingerprint: 0},
		{Key: "second", Fingerprint: 0xff << 40},
	})
	must(t, err)
	if got[0].Status != neardup.Changed || got[1].Status != neardup.Duplicate ||
		got[1].Of.Key != "second" || got[2].Status != neardup.Changed {
		t.Errorf("%+v", got)
	}
}

// sameHistory makes the same calls on the index and the model.
func sameHistory(t *testing.T, x *Index, m *indextest.Model, r *rand.Rand, docs []index.Document) {
	ctx, ids := t.Context(), make(map[uint64]uint64) // IDs of the index, by IDs of the model
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m.Now = clock
	x.now = func() time.Time { return m.Now }
	translate := func(d index.Document) index.Document { d.ID = ids[d.ID]; return d }
	for len(docs) > 0 {
		m.Now = m.Now.Add(time.Duration(r.IntN(3)) * time.Second)
		part := docs[:min(len(docs), []int{1, 1, 2, 7, 40, 300}[r.IntN(6)])]
		docs = docs[len(part):]
		got, err := x.checkAndAdd(ctx, part)
		must(t, err)
		for i := range part {
			want := m.CheckAndAdd(part[i])
			if want.Document.ID != 0 {
				ids[want.Document.ID] = got[i].Document.ID
			}
			want.Document, want.Of.Document = translate(want.Document), translate(want.Of.Document)
			if got[i] != want {
				t.Fatalf("document %d of a batch of %d: %+v\ngot  %+v\nwant %+v", i, len(part),
					part[i], got[i], want)
			}
		}
		switch r.IntN(8) {
		case 0:
			keys := []string{part[0].Key, "", "unknown", part[len(part)-1].Key}
			n, err := x.Delete(ctx, keys...)
			must(t, err)
			if want := m.Delete(keys...); n != want {
				t.Fatalf("Delete: %d, want %d", n, want)
			}
		case 1:
			before := m.Now.Add(-4 * time.Second)
			n, err := x.DeleteBefore(ctx, before)
			must(t, err)
			if want := m.DeleteBefore(before); n != want {
				t.Fatalf("DeleteBefore: %d, want %d", n, want)
			}
		case 2:
			x.grace = 0
			_, err := x.Sweep(ctx)
			must(t, err)
		}
		q := part[r.IntN(len(part))]
		matches, err := x.Query(ctx, index.Query{Signature: q.Signature(),
			Scope: q.Scope, Limit: 5})
		must(t, err)
		want := m.Docs.Near(m.Rule, &q, 5)
		for i := range want {
			want[i].Document = translate(want[i].Document)
		}
		if !reflect.DeepEqual(matches, want) {
			t.Fatalf("Query: %v, want %v", matches, want)
		}
		d, found, err := x.Get(ctx, q.Key)
		must(t, err)
		if want, there := m.Docs.Key(q.Key); found != there || d != translate(want) {
			t.Fatalf("Get: %v %t, want %v %t", d, found, want, there)
		}
	}
	if stray := leftBehind(t, x, m); stray != "" {
		t.Fatal(stray)
	}
}

// leftBehind returns the remaining data in Redis about deleted documents after a sweep.
func leftBehind(t *testing.T, x *Index, m *indextest.Model) string {
	ctx := context.Background()
	x.grace = 0
	for range 2 { // the second sweep drops the entries for dead documents of the first one
		_, err := x.Sweep(ctx)
		must(t, err)
	}
	stored, documents, keys, keyed := 0, 0, 0, 0
	must(t, x.cluster.scan(ctx, ":", func(names []string) error {
		for _, name := range names {
			v := x.cluster.multi.Get(ctx, name).Val() // the key of a barrier may have expired
			switch name[len(x.name)+1] {
			case 'b':
				must(t, x.entries(&command{key: name, value: v},
					func(string, uint64, id) { stored++ }))
			case 'g':
				l, err := replay(name, v)
				must(t, err)
				documents, keys = documents+len(l.bySeq), keys+len(l.byKey)
			}
		}
		return nil
	}))
	for _, d := range m.Docs {
		if d.Key != "" {
			keyed++
		}
	}
	if n := len(m.Docs); documents != n || stored != n*len(x.plan.Tables) || keys != keyed {
		return fmt.Sprintf("%d documents, %d with keys, have %d states in logs, %d entries in %d "+
			"tables, %d keys", n, keyed, documents, stored, len(x.plan.Tables), keys)
	}
	return ""
}
