package redis

import (
	"context"
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
	ids := make([]id, len(docs))
	for i := range docs {
		ids[i] = x.idOf(&docs[i])
	}
	did, err := x.drop(ctx, ids)
	if err != nil {
		return 0, err
	}
	var gone []posting
	for i := range docs {
		if did[i] {
			dropped, gone = dropped+1, append(gone, x.postingOf(&docs[i]))
		}
	}
	return dropped, x.remove(ctx, gone)
}

// DeleteBefore removes every document that was added before t, to the second, and returns how many
// there were. It reads every document. Cut short, it can be called again; so it should where slots
// move meanwhile.
func (x *Index) DeleteBefore(ctx context.Context, t time.Time) (deleted int, err error) {
	if err := x.begin(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	err = x.eachLog(ctx, func(reads []*command, logs []*groupLog) error {
		var docs []index.Document
		for _, l := range logs {
			for _, s := range l.states {
				if !s.dead && s.doc.Added.Before(t) {
					docs = append(docs, s.doc)
				}
			}
		}
		for part := range slices.Chunk(docs, window) { // their buckets are all in memory
			n, err := x.dropAll(ctx, part)
			if deleted += n; err != nil {
				return err
			}
		}
		return nil
	})
	return deleted, err
}

// Swept is what a sweep has done.
type Swept struct {
	Buckets   int `json:"buckets"`   // rewritten
	Entries   int `json:"entries"`   // removed, of documents that are dead or were never committed
	Documents int `json:"documents"` // removed, that are dead
}

// Sweep kills what was announced a minute ago or more and never committed, and rewrites all that is stored
// without what is dead and without room to grow. It may run at any time, but one at a time is
// enough; after many recrawls or deletions, or once a day, it gives their memory back.
func (x *Index) Sweep(ctx context.Context) (s Swept, err error) {
	if err := x.begin(ctx); err != nil {
		return s, err
	}
	defer x.end()
	last, err := x.reserve(ctx, 0)
	if err != nil {
		return s, err
	}
	// what is older is none that a process still works at, or will be refused its commit
	floor := last - min(last, uint64(x.grace.Seconds()*ticksSecond))
	err = x.nodes.scan(ctx, string(x.name)+":b*", func(buckets []string) error {
		return x.sweepBuckets(ctx, floor, buckets, &s)
	})
	if err != nil {
		return s, err
	}
	return s, x.eachLog(ctx, func(reads []*command, logs []*groupLog) error {
		return x.sweepLogs(ctx, floor, reads, logs, &s)
	})
}

// sweepBuckets kills what is pending in buckets, and removes what is dead by then.
func (x *Index) sweepBuckets(ctx context.Context, floor uint64, buckets []string, s *Swept) error {
	reads, of := make([]*command, len(buckets)), x.newLogs()
	for i, b := range buckets {
		reads[i] = &command{verb: get, key: b}
	}
	if err := x.run.run(ctx, false, reads); err != nil {
		return err
	}
	var old []id
	for _, r := range reads {
		table, prefix, err := x.name.parseBucket(x.plan, r.key)
		if err != nil {
			return err
		}
		err = entries(table, prefix, r.value, func(_ string, _ uint64, entry id) {
			if entry.seq <= floor {
				old = append(old, entry)
				of.want(entry.group)
			}
		})
		if err != nil {
			return err
		}
	}
	if err := of.read(ctx, true); err != nil {
		return err
	}
	var kills []*command
	for _, entry := range old {
		if of.pending(entry) { // is left for the next sweep: it may have been quicker than this
			kills = append(kills, x.kill(entry))
		}
	}
	if err := x.run.run(ctx, true, kills); err != nil {
		return err
	}
	s.Buckets += len(reads)
	return x.rewrite(ctx, reads, func(_ string, entry id) bool {
		gone := entry.seq <= floor && !of.pending(entry) && of.record(entry) == nil
		if gone {
			s.Entries++
		}
		return gone
	})
}

// sweepLogs removes what is dead, and lets nothing as old commit any more. That it is dead stands there until the sweep
// after this one, since what is said in between comes before the new floor.
func (x *Index) sweepLogs(ctx context.Context, floor uint64, reads []*command, logs []*groupLog, s *Swept) error {
	for i, l := range logs {
		raised := ""
		for seq, state := range l.bySeq {
			if state.dead && state.doc.ID != 0 {
				s.Documents++
			}
			if state.dead && seq <= floor {
				raised = floorEntry(floor)
			}
		}
		reads[i].verb, reads[i].args = amend, []any{reads[i].value, l.rewritten(), raised}
	}
	return x.run.run(ctx, true, reads)
}

// eachLog calls f with the logs of all groups, some at a time.
func (x *Index) eachLog(ctx context.Context, f func(reads []*command, logs []*groupLog) error) error {
	return x.nodes.scan(ctx, string(x.name)+":g*", func(keys []string) error {
		reads, logs := make([]*command, len(keys)), make([]*groupLog, len(keys))
		for i, key := range keys {
			reads[i] = &command{verb: get, key: key}
		}
		if err := x.run.run(ctx, true, reads); err != nil {
			return err
		}
		for i, r := range reads {
			var err error
			if logs[i], err = r.log(); err != nil {
				return err
			}
		}
		return f(reads, logs)
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
			if err != nil {
				return awayIfPasses(node, err)
			}
			if len(keys) > 0 {
				err = f(keys)
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	})
}
