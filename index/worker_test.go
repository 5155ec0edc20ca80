package index_test

import (
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

// method makes one call with random arguments.
type method func(*worker, context.Context) ([]*call, error)

// mix has the number of calls of each method, of 100 calls.
type mix []struct {
	often int
	call  method
}

var (
	everything = mix{{45, (*worker).checkAndAdd}, {12, (*worker).checkAndAddBatch},
		{11, (*worker).add}, {9, (*worker).delete}, {4, (*worker).deleteIDs},
		{1, (*worker).deleteBefore}, {8, (*worker).query}, {3, (*worker).queryBatch},
		{3, (*worker).get}, {1, (*worker).documents}, {1, (*worker).sync}, {1, (*worker).verify},
		{1, (*worker).checkpoint}}
	reading = mix{{57, (*worker).query}, {16, (*worker).queryBatch}, {20, (*worker).get},
		{7, (*worker).documents}}
	writing = mix{{31, (*worker).checkAndAdd}, {6, (*worker).checkAndAddBatch},
		{30, (*worker).add}, {17, (*worker).delete}, {13, (*worker).deleteIDs},
		{1, (*worker).deleteBefore}, {2, (*worker).checkpoint}}
)

// call makes one call, sometimes with a context that ends at a random moment, and records it. A
// call that fails must change nothing, unless its field holds is set.
func (k *worker) call(ctx context.Context, m mix) error {
	if k.rng.IntN(16) == 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(k.rng.IntN(400))*time.Microsecond)
		defer cancel()
		ctx = limited
	}
	call := (*worker).checkAndAddBatch
	for n := k.rng.IntN(100); k.plan.Batch <= largeBatch; m = m[1:] {
		if n -= m[0].often; n < 0 {
			call = m[0].call
			break
		}
	}
	start := k.w.clock.Add(1)
	calls, err := call(k, ctx)
	end := k.w.clock.Add(1)
	for _, c := range calls {
		if err != nil && !c.holds {
			continue
		}
		c.start, c.end = start, end
		s := k.w.sites[c.site]
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.ids = append(s.ids, c.ids...)
		s.mu.Unlock()
	}
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return err
}

func (k *worker) site() (int, *site) {
	n := k.sites[k.rng.IntN(len(k.sites))]
	return n, k.w.sites[n]
}

// draw returns a random document of a site. At any time, most documents are of the same group, so
// that many calls search for a document that is being stored. The group changes over time.
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

// model returns the model of an index with these documents, in which next is the next ID.
func (k *worker) model(docs indextest.Documents, next uint64, now time.Time) *indextest.Model {
	if docs.Has(next) { // the ID of an earlier version, which the call keeps
		next = 0
	}
	return &indextest.Model{Rule: k.w.rule, Docs: slices.Clip(docs), NextID: next, Now: now}
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
		m := k.model(docs, v.Document.ID, v.Document.Added)
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
			docs[i].Key = "" // a repeated key ends a window
		}
	}
	if k.rng.IntN(2) == 0 {
		ctx = testhook.WithParts(ctx, 1+k.rng.IntN(8), 1+k.rng.IntN(8))
	}
	batch := k.w.clock.Add(1)
	verdicts, err := k.w.index.CheckAndAddBatch(ctx, docs)
	for i, v := range verdicts {
		c := k.checked(sites[i], docs[i], v)
		c.holds, c.batch = true, batch
		calls = append(calls, c)
	}
	return calls, err
}

func (k *worker) add(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	var asked []index.Document
	for range 1 + k.rng.IntN(3) {
		asked = append(asked, k.draw(s))
	}
	docs := slices.Clone(asked)
	err := k.w.index.Add(ctx, docs...)
	c := &call{site: n, said: []any{"Add", docs}}
	for _, d := range docs {
		if c.ids = append(c.ids, d.ID); d.Key == "" {
			c.gave = append(c.gave, d.ID)
		}
	}
	slices.Sort(c.ids)
	c.ids = slices.Compact(c.ids)
	c.apply = func(there indextest.Documents) (indextest.Documents, bool) {
		next := uint64(0) // the first new ID; the new IDs of a call are consecutive
		for _, id := range c.ids {
			if next == 0 && !there.Has(id) {
				next = id
			}
		}
		m, again := k.model(there, next, docs[0].Added), slices.Clone(asked)
		m.Add(again...)
		return m.Docs, slices.Equal(again, docs)
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

// removals returns a removal for each site.
func (k *worker) removals(gone func(*index.Document) bool, said ...any) (calls []*call) {
	for n := range k.w.sites {
		calls = append(calls, removal(n, -1, gone, said...))
	}
	return calls
}

func (k *worker) delete(ctx context.Context) ([]*call, error) {
	n, s := k.site()
	var keys []string
	for _, i := range k.rng.Perm(len(s.keys))[:1+k.rng.IntN(2)] {
		keys = append(keys, s.keys[i])
	}
	keys = append(keys, keys[0]) // a repeated key
	deleted, err := k.w.index.Delete(ctx, keys...)
	return []*call{removal(n, deleted, func(d *index.Document) bool {
		return slices.Contains(keys, d.Key)
	}, "Delete", keys)}, err
}

// deleteIDs deletes one document. If calls are nested, this is often one of the newest documents,
// of any site, which the outer call may have stored.
func (k *worker) deleteIDs(ctx context.Context) (calls []*call, err error) {
	n, s := k.site()
	s.mu.Lock()
	id := uint64(1 << 40)
	if len(s.ids) > 0 {
		id = s.ids[k.rng.IntN(len(s.ids))]
	}
	s.mu.Unlock()
	gone := func(d *index.Document) bool { return d.ID == id }
	newest := k.w.nest != nil && k.rng.IntN(2) == 0
	if newest {
		id = k.w.index.Stats().NextID - 1 - uint64(k.rng.IntN(8))
	}
	deleted, err := k.w.index.DeleteIDs(ctx, id, id)
	if calls = k.removals(gone, "DeleteIDs", id); !newest {
		calls = []*call{removal(n, deleted, gone, "DeleteIDs", id)}
	}
	for _, c := range calls {
		c.holds = deleted > 0 // the counted documents are deleted in spite of an error
	}
	return calls, err
}

// deleteBefore deletes, in one commit, the documents that are older than some seconds or an hour.
func (k *worker) deleteBefore(context.Context) ([]*call, error) {
	before := k.w.now().Add(-time.Duration(k.rng.IntN(20)) * time.Second)
	// more than 256 documents take several commits
	if k.rng.IntN(2) > 0 || k.plan.Batch > largeBatch || k.w.index.Stats().Documents > 200 {
		before = before.Add(-time.Hour)
	}
	_, err := k.w.index.DeleteBefore(hooked{context.Background(), k.w.nest}, before)
	return k.removals(func(d *index.Document) bool {
		return d.Added.Before(before)
	}, "DeleteBefore", before), err
}

// asks makes a call of queries in one snapshot, with the same random limit and distance.
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
	start := k.w.clock.Add(1)
	err := k.w.index.Sync(context.Background())
	if err == nil {
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		k.w.syncs = append(k.w.syncs, &call{start: start, end: k.w.clock.Add(1)})
	}
	return nil, err
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
	c := &checkpoint{start: k.w.clock.Add(1)}
	c.dir = fmt.Sprint("copy", c.start)
	err := k.w.index.Checkpoint(ctx, c.dir)
	if err == nil {
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		c.end = k.w.clock.Add(1)
		k.w.copies = append(k.w.copies, c)
	}
	return nil, err
}
