package redis

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/neardup/neardup/index"
)

// Delete removes the documents that have these keys and returns how many there
// were. What is counted is gone.
func (x *Index) Delete(ctx context.Context, keys ...string) (deleted int, err error) {
	if err := x.begin(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for part := range slices.Chunk(slices.DeleteFunc(keys, func(key string) bool { return key == "" }), window) {
		n, err := x.deleteKeys(ctx, part)
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// deleteKeys goes on while documents are replaced between being found and being dropped.
func (x *Index) deleteKeys(ctx context.Context, keys []string) (deleted int, err error) {
	for before := []index.Document(nil); ; {
		docs, err := x.byKey(ctx, keys)
		if err != nil || len(docs) == 0 || slices.Equal(docs, before) {
			return deleted, err
		}
		n, err := x.dropAll(ctx, docs)
		if deleted += n; err != nil || n == len(docs) {
			return deleted, err
		}
		before = docs
	}
}

// dropAll makes documents dead and removes their entries. One that is dead already is not counted.
func (x *Index) dropAll(ctx context.Context, docs []index.Document) (dropped int, err error) {
	var drops, gone []*command
	for i := range docs {
		drops = append(drops, x.drop(id(docs[i].ID), docs[i].Key))
	}
	if err := x.run.run(ctx, true, drops); err != nil {
		return 0, err
	}
	for i := range docs {
		if drops[i].value == committed {
			dropped++
			gone = append(gone, x.removal(&docs[i])...)
		}
	}
	return dropped, x.run.run(ctx, false, gone)
}

// DeleteBefore removes every document that was added before t, to the second, and returns how many
// there were. It reads every document. Cut short, it can be called again; so it should where slots
// move meanwhile.
func (x *Index) DeleteBefore(ctx context.Context, t time.Time) (deleted int, err error) {
	if err := x.begin(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	err = x.eachCell(ctx, func(ids []id, cells *cells) error {
		var docs []index.Document
		for _, of := range ids {
			if d := cells.record(of); d != nil && d.Added.Before(t) {
				docs = append(docs, *d)
			}
		}
		n, err := x.dropAll(ctx, docs)
		deleted += n
		return err
	})
	return deleted, err
}

// Swept is what a sweep has done.
type Swept struct {
	Buckets int `json:"buckets"` // rewritten
	Entries int `json:"entries"` // removed, of documents that are dead or were never committed
	Cells   int `json:"cells"`   // removed, of dead documents
}

// Sweep kills what was announced a minute ago or more and never committed, rewrites the buckets
// without what is dead and without room to grow, and removes dead cells. It may run at any time, but one at a time is
// enough; after many recrawls or deletions, or once a day, it gives their memory back.
func (x *Index) Sweep(ctx context.Context) (s Swept, err error) {
	if err := x.begin(ctx); err != nil {
		return s, err
	}
	defer x.end()
	floor, err := x.sweepFloor(ctx)
	if err != nil {
		return s, err
	}
	err = x.nodes.scan(ctx, string(x.name)+":b*", func(buckets []string) error {
		return x.sweepBuckets(ctx, floor, buckets, &s)
	})
	if err != nil {
		return s, err
	}
	return s, x.eachCell(ctx, func(ids []id, cells *cells) error {
		n, err := x.forget(ctx, floor, ids, cells)
		s.Cells += n
		return err
	})
}

// sweepFloor is the number that was next the grace ago: what is older is none that a process still works at, or
// will be refused its commit.
func (x *Index) sweepFloor(ctx context.Context) (uint64, error) {
	last, err := x.sequenceNumber(ctx, &command{verb: elapsed, keys: []string{x.name.sequence()}})
	return last - min(last, uint64(x.grace.Seconds()*ticksSecond)), err
}

func (x *Index) sweepBuckets(ctx context.Context, floor uint64, buckets []string, s *Swept) error {
	var reads []*command
	for _, b := range buckets {
		reads = append(reads, &command{verb: get, keys: []string{b}})
	}
	if err := x.run.run(ctx, false, reads); err != nil {
		return err
	}
	cells, in := newCells(x), make([][]id, len(buckets))
	for i, b := range buckets {
		table, prefix, err := x.name.parseBucket(x.plan, b)
		if err == nil {
			err = entries(&x.plan.Tables[table], prefix, reads[i].value, func(_ uint64, of id) {
				if of.seq() <= floor {
					in[i] = append(in[i], of)
					cells.want(of)
				}
			})
		}
		if err != nil {
			return err
		}
	}
	if err := cells.read(ctx, true); err != nil {
		return err
	}
	var kills []*command
	for _, of := range slices.Sorted(maps.Keys(cells.reads)) {
		if cells.pending(of) {
			kills = append(kills, x.kill(of))
		}
	}
	if err := x.run.run(ctx, true, kills); err != nil {
		return err
	}
	var rewrites []*command
	for i, b := range buckets {
		table, _, _ := x.name.parseBucket(x.plan, b)
		rewrite := &command{verb: remove, keys: []string{b}, args: []any{entryBytes(&x.plan.Tables[table])}}
		for _, of := range in[i] {
			if isDead(cells.reads[of].value) { // what was killed just now may have been quicker: the next sweep
				rewrite.args = append(rewrite.args, string(binary.BigEndian.AppendUint64(nil, uint64(of))))
				s.Entries++
			}
		}
		rewrites = append(rewrites, rewrite)
	}
	s.Buckets += len(rewrites)
	return x.run.run(ctx, false, rewrites)
}

// forget removes dead cells, and lets nothing as old commit under their tags any more.
func (x *Index) forget(ctx context.Context, floor uint64, ids []id, cells *cells) (int, error) {
	var forgets []*command
	for _, of := range ids {
		if of.seq() <= floor && isDead(cells.reads[of].value) {
			forgets = append(forgets, &command{verb: forget, keys: []string{x.name.cell(of), x.name.floor(uint16(of))}, args: []any{floor}})
		}
	}
	return len(forgets), x.run.run(ctx, true, forgets)
}

// eachCell calls f with the cells of all documents, some at a time.
func (x *Index) eachCell(ctx context.Context, f func([]id, *cells) error) error {
	return x.nodes.scan(ctx, string(x.name)+":{*}d*", func(keys []string) error {
		cells, ids := newCells(x), make([]id, 0, len(keys))
		for _, key := range keys {
			of, err := x.name.parseCell(key)
			if err != nil {
				return err
			}
			ids = append(ids, of)
			cells.want(of)
		}
		if err := cells.read(ctx, true); err != nil {
			return err
		}
		if cells.err != nil {
			return cells.err
		}
		return f(ids, cells)
	})
}

// scanCount is how many keys Redis looks at in a step of a scan.
const scanCount = 1000

// scan calls f with the keys of all masters that match a pattern. A key may come twice; one
// that moves meanwhile, not at all.
func (n *nodes) scan(ctx context.Context, pattern string, f func(keys []string) error) error {
	return n.each(ctx, true, func(ctx context.Context, node *goredis.Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
			if err == nil && len(keys) > 0 {
				err = f(keys)
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	})
}
