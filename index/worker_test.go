package index_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testhook"
	"github.com/neardup/neardup/internal/verify"
)

// worker is a goroutine that calls the index.
type worker struct {
	w     *world
	rng   *rand.Rand
	sites []int
	plan  roundPlan
}

func (k *worker) site() (int, *site) {
	n := k.sites[k.rng.IntN(len(k.sites))]
	return n, k.w.sites[n]
}

// draw returns a random document of a site. For some time most documents are of one group, so
// that many calls search for a document that is being stored. Then it changes to the next group.
func (k *worker) draw(s *site) index.Document {
	group := s.groups[k.w.clock.Load()/20%int64(len(s.groups))]
	if k.rng.IntN(4) == 0 {
		group = s.groups[k.rng.IntN(len(s.groups))]
	}
	d := index.Document{Scope: s.scope, Fingerprint: group[k.rng.IntN(len(group))]}
	if k.rng.IntN(4) > 0 {
		d.Key = s.keys[k.rng.IntN(len(s.keys))]
	}
	if k.rng.IntN(3) == 0 {
		d.Shingles = s.shingles
		d.Shingles[k.rng.IntN(4)] ^= []uint64{0, 0, 0xf, ^uint64(0)}[k.rng.IntN(4)]
	}
	if k.rng.IntN(3) == 0 {
		d.Digest = fingerprint.Digest(k.rng.IntN(4))
	}
	if k.rng.IntN(3) == 0 {
		d.Tokens = []int{100, 100, 120, 300}[k.rng.IntN(4)]
	}
	if s.urls && k.rng.IntN(4) > 0 {
		d.Tokens, d.Shingles = 300, s.shingles
		for range 1 + k.rng.IntN(2) {
			d.Shingles[k.rng.IntN(4)] ^= 1<<(k.rng.IntN(6)*8) - 1
		}
	}
	return d
}

// note records calls that have ended.
func (k *worker) note(start int64, calls ...*call) {
	end := k.w.clock.Add(1)
	for _, c := range calls {
		c.start, c.end = start, end
		s := k.w.sites[c.site]
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.ids = append(s.ids, c.ids...)
		s.mu.Unlock()
	}
}

// call makes one call, sometimes with a context that ends at a random moment. A call that fails
// must change nothing.
func (k *worker) call(ctx context.Context, do func(context.Context) ([]*call, error)) error {
	if k.rng.IntN(16) == 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(k.rng.IntN(400))*time.Microsecond)
		defer cancel()
		ctx = limited
	}
	start := k.w.clock.Add(1)
	calls, err := do(ctx)
	if err != nil { // a failed call changed nothing, except for the returned verdicts of a batch
		calls = slices.DeleteFunc(calls, func(c *call) bool { return c.batch == 0 })
	}
	k.note(start, calls...)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return err
}

// chance is a kind of call, and how many of 100 draws that reach it choose it.
type chance struct {
	often int
	call  func(context.Context) ([]*call, error)
}

// pick returns one of the calls, or CheckAndAdd.
func (k *worker) pick(chances ...chance) func(context.Context) ([]*call, error) {
	for _, c := range chances {
		if k.rng.IntN(100) < c.often {
			return c.call
		}
	}
	return k.checkAndAdd
}

// draws returns a random call.
func (k *worker) draws() func(context.Context) ([]*call, error) {
	batches := 12
	if k.plan.Batch > 100 {
		batches = 120
	}
	return k.pick(chance{batches, k.checkAndAddBatch}, chance{12, k.add}, chance{12, k.delete},
		chance{6, k.deleteIDs}, chance{2, k.deleteBefore},
		chance{12, k.query}, chance{5, k.queryBatch}, chance{10, k.get}, chance{2, k.documents},
		chance{3, k.sync}, chance{1, k.verify}, chance{1, k.checkpoint})
}

// reads returns a random call that reads.
func (k *worker) reads() func(context.Context) ([]*call, error) {
	return k.pick(chance{20, k.get}, chance{20, k.queryBatch}, chance{10, k.documents},
		chance{100, k.query})
}

// writes returns a random call that writes.
func (k *worker) writes() func(context.Context) ([]*call, error) {
	return k.pick(chance{30, k.add}, chance{25, k.delete}, chance{25, k.deleteIDs},
		chance{3, k.deleteBefore}, chance{15, k.checkAndAddBatch}, chance{5, k.checkpoint})
}

