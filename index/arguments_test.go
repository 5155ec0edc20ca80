package index_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

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

// keepWithout removes the documents with some IDs from the model, and returns their number.
func (m modelled) keepWithout(ids []uint64) (removed int) {
	n := len(m.Docs)
	m.Docs = m.Docs.Without(func(d *index.Document) bool { return slices.Contains(ids, d.ID) })
	return n - len(m.Docs)
}

// TestDeleteIDsOfBareDocuments deletes documents that have no record, in several commits, with
// repeated IDs. A document that gets one of the IDs during the call is removed completely
// or stays.
func TestDeleteIDsOfBareDocuments(t *testing.T) {
	const bare = 3000
	docs := index.Strangers(bare)
	for i := range docs {
		docs[i].Key = ""
	}
	x := index.OpenMem(t, index.Options{FS: loaded(t, docs)})
	var ids []uint64
	for id := range uint64(bare + 2000) {
		ids = append(ids, id, id, math.MaxUint64-id)
	}
	asked, added := 0, 0
	n, err := x.DeleteIDs(index.WhenAsked{t.Context(), func() {
		if asked++; asked > bare+1000 && added < 100 { // the IDs have been looked up
			must(t, x.Add(t.Context(), index.Strangers(added + 1)[added]))
			added++
		}
	}}, ids...)
	if s := x.Stats(); err != nil || n < bare || s.Bare != 0 ||
		s.Documents != uint64(bare+added-n) {
		t.Errorf("%d of %d and %d documents deleted, %v: %+v", n, bare, added, err, s)
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
		docs := append(index.Strangers(n), index.Strangers(1)...)
		copied := docs[0]
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
		m.add(t, index.Strangers(n)...)
		var ids []uint64
		for id := range m.NextID + 1 {
			ids = append(ids, id)
		}
		want = m.keepWithout(ids)
		if got, err := m.Index.DeleteIDs(t.Context(), ids...); got != want || err != nil {
			t.Errorf("%d: %d deleted by ID, want %d, %v", n, got, want, err)
		}
		m.same(t, fmt.Sprint(n, " deleted by ID"))
	}
}
