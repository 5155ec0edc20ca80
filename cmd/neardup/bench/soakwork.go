package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// soakWorker does one call after the other in a scope of its own, and compares what
// comes of it with its model.
type soakWorker struct {
	*soak
	number int
	scope  string
	random *rand.Rand
	model  *soakModel
	pages  int // how many keys there were
}

func (s *soak) newWorker(number int) *soakWorker {
	w := &soakWorker{soak: s, number: number, random: rand.New(rand.NewPCG(s.Seed, uint64(number))), model: newSoakModel(s.MaxDistance)}
	if number > 0 { // the documents of the first are in the empty scope, and many of them bare
		w.scope = fmt.Sprintf("scope %d", number)
	}
	return w
}

// soakKinds are the calls of a worker with how often they are made, in 100.
var soakKinds = []struct {
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

// run works until the time is up and all upkeep was done.
func (w *soakWorker) run(ctx context.Context) error {
	for ctx.Err() == nil && !w.over.Load() {
		if err := w.step(ctx); err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return nil // another one failed, or the run was interrupted
			}
			return fmt.Errorf("worker %d, seed %d: %w", w.number, w.Seed, err)
		}
	}
	return nil
}

func (w *soakWorker) step(ctx context.Context) error {
	w.open.RLock()
	defer w.open.RUnlock()
	draw := w.random.IntN(100)
	for _, kind := range soakKinds {
		if draw -= kind.often; draw >= 0 {
			continue
		}
		if kind.name == "delete" && w.model.live() < w.Documents/w.Workers {
			kind.name, kind.do = "add", (*soakWorker).add // until there are as many as there are to be
		}
		if err := kind.do(w, ctx); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		w.done.Add(1)
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
		d.Fingerprint = near.Fingerprint ^ w.flips(w.random.IntN(w.MaxDistance+3))
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

// some draws a document that is there, or, after a few tries, none.
func (w *soakWorker) some() *index.Document {
	for range 8 {
		if len(w.model.docs) == 0 {
			break
		}
		if d := &w.model.docs[w.random.IntN(len(w.model.docs))]; d.ID != 0 {
			return d
		}
	}
	return nil
}

func (w *soakWorker) documents() []index.Document {
	docs := make([]index.Document, 1+w.random.IntN(64))
	for i := range docs {
		docs[i] = w.document()
	}
	return docs
}

func (w *soakWorker) add(ctx context.Context) error {
	docs := w.documents()
	if err := w.timed("add", func() (int, error) { return len(docs), w.index.Add(ctx, docs...) }); err != nil {
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
	var v index.Verdict
	err := w.timed("check-and-add", func() (_ int, err error) {
		v, err = w.index.CheckAndAdd(ctx, d)
		return 1, err
	})
	if err != nil {
		return err
	}
	return w.model.check(d, v)
}

func (w *soakWorker) checkBatch(ctx context.Context) error {
	docs := w.documents()
	var verdicts []index.Verdict
	err := w.timed("check-and-add, batch", func() (_ int, err error) {
		verdicts, err = w.index.CheckAndAddBatch(ctx, docs)
		return len(docs), err
	})
	if err != nil {
		return err
	}
	if len(verdicts) != len(docs) {
		return fmt.Errorf("%w: %d verdicts on %d documents", ErrWrongAnswer, len(verdicts), len(docs))
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
	k, limit, shingle := w.MaxDistance, 0, fingerprint.Fingerprint(0)
	opts := []index.QueryOption{index.InScope(w.scope)}
	switch w.random.IntN(4) {
	case 0:
		k = w.random.IntN(w.MaxDistance + 1)
		opts = append(opts, index.MaxDistance(k))
	case 1:
		limit = 1 + w.random.IntN(3)
		opts = append(opts, index.Limit(limit))
	case 2:
		shingle = asked.Shingle
		opts = append(opts, index.Shingle(shingle))
	}
	var got []index.Match
	err := w.timed("query", func() (_ int, err error) {
		got, err = w.index.Query(ctx, asked.Fingerprint, opts...)
		return 1, err
	})
	if err != nil {
		return err
	}
	want := w.model.query(asked.Fingerprint, shingle, k, 0)
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	if !slices.EqualFunc(got, want, sameMatch) {
		return fmt.Errorf("%w: %v with k = %d, limit %d, shingle %v gives\n%+v, not\n%+v", ErrWrongAnswer, asked.Fingerprint, k, limit, shingle, got, want)
	}
	return nil
}

func (w *soakWorker) get(ctx context.Context) error {
	key := w.document().Key
	if d := w.some(); d != nil && w.random.IntN(4) > 0 {
		key = d.Key
	}
	var got index.Document
	var found bool
	err := w.timed("get", func() (_ int, err error) {
		got, found, err = w.index.Get(ctx, key)
		return 1, err
	})
	if err != nil {
		return err
	}
	id, stored := w.model.byKey[key]
	if found != stored || found && !sameDocument(got, w.model.docs[w.model.at(id)]) {
		return fmt.Errorf("%w: document of key %q is %+v, found %v, not ID %d", ErrWrongAnswer, key, got, found, id)
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
	var deleted int
	err := w.timed("delete", func() (_ int, err error) {
		deleted, err = w.index.Delete(ctx, keys...)
		return len(keys), err
	})
	if err != nil {
		return err
	}
	want := 0
	for _, key := range keys {
		if w.model.remove(key) {
			want++
		}
	}
	if deleted != want {
		return fmt.Errorf("%w: %d of %d keys deleted, not %d", ErrWrongAnswer, deleted, len(keys), want)
	}
	return nil
}