// checked returns a call of CheckAndAdd.
func (k *worker) checked(site int, d index.Document, v index.Verdict) *call {
	c := &call{site: site, said: []any{"CheckAndAdd", d, v}, of: v.Of.ID}
	if id := v.Document.ID; id != 0 {
		c.ids = []uint64{id}
		if d.Key == "" || v.Status == index.New || v.Status == index.Known && v.Of.ID != id {
			c.gave = c.ids
		}
	}
	c.apply = func(docs indextest.Documents) (indextest.Documents, bool) {
		m := indextest.Model{Rule: k.w.rule, Docs: slices.Clip(docs), NextID: v.Document.ID,
			Now: v.Document.Added}
		if docs.Has(v.Document.ID) {
			m.NextID = 0 // only an earlier version may have the ID
		}
		right := m.CheckAndAdd(d) == v
		return m.Docs, right
	}
	return c
}

func (k *worker) checkAndAdd(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	d := k.draw(s)
	v, err := k.w.index.CheckAndAdd(ctx, d)
	return []*call{k.checked(n, d, v)}, err
}

func (k *worker) checkAndAddBatch(ctx context.Context) (calls []*call, err error) {
	batch := k.w.clock.Add(1)
	docs, sites := make([]index.Document, 1+k.rng.IntN(k.plan.Batch)), make([]int, k.plan.Batch)
	n, s := k.site()
	oneSite := k.plan.Batch < largeBatch && k.rng.IntN(2) == 0
	few := k.w.nest != nil && k.rng.IntN(2) == 0 // keys
	for i := range docs {
		if !oneSite {
			n, s = k.site()
		}
		docs[i], sites[i] = k.draw(s), n
		if (len(docs) > largeBatch || few) && k.rng.IntN(8) > 0 {
			docs[i].Key = "" // a repeated key ends a group of documents that are searched together
		}
	}
	if k.rng.IntN(2) == 0 {
		ctx = testhook.WithParts(ctx, 1+k.rng.IntN(8), 1+k.rng.IntN(8))
	}
	verdicts, err := k.w.index.CheckAndAddBatch(ctx, docs)
	for i, v := range verdicts {
		c := k.checked(sites[i], docs[i], v)
		c.batch = batch
		calls = append(calls, c)
	}
	return calls, err
}

func (k *worker) add(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	var docs []index.Document
	for range 1 + k.rng.IntN(3) {
		docs = append(docs, k.draw(s))
	}
	err := k.w.index.Add(ctx, docs...)
	slices.SortStableFunc(docs, func(a, b index.Document) int { return cmp.Compare(a.ID, b.ID) })
	for i := len(docs) - 2; i >= 0; i-- { // the last document with a key counts
		if docs[i].ID == docs[i+1].ID {
			docs = slices.Delete(docs, i, i+1)
		}
	}
	c := &call{site: n, said: []any{"Add", docs}}
	for _, d := range docs {
		if c.ids = append(c.ids, d.ID); d.Key == "" {
			c.gave = append(c.gave, d.ID)
		}
	}
	c.apply = func(there indextest.Documents) (indextest.Documents, bool) {
		for _, d := range docs {
			old, known := there.Key(d.Key)
			if kept := there.Has(d.ID); kept != (known && indextest.KeepsID(&old, &d)) || kept &&
				d.ID != old.ID {
				return there, false
			}
		}
		all := append(slices.Clip(there.WithoutKeys(keysOf(docs)...)), docs...)
		slices.SortFunc(all, func(a, b index.Document) int { return cmp.Compare(a.ID, b.ID) })
		return all, true
	}
	return []*call{c}, err
}

// removal returns a call that removed n documents of a site, or any number if n is negative.
func removal(site, n int, gone func(*index.Document) bool, said ...any) *call {
	return &call{site: site, said: append(said, n),
		apply: func(docs indextest.Documents) (indextest.Documents, bool) {
			left := docs.Without(gone)
			return left, n < 0 || len(docs)-len(left) == n
		}}
}

func (k *worker) delete(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	var keys []string
	for _, i := range k.rng.Perm(len(s.keys))[:1+k.rng.IntN(2)] {
		keys = append(keys, s.keys[i])
	}
	keys = append(keys, keys[0]) // one key occurs twice
	deleted, err := k.w.index.Delete(ctx, keys...)
	return []*call{removal(n, deleted, func(d *index.Document) bool {
		return slices.Contains(keys, d.Key)
	}, "Delete", keys)}, err
}

// deleteIDs deletes a single document, since documents with and without a record are deleted in
// separate commits. If calls are nested, it often is one of the newest documents, which the outer
// call may have stored. This document may be of any site.
func (k *worker) deleteIDs(ctx context.Context) (calls []*call, err error) {
	newest := k.w.nest != nil && k.rng.IntN(2) == 0
	n, s := k.site()
	s.mu.Lock()
	id := uint64(1 << 40)
	if len(s.ids) > 0 {
		id = s.ids[k.rng.IntN(len(s.ids))]
	}
	s.mu.Unlock()
	if newest {
		id = k.w.index.Stats().NextID - 1 - uint64(k.rng.IntN(8))
	}
	deleted, err := k.w.index.DeleteIDs(ctx, id, id)
	if deleted > 0 && errors.Is(err, context.DeadlineExceeded) {
		err = nil // the counted documents are deleted in spite of the error
	}
	gone := func(d *index.Document) bool { return d.ID == id }
	if !newest {
		return []*call{removal(n, deleted, gone, "DeleteIDs", id)}, err
	}
	for n := range k.w.sites {
		calls = append(calls, removal(n, -1, gone, "DeleteIDs", id))
	}
	return calls, err
}

