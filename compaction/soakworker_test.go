package compaction_test

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// soakWorker makes one call after the other in a scope of its own, and compares what comes of
// it with its model.
type soakWorker struct {
	*soak
	number int
	scope  string
	random *rand.Rand
	model  *soakModel
	pages  int // how many keys there were
}

// soakCalls are the calls of a worker with how often they are made, in 100.
var soakCalls = []struct {
	name  string
	often int
	do    func(*soakWorker, context.Context) error
}{
	{"query", 42, (*soakWorker).query},
	{"get", 12, (*soakWorker).get},
	{"check-and-add", 14, (*soakWorker).checkOne},
	{"check-and-add, batch", 10, (*soakWorker).checkBatch},
	{"add", 12, (*soakWorker).add},
	{"delete", 10, (*soakWorker).delete},
}

func (w *soakWorker) run(ctx context.Context) error {
	for ctx.Err() == nil && !w.over.Load() {
		if err := w.step(ctx); err != nil {
			return fmt.Errorf("worker %d: %w", w.number, err)
		}
	}
	return ctx.Err()
}

func (w *soakWorker) step(ctx context.Context) error {
	w.open.RLock()
	defer w.open.RUnlock()
	draw := w.random.IntN(100)
	for _, call := range soakCalls {
		if draw -= call.often; draw >= 0 {
			continue
		}
		if call.name == "delete" && len(w.model.docs) < w.documents/len(w.workers) {
			call.name, call.do = "add", (*soakWorker).add // until there are as many as there are to be
		}
		if err := call.do(w, ctx); err != nil {
			return fmt.Errorf("%s: %w", call.name, err)
		}
		w.calls.Add(1)
		return nil
	}
	return nil
}

// document draws a new document, every other one near to one that is there.
func (w *soakWorker) document() index.Document {
	d := index.Document{Scope: w.scope, Fingerprint: fingerprint.Fingerprint(w.random.Uint64())}
	if w.random.IntN(3) > 0 && w.scope != "" {
		d.Shingle = fingerprint.Fingerprint(w.random.Uint64())
	}
	if near := w.some(); near != nil && w.random.IntN(2) == 0 {
		d.Fingerprint = near.Fingerprint ^ w.flips(w.random.IntN(w.model.k+3))
		if d.Shingle != 0 && w.random.IntN(2) == 0 {
			d.Shingle = near.Shingle ^ w.flips(w.random.IntN(2*index.DefaultMaxShingleDistance))
		}
	}
	if w.scope == "" && w.random.IntN(2) == 0 {
		return d
	}
	if known := w.some(); known != nil && w.random.IntN(5) == 0 {
		d.Key = known.Key // a recrawl
	} else {
		w.pages++
		d.Key = fmt.Sprintf("http://%d.example/%d", w.number, w.pages)
	}
	return d
}

// flips draws up to n bits.
func (w *soakWorker) flips(n int) (flips fingerprint.Fingerprint) {
	for range n {
		flips |= 1 << w.random.IntN(64)
	}
	return flips
}

// some draws a document that is there; nil if there is none.
func (w *soakWorker) some() *index.Document {
	if len(w.model.docs) == 0 {
		return nil
	}
	return &w.model.docs[w.random.IntN(len(w.model.docs))]
}

func (w *soakWorker) batch() []index.Document {
	docs := make([]index.Document, 1+w.random.IntN(64))
	for i := range docs {
		docs[i] = w.document()
	}
	return docs
}

func (w *soakWorker) add(ctx context.Context) error {
	docs := w.batch()
	if err := w.index.Add(ctx, docs...); err != nil {
		return err
	}
	last := make(map[string]int) // of several with one key the last counts
	for i, d := range docs {
		last[d.Key] = i
	}
	for i, d := range docs {
		if d.Key != "" && last[d.Key] != i {
			continue
		}
		if err := w.model.add(d); err != nil {
			return err
		}
	}
	return nil
}

func (w *soakWorker) checkOne(ctx context.Context) error {
	d := w.document()
	v, err := w.index.CheckAndAdd(ctx, d)
	if err != nil {
		return err
	}
	return w.model.check(d, v)
}

func (w *soakWorker) checkBatch(ctx context.Context) error {
	docs := w.batch()
	verdicts, err := w.index.CheckAndAddBatch(ctx, docs)
	if err != nil {
		return err
	}
	if len(verdicts) != len(docs) {
		return fmt.Errorf("%w: %d verdicts on %d documents", errWrongAnswer, len(verdicts), len(docs))
	}
	for i, v := range verdicts {
		if err := w.model.check(docs[i], v); err != nil {
			return fmt.Errorf("document %d of %d: %w", i, len(docs), err)
		}
	}
	return nil
}

func (w *soakWorker) query(ctx context.Context) error {
	asked := w.document()
	k, limit, shingle := w.model.k, 0, fingerprint.Fingerprint(0)
	opts := []index.QueryOption{index.InScope(w.scope)}
	switch w.random.IntN(4) {
	case 0:
		k = w.random.IntN(k + 1)
		opts = append(opts, index.MaxDistance(k))
	case 1:
		limit = 1 + w.random.IntN(3)
		opts = append(opts, index.Limit(limit))
	case 2:
		shingle = asked.Shingle
		opts = append(opts, index.Shingle(shingle))
	}
	got, err := w.index.Query(ctx, asked.Fingerprint, opts...)
	if err != nil {
		return err
	}
	want := w.model.query(asked.Fingerprint, shingle, k)
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	if diff := difference(got, want); diff != "" {
		return fmt.Errorf("%w: %v with k = %d, limit %d, shingle %v: %s", errWrongAnswer, asked.Fingerprint, k, limit, shingle, diff)
	}
	return nil
}

