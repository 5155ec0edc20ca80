package index_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/indextest"
)

// same compares the index with its model, and runs Verify.
func (m modelled) same(t *testing.T, what string) {
	t.Helper()
	if err := errors.Join(m.Model.Compare(m.Index), indextest.Problems(m.Index)); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// add adds documents to the index and the model.
func (m modelled) add(t *testing.T, docs ...index.Document) {
	t.Helper()
	own := slices.Clone(docs)
	must(t, m.Index.Add(t.Context(), own...))
	if len(own) > 0 {
		m.Now = own[0].Added
	}
	m.Model.Add(docs...)
}

// numbered returns n documents with keys, none near another one.
func numbered(n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i] = index.Document{Key: fmt.Sprint("page ", i), Fingerprint: fingerprint.Fingerprint(uint64(i+1) * 0x9e3779b97f4a7c15), Tokens: 9}
	}
	return docs
}

func keysOf(docs []index.Document) (keys []string) {
	for i := range docs {
		keys = append(keys, docs[i].Key)
	}
	return keys
}

// A key or an ID that is given several times counts once: in the number that is returned, in the
// counters and in the tables. More than one commit takes are given, so that equal ones are in several.
func TestRepeatedKeysAndIDs(t *testing.T) {
	const n = 3000
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprint("packed ", packed), func(t *testing.T) {
			m := openModelled(t, index.Options{MaxDistance: 2})
			defer m.Index.Close()
			m.add(t, numbered(n)...)
			m.add(t, index.Document{Fingerprint: 5}, index.Document{Fingerprint: 5}, index.Document{Fingerprint: 5, Scope: "s"}) // IDs from n+1 on
			if packed {
				if _, err := compaction.Compact(t.Context(), m.Index, compaction.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			all := keysOf(numbered(n))
			for i, keys := range [][]string{
				{all[0], all[0], all[0]},
				{all[0], all[0]}, // it is not there any more
				{"", "", all[1], "", all[2], all[1]},
				slices.Concat(all[:1500], all[:1500], all[1000:2500]),
				slices.Repeat([]string{all[2999]}, 2500),
				slices.Repeat([]string{""}, 2500),
				{},
			} {
				want := m.Model.Delete(keys...)
				if got, err := m.Index.Delete(t.Context(), keys...); got != want || err != nil {
					t.Errorf("keys, call %d: %d deleted, want %d, %v", i, got, want, err)
				}
				m.same(t, fmt.Sprint("keys, call ", i))
			}
			for i, ids := range [][]uint64{
				{n, n, 2999, 2999, 2999}, // one of them was deleted by its key
				{n + 1, n + 1, n + 1},    // a bare document, whose fingerprint another one has
				{n + 2, n + 3, n + 2, n + 3},
				slices.Repeat([]uint64{2998}, 2500),
				{0, 0, math.MaxUint64, math.MaxUint64, n + 4, n + 4},
			} {
				want := m.keepWithout(ids)
				if got, err := m.Index.DeleteIDs(t.Context(), ids...); got != want || err != nil {
					t.Errorf("IDs, call %d: %d deleted, want %d, %v", i, got, want, err)
				}
				m.same(t, fmt.Sprint("IDs, call ", i))
			}
		})
	}
}

// keepWithout removes the documents with some IDs from the model, and returns their number.
func (m modelled) keepWithout(ids []uint64) (removed int) {
	n := len(m.Docs)
	m.Docs = m.Docs.Without(func(d *index.Document) bool { return slices.Contains(ids, d.ID) })
	return n - len(m.Docs)
}

// Several documents with one key in one call, with equal and with other contents, leave one document.
func TestRepeatedDocuments(t *testing.T) {
	for _, keep := range []bool{false, true} {
		m := openModelled(t, index.Options{MaxDistance: 2, KeepDuplicates: keep})
		defer m.Index.Close()
		d, other := numbered(2)[0], numbered(2)[1]
		other.Key = d.Key
		m.add(t, d, d, d)
		m.same(t, "added three times")
		m.add(t, d, other, d, other)
		m.same(t, "added with two contents")
		for _, docs := range [][]index.Document{{d, d, d}, {other, d, other, d, d}, slices.Repeat([]index.Document{d, other}, 300)} {
			if err := m.check(t.Context(), docs); err != nil {
				t.Error(err)
			}
		}
	}
}

