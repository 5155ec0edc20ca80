package index_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testgen"
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

// TestDeleteIDsOfBareDocuments deletes documents that have no record, in several commits, with
// repeated IDs. A document that gets one of the IDs during the call is removed completely
// or stays.
func TestDeleteIDsOfBareDocuments(t *testing.T) {
	const bare = 3000
	opts := index.Options{FS: vfs.NewMem(), Durability: index.NoSync}
	docs := numbered(bare)
	for i := range docs {
		docs[i] = index.Document{Fingerprint: docs[i].Fingerprint}
	}
	_, err := compaction.Load(t.Context(), "ix", testgen.Sequence(docs),
		compaction.LoadOptions{Index: opts})
	must(t, err)
	x, err := index.Open("ix", &opts)
	must(t, err)
	var ids []uint64
	for id := range uint64(bare + 2000) {
		ids = append(ids, id, id, math.MaxUint64-id)
	}
	asked, added := 0, 0
	n, err := x.DeleteIDs(whenAsked{t.Context(), func() {
		if asked++; asked > bare+1000 && added < 100 { // the IDs have been looked up
			must(t, x.Add(t.Context(), numbered(added + 1)[added]))
			added++
		}
	}}, ids...)
	if s := x.Stats(); err != nil || n < bare || s.Bare != 0 ||
		s.Documents != uint64(bare+added-n) {
		t.Errorf("%d of %d and %d documents deleted, %v: %+v", n, bare, added, err, s)
	}
	must(t, indextest.Problems(x), x.Close())
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
