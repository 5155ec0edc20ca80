package index_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
)

// same compares the index with its model, and verifies the index.
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

// numbered returns n documents with keys. None is near another one.
func numbered(n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i] = index.Document{Key: fmt.Sprint("page ", i),
			Fingerprint: fingerprint.Fingerprint(uint64(i+1) * 0x9e3779b97f4a7c15), Tokens: 9}
	}
	return docs
}

func keysOf(docs []index.Document) (keys []string) {
	for i := range docs {
		keys = append(keys, docs[i].Key)
	}
	return keys
}

// keepWithout removes the documents with some IDs from the model, and returns their number.
func (m modelled) keepWithout(ids []uint64) (removed int) {
	n := len(m.Docs)
	m.Docs = m.Docs.Without(func(d *index.Document) bool { return slices.Contains(ids, d.ID) })
	return n - len(m.Docs)
}

// TestRepeatedKeysAndIDs tests that a repeated key or ID counts once, also if equal ones are in
// several commits. The histories repeat keys and IDs within a commit.
func TestRepeatedKeysAndIDs(t *testing.T) {
	const n = 3000
	m := openModelled(t, index.Options{MaxDistance: 2})
	defer m.Index.Close()
	m.add(t, numbered(n)...)
	// IDs from n+1 on
	m.add(t, index.Document{Fingerprint: 5}, index.Document{Fingerprint: 5, Scope: "s"})
	all := keysOf(numbered(n))
	for i, keys := range [][]string{
		slices.Concat(all[:1500], []string{""}, all[:1500], all[1000:2500]),
		slices.Repeat([]string{all[2999]}, 2500),
		{all[2999], "", ""}, // it is not there any more
	} {
		want := m.Model.Delete(keys...)
		if got, err := m.Index.Delete(t.Context(), keys...); got != want || err != nil {
			t.Errorf("keys, call %d: %d deleted, want %d, %v", i, got, want, err)
		}
		m.same(t, fmt.Sprint("keys, call ", i))
	}
	for i, ids := range [][]uint64{
		slices.Concat(slices.Repeat([]uint64{2998, n}, 1200), []uint64{n + 1, n + 2, n + 1}),
		{0, 0, math.MaxUint64, math.MaxUint64, n + 3},
	} {
		want := m.keepWithout(ids)
		if got, err := m.Index.DeleteIDs(t.Context(), ids...); got != want || err != nil {
			t.Errorf("IDs, call %d: %d deleted, want %d, %v", i, got, want, err)
		}
		m.same(t, fmt.Sprint("IDs, call ", i))
	}
}

// TestEdgesOfWindows tests batches that have one document less than a window or a commit, exactly
// as many, and one more. The last document repeats the first one, in the next window.
func TestEdgesOfWindows(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 513, 1024, 1025} {
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