// Arguments within a limit, exactly at it, and one beyond it.
func TestEdgesOfLimits(t *testing.T) {
	const base = fingerprint.Fingerprint(1 << 62)
	bits := func(n int) uint64 { return 1<<n - 1 }
	m := openModelled(t, index.Options{MaxDistance: 4, MaxShingleDistance: 14, ShortAllowance: -1, MaxLengthRatio: 1.5})
	defer m.Index.Close()
	m.add(t, index.Document{Key: "stored", Fingerprint: base, Shingles: fingerprint.ShingleSignature{1 << 60}, Tokens: 100})
	for _, c := range []struct {
		what string
		doc  index.Document
		want index.Status
	}{
		{"k - 1 bits", index.Document{Fingerprint: base ^ fingerprint.Fingerprint(bits(3))}, index.Duplicate},
		{"k bits", index.Document{Fingerprint: base ^ fingerprint.Fingerprint(bits(4))}, index.Duplicate},
		{"k + 1 bits", index.Document{Fingerprint: base ^ fingerprint.Fingerprint(bits(5))}, index.New},
		{"both distances below the limit", index.Document{Fingerprint: base ^ fingerprint.Fingerprint(bits(4)), Shingles: fingerprint.ShingleSignature{1<<60 ^ bits(9)}}, index.Duplicate},
		{"both distances at the limit", index.Document{Fingerprint: base ^ fingerprint.Fingerprint(bits(4)), Shingles: fingerprint.ShingleSignature{1<<60 ^ bits(10)}}, index.Duplicate},
		{"both distances beyond the limit", index.Document{Fingerprint: base ^ fingerprint.Fingerprint(bits(4)), Shingles: fingerprint.ShingleSignature{1<<60 ^ bits(11)}}, index.New},
		{"shorter, within the ratio", index.Document{Fingerprint: base, Tokens: 67}, index.Duplicate},
		{"shorter, beyond the ratio", index.Document{Fingerprint: base, Tokens: 66}, index.New},
		{"longer, below the ratio", index.Document{Fingerprint: base, Tokens: 149}, index.Duplicate},
		{"longer, at the ratio", index.Document{Fingerprint: base, Tokens: 150}, index.Duplicate},
		{"longer, beyond the ratio", index.Document{Fingerprint: base, Tokens: 151}, index.New},
	} {
		c.doc.Key = "checked"
		v, err := m.Index.CheckAndAdd(t.Context(), c.doc)
		if err != nil || v.Status != c.want {
			t.Errorf("%s: %v, %v; want %v", c.what, v.Status, err, c.want)
		}
		if _, err := m.Index.Delete(t.Context(), "checked"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEdgesOfSizes(t *testing.T) {
	x := openModelled(t, index.Options{})
	defer x.Index.Close()
	for i, c := range []struct {
		what string
		doc  index.Document
		ok   bool
	}{
		{"key", index.Document{Key: strings.Repeat("k", match.MaxKeyBytes-1)}, true},
		{"key", index.Document{Key: strings.Repeat("k", match.MaxKeyBytes)}, true},
		{"key", index.Document{Key: strings.Repeat("k", match.MaxKeyBytes+1)}, false},
		{"scope", index.Document{Scope: strings.Repeat("s", match.MaxScopeBytes)}, true},
		{"scope", index.Document{Scope: strings.Repeat("s", match.MaxScopeBytes+1)}, false},
		{"tokens", index.Document{Tokens: match.MaxTokens}, true},
		{"tokens", index.Document{Tokens: match.MaxTokens + 1}, false},
		{"tokens", index.Document{Tokens: -1}, false},
		{"digest", index.Document{Key: "digest", Digest: math.MaxUint64, Shingles: fingerprint.ShingleSignature{3: math.MaxUint64}, Fingerprint: math.MaxUint64, Tokens: match.MaxTokens}, true},
	} {
		c.doc.Fingerprint ^= numbered(10)[i].Fingerprint // far from the others
		v, err := x.Index.CheckAndAdd(t.Context(), c.doc)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, index.ErrTooLarge) {
			t.Errorf("%s: %v", c.what, err)
		}
		if got, found, err := x.Get(t.Context(), c.doc.Key); c.ok && c.doc.Key != "" && (!found || err != nil || got != v.Document) {
			t.Errorf("%s: it reads back differently: %v, %v", c.what, found, err)
		}
	}
}

// A limit of one fewer matches than there are, of exactly as many, and of one more.
func TestEdgesOfQueryLimits(t *testing.T) {
	m := openModelled(t, index.Options{MaxDistance: 3})
	defer m.Index.Close()
	for i := range 5 {
		m.add(t, index.Document{Key: fmt.Sprint(i), Fingerprint: 1 << (8 * i)})
	}
	q := index.Query{Signature: fingerprint.Signature{Fingerprint: 0}}
	for limit, want := range []int{5, 1, 2, 3, 4, 5, 5, 5} { // 0: all
		q.Limit = limit
		one, err := m.Index.Query(t.Context(), q)
		var many [][]index.Match
		var batchErr error
		for answer, err := range m.QueryBatch(t.Context(), []index.Query{q, q}) {
			many, batchErr = append(many, answer.Matches), errors.Join(batchErr, err)
		}
		if len(one) != want || err != nil || batchErr != nil || len(many) != 2 || len(many[0]) != want || len(many[1]) != want {
			t.Errorf("limit %d: %d matches, %v; %v in a batch, %v; want %d", limit, len(one), err, many, batchErr, want)
		}
	}
	for k, want := range map[int]int{index.Exact: 0, 1: 5, 2: 5, 3: 5} {
		q.Limit, q.MaxDistance = 0, k
		if got, err := m.Index.Query(t.Context(), q); len(got) != want || err != nil {
			t.Errorf("within %d: %d matches, %v; want %d", k, len(got), err, want)
		}
	}
	q.MaxDistance = 4
	if _, err := m.Index.Query(t.Context(), q); !errors.Is(err, index.ErrDistance) {
		t.Errorf("within k + 1: %v", err)
	}
}

// Batches of one document fewer than a window or a commit takes, of exactly as many, and of one
// more. The last document repeats the first one, across the edge.
func TestEdgesOfWindows(t *testing.T) {
	for _, n := range []int{1, 2, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2049} {
		if testing.Short() && n > 600 {
			break
		}
		m := openModelled(t, index.Options{MaxDistance: 1})
		docs := append(numbered(n), numbered(1)...)
		copied := numbered(1)[0]
		copied.Key = "a copy of the first"
		if err := m.check(t.Context(), append(docs, copied)); err != nil {
			t.Errorf("%d: %v", n, err)
		}
		keys := keysOf(docs)
		want := m.Model.Delete(keys...)
		if got, err := m.Index.Delete(t.Context(), keys...); got != want || err != nil {
			t.Errorf("%d: %d deleted, want %d, %v", n, got, want, err)
		}
		m.same(t, fmt.Sprint(n, " deleted"))
		m.add(t, numbered(n)...)
		var ids []uint64
		for id := range m.NextID + 1 {
			ids = append(ids, id)
		}
		want = m.keepWithout(ids)
		if got, err := m.Index.DeleteIDs(t.Context(), ids...); got != want || err != nil {
			t.Errorf("%d: %d deleted by ID, want %d, %v", n, got, want, err)
		}
		m.same(t, fmt.Sprint(n, " deleted by ID"))
		must(t, m.Index.Close())
	}
}

// The second before a bound, the second of it, and the one after it; second 0; times before 1970.
func TestEdgesOfTimes(t *testing.T) {
	for _, first := range []int64{-5, 0, 1, 1_700_000_000} {
		var now time.Time
		x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Now: func() time.Time { return now }, Durability: index.NoSync})
		must(t, err)
		defer x.Close()
		const n = 6
		for i := range int64(n) {
			now = time.Unix(first+i, 0)
			docs := numbered(n)[i : i+1]
			must(t, x.Add(t.Context(), docs...))
			if want := max(first+i, 0); docs[0].Added.Unix() != want {
				t.Errorf("added %v, want second %d", docs[0].Added, want)
			}
		}
		left := func(want int) {
			t.Helper()
			if got := x.Stats().Documents; got != uint64(want) {
				t.Errorf("from second %d: %d documents are left, want %d", first, got, want)
			}
			if err := indextest.Problems(x); err != nil {
				t.Error(err)
			}
		}
		before := func(second int64, want int) {
			t.Helper()
			if _, err := x.DeleteBefore(t.Context(), time.Unix(second, 0)); err != nil {
				t.Error(err)
			}
			left(want)
		}
		expire := func(age time.Duration, want int) {
			t.Helper()
			if _, err := x.Expire(t.Context(), index.Expiry{MaxAge: age}); err != nil {
				t.Error(err)
			}
			left(want)
		}
		before(max(first, 0), n) // of the first second nothing is before it
		if first >= 0 {
			before(first+1, n-1)
			now = time.Unix(first+3, 0)
			expire(2*time.Second, n-1) // the oldest is exactly as old as allowed
			now = time.Unix(first+4, 0)
			expire(2*time.Second, n-2)
		} else {
			before(1, 0)
		}
	}
}