func (w *soakWorker) get(ctx context.Context) error {
	key := w.document().Key
	if d := w.some(); d != nil && w.random.IntN(4) > 0 {
		key = d.Key
	}
	got, found, err := w.index.Get(ctx, key)
	if err != nil {
		return err
	}
	var want index.Document
	id, stored := w.model.byKey[key]
	if at, _ := w.model.at(id); stored {
		want = w.model.docs[at]
	}
	if found != stored || got != want {
		return fmt.Errorf("%w: document of key %q is %+v, found %v, not %+v", errWrongAnswer, key, got, found, want)
	}
	return nil
}

func (w *soakWorker) delete(ctx context.Context) error {
	keys := []string{"no such key"}
	for range 1 + w.random.IntN(128) {
		if d := w.some(); d != nil && d.Key != "" {
			keys = append(keys, d.Key)
		}
	}
	deleted, err := w.index.Delete(ctx, keys...)
	if err != nil {
		return err
	}
	if want := w.model.remove(keys...); deleted != want {
		return fmt.Errorf("%w: %d of %d keys deleted, not %d", errWrongAnswer, deleted, len(keys), want)
	}
	return nil
}

// soakModel is the documents of a scope, which one worker and expiry change. It answers by
// comparing with each of them.
type soakModel struct {
	k     int
	docs  []index.Document // by ID, which only grows
	byKey map[string]uint64
}

func newSoakModel(k int) *soakModel { return &soakModel{k: k, byKey: make(map[string]uint64)} }

func (m *soakModel) at(id uint64) (int, bool) {
	return slices.BinarySearchFunc(m.docs, id, func(d index.Document, id uint64) int { return cmp.Compare(d.ID, id) })
}

// add takes in a document as the index has stored it, in the place of the one that had its key.
func (m *soakModel) add(d index.Document) error {
	if n := len(m.docs); d.ID == 0 || n > 0 && d.ID <= m.docs[n-1].ID {
		return fmt.Errorf("%w: ID %d is not above those before", errWrongAnswer, d.ID)
	}
	m.remove(d.Key)
	if d.Key != "" {
		m.byKey[d.Key] = d.ID
	}
	m.docs = append(m.docs, d)
	return nil
}

// remove takes out the documents that have a key and returns how many they were.
func (m *soakModel) remove(keys ...string) (removed int) {
	gone := make(map[uint64]bool)
	for _, key := range keys {
		if id, known := m.byKey[key]; known {
			gone[id] = true
			delete(m.byKey, key)
		}
	}
	if len(gone) > 0 {
		m.docs = slices.DeleteFunc(m.docs, func(d index.Document) bool { return gone[d.ID] })
	}
	return len(gone)
}

// expire takes out what was added before a Unix second and returns how much.
func (m *soakModel) expire(second int64) int {
	before := len(m.docs)
	m.docs = slices.DeleteFunc(m.docs, func(d index.Document) bool {
		old := d.Added.Unix() < second
		if old {
			delete(m.byKey, d.Key)
		}
		return old
	})
	return before - len(m.docs)
}

// query returns the documents within k bits, by (distance, ID). A shingle other than 0 must be
// within the default limit where both have one.
func (m *soakModel) query(fp, shingle fingerprint.Fingerprint, k int) []index.Match {
	var matches []index.Match
	for i := range m.docs {
		d := &m.docs[i]
		distance := bits.OnesCount64(uint64(d.Fingerprint ^ fp))
		if distance > k || shingle != 0 && d.Shingle != 0 && distance+shingle.Distance(d.Shingle) > index.DefaultMaxShingleDistance {
			continue
		}
		matches = append(matches, index.Match{Document: *d, Distance: distance})
	}
	slices.SortStableFunc(matches, func(a, b index.Match) int { return cmp.Compare(a.Distance, b.Distance) })
	return matches
}

// check compares a verdict with the model's own, and follows it.
func (m *soakModel) check(d index.Document, v index.Verdict) error {
	known := m.remove(d.Key) > 0
	matches := m.query(d.Fingerprint, d.Shingle, m.k)
	want := index.New
	switch {
	case len(matches) > 0:
		want = index.Duplicate
	case known:
		want = index.Known
	}
	if v.Status != want {
		return fmt.Errorf("%w: %v of %q is %v, not %v (%d matches)", errWrongAnswer, d.Fingerprint, d.Key, v.Status, want, len(matches))
	}
	if want == index.Duplicate {
		if v.Of != matches[0] {
			return fmt.Errorf("%w: %v of %q is a duplicate of %+v, not of %+v", errWrongAnswer, d.Fingerprint, d.Key, v.Of, matches[0])
		}
		return nil
	}
	if d.ID, d.Added = v.Document.ID, v.Document.Added; d != v.Document {
		return fmt.Errorf("%w: %+v was stored as %+v", errWrongAnswer, d, v.Document)
	}
	return m.add(d)
}
