package bench

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testenv"
	"pgregory.net/rapid"
)

var must = testenv.Must

// The reference finds what comparing with everything finds, at every k.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := collection{seed: rapid.Uint64().Draw(t, "seed"), n: rapid.IntRange(1, 2000).Draw(t, "documents")}
		k := rapid.IntRange(0, plan.MaxDistance).Draw(t, "k")
		ref, err := newReference(t.Context(), c, k)
		must(t, err)
		asked := c.queries(k, streamTimed).next(50)
		expected, err := scan(t.Context(), c, k, asked)
		must(t, err)
		for i, fp := range asked {
			must(t, verifyReference(fp, expected[i], ref.query(uint64(fp), nil)))
		}
	})
}

// An index that misses one document, has one too many, or gives a wrong ID is found out.
func TestVerifyFails(t *testing.T) {
	c := collection{seed: 1, n: 8}
	for name, change := range map[string]func([]index.Document) []index.Document{
		"":               func(docs []index.Document) []index.Document { return docs },
		"one is missing": func(docs []index.Document) []index.Document { return docs[:7] },
		"one too many": func(docs []index.Document) []index.Document {
			return append(docs, index.Document{Fingerprint: docs[3].Fingerprint})
		},
		"another order": func(docs []index.Document) []index.Document {
			docs[1], docs[2] = docs[2], docs[1]
			return docs
		},
		"another fingerprint": func(docs []index.Document) []index.Document {
			docs[4].Fingerprint ^= 1
			return docs
		},
	} {
		var docs []index.Document
		for d := range c.documents(0, c.n, false) {
			docs = append(docs, d)
		}
		o := &index.Options{MaxDistance: 3, Durability: index.NoSync, FS: vfs.NewMem()}
		err := withIndex("index", o, func(x *index.Index) error {
			if err := x.Add(t.Context(), change(docs)...); err != nil {
				return err
			}
			_, err := verify(t.Context(), x, c, 3)
			return err
		})
		if name == "" && err != nil || name != "" && !errors.Is(err, ErrWrongAnswer) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestVerifyReferenceFails(t *testing.T) {
	match := []index.Match{{Document: index.Document{Fingerprint: 5}}}
	for _, found := range [][]uint64{nil, {4}, {5, 5}, {4, 5}} {
		if err := verifyReference(5, match, found); !errors.Is(err, ErrWrongAnswer) {
			t.Errorf("%v: %v", found, err)
		}
	}
	if err := verifyReference(5, match, []uint64{5}); err != nil {
		t.Error(err)
	}
}

func TestKeys(t *testing.T) {
	c := collection{seed: 3, n: 10_000}
	keys := make(map[string]bool)
	for d := range c.documents(0, c.n, true) {
		keys[d.Key] = true
		if len(d.Key) != keyBytes {
			t.Fatalf("key %q has %d bytes", d.Key, len(d.Key))
		}
	}
	if len(keys) != c.n {
		t.Errorf("%d keys are different, want %d", len(keys), c.n)
	}
	if c.key(1e9) == c.key(1e9+1) || len(c.key(1e10)) != keyBytes {
		t.Errorf("keys far on: %q", c.key(1e10))
	}
}

// Half of the queries are within k bits of something stored, at every distance.
func TestQueries(t *testing.T) {
	c := collection{seed: 4, n: 1000}
	const k, asked = 5, 1200
	expected, err := scan(t.Context(), c, k, c.queries(k, streamTimed).next(asked))
	must(t, err)
	at := make(map[int]int)
	for i, found := range expected {
		if len(found) > 0 {
			at[found[0].Distance]++
		}
		if i%2 == 1 && len(found) == 0 {
			t.Errorf("query %d finds nothing", i)
		}
	}
	for d := range k + 1 {
		if at[d] < asked/2/(k+1)/2 || at[d] > asked/2/(k+1)*2 {
			t.Errorf("%d of %d at distance %d", at[d], asked, d)
		}
	}
}