// One document fewer than the bound, exactly the bound, and one more.
func TestEdgesOfTheNumberOfDocuments(t *testing.T) {
	for _, c := range []struct{ stored, most, want int }{{9, 10, 9}, {10, 10, 10}, {11, 10, 10}, {1000, 1000, 1000}, {1001, 1000, 990}, {1, 1, 1}, {2, 1, 1}} {
		m := openModelled(t, index.Options{})
		m.add(t, numbered(c.stored)...)
		n, err := m.Expire(t.Context(), index.Expiry{MaxDocuments: uint64(c.most)})
		if n != c.stored-c.want || err != nil {
			t.Errorf("%d of at most %d documents: %d expired, %v; want %d", c.stored, c.most, n, err, c.stored-c.want)
		}
		m.Docs = m.Docs[c.stored-c.want:] // the oldest ones are removed
		m.same(t, fmt.Sprintf("%d of at most %d", c.stored, c.most))
		must(t, m.Index.Close())
	}
}

// Documents that are loaded with old times after an expiry are expired by the next one, also with second 0.
func TestOldTimesAfterAnExpiry(t *testing.T) {
	fsys, now := vfs.NewMem(), time.Unix(1_000_000, 0)
	opts := index.Options{FS: fsys, Now: func() time.Time { return now }}
	expire := func(want int) {
		t.Helper()
		x, err := index.Open("ix", &opts)
		must(t, err)
		for i := range 2 { // the second one finds nothing
			if n, err := x.Expire(t.Context(), index.Expiry{MaxAge: time.Hour}); n != want*(1-i) || err != nil {
				t.Errorf("call %d: %d expired, %v; want %d", i, n, err, want*(1-i))
			}
		}
		if err := indextest.Problems(x); err != nil {
			t.Error(err)
		}
		must(t, x.Close())
	}
	load := func(second int64, docs ...index.Document) {
		t.Helper()
		for i := range docs {
			docs[i].Added = time.Unix(second, 0)
		}
		if _, err := compaction.Load(context.Background(), "ix", yieldAll(docs), compaction.LoadOptions{Index: opts, KeepAdded: true}); err != nil {
			t.Fatal(err)
		}
	}
	docs := numbered(40)
	load(1_000_000, docs[:10]...)
	expire(0)
	now = now.Add(2 * time.Hour)
	expire(10)
	load(500_000, docs[10:20]...)
	load(now.Unix(), docs[20:22]...)
	expire(10)
	load(0, docs[22:30]...)
	load(1, docs[30:40]...)
	expire(18)
}

func yieldAll(docs []index.Document) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
	}
}