// deleteBefore deletes the documents that are older than some seconds, or an hour, in one commit.
func (k *worker) deleteBefore(context.Context) (calls []*call, err error) {
	before := k.w.now().Add(-time.Duration(k.rng.IntN(20)) * time.Second)
	// more than 256 documents take several commits
	if k.rng.IntN(2) > 0 || k.plan.Batch > 100 || k.w.index.Stats().Documents > 200 {
		before = before.Add(-time.Hour)
	}
	_, err = k.w.index.DeleteBefore(hooked{context.Background(), k.w.nest}, before)
	for n := range k.w.sites {
		calls = append(calls, removal(n, -1, func(d *index.Document) bool {
			return d.Added.Before(before)
		}, "DeleteBefore", before))
	}
	return calls, err
}

// asks makes some queries of one snapshot, each with its own k and limit.
func (k *worker) asks(
	queries int, ask func([]index.Query) ([][]index.Match, error),
) ([]*call, error) {
	n, s := k.site()
	limit, asks := k.rng.IntN(3), k.w.rule.Within(k.rng.IntN(k.w.index.Plan().MaxDistance+1))
	asked, all := make([]index.Document, queries), make([]index.Query, queries)
	for i := range asked {
		asked[i] = k.draw(s)
		all[i] = indextest.QueryOf(&asked[i], asks.MaxDistance, limit)
	}
	answers, err := ask(all)
	return []*call{{site: n, reads: true, said: []any{"Query", asks, limit, asked, answers},
		apply: func(docs indextest.Documents) (indextest.Documents, bool) {
			for i := range asked {
				if !slices.Equal(docs.Near(asks, &asked[i], limit), answers[i]) {
					return docs, false
				}
			}
			return docs, true
		}}}, err
}

func (k *worker) query(ctx context.Context) ([]*call, error) {
	return k.asks(1, func(asked []index.Query) ([][]index.Match, error) {
		matches, err := k.w.index.Query(ctx, asked[0])
		return [][]index.Match{matches}, err
	})
}

func (k *worker) queryBatch(ctx context.Context) ([]*call, error) {
	return k.asks(1+k.rng.IntN(20), func(asked []index.Query) (answers [][]index.Match, err error) {
		for a, err := range k.w.index.QueryBatch(ctx, asked) {
			if err != nil {
				return nil, err
			}
			answers = append(answers, a.Matches)
		}
		return answers, nil
	})
}

func (k *worker) get(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	key := s.keys[k.rng.IntN(len(s.keys))]
	d, found, err := k.w.index.Get(ctx, key)
	return []*call{{site: n, reads: true, said: []any{"Get", key, found, d},
		apply: func(docs indextest.Documents) (indextest.Documents, bool) {
			want, stored := docs.Key(key)
			return docs, found == stored && (!found || d == want)
		}}}, err
}

func (k *worker) documents(ctx context.Context) (calls []*call, err error) {
	sites, err := k.w.documents(ctx, k.w.index)
	for n, docs := range sites {
		calls = append(calls, found(n, 0, 0, docs))
	}
	return calls, err
}

func (k *worker) sync(context.Context) ([]*call, error) {
	c := &call{start: k.w.clock.Add(1)}
	if err := k.w.index.Sync(context.Background()); err != nil {
		return nil, err
	}
	c.end = k.w.clock.Add(1)
	k.w.mu.Lock()
	k.w.syncs = append(k.w.syncs, c)
	k.w.mu.Unlock()
	return nil, nil
}

func (k *worker) verify(ctx context.Context) ([]*call, error) {
	for p := range k.w.index.Verify(ctx, verify.Options{}) {
		if ctx.Err() == nil {
			return nil, fmt.Errorf("verify during writes: %v", p)
		}
	}
	return nil, nil
}

func (k *worker) checkpoint(ctx context.Context) ([]*call, error) {
	k.w.mu.Lock()
	k.w.copied++
	c := &checkpoint{dir: fmt.Sprint("copy", k.w.copied), start: k.w.clock.Add(1)}
	k.w.mu.Unlock()
	if err := k.w.index.Checkpoint(ctx, c.dir); err != nil {
		return nil, err
	}
	c.end = k.w.clock.Add(1)
	k.w.mu.Lock()
	k.w.copies = append(k.w.copies, c)
	k.w.mu.Unlock()
	return nil, nil
}
