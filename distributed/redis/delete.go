package redis

import (
	"context"
	"slices"
	"time"

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
	for {
		docs, err := x.byKey(ctx, keys)
		if err != nil {
			return deleted, err
		}
		dropped, err := x.drop(ctx, docs)
		if deleted += len(dropped); err != nil || len(dropped) == len(docs) {
			return deleted, err
		}
	}
}

// DeleteBefore removes every document that was added before the second of t, and returns how many
// there were: what came in that second may be later than t. It reads every document. Cut short, it can be called again; so it should where slots
// move meanwhile.
func (x *Index) DeleteBefore(ctx context.Context, t time.Time) (deleted int, err error) {
	if err := x.begin(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	t = t.Truncate(time.Second)
	err = x.eachLog(ctx, func(logs []*groupLog) error {
		var docs []index.Document
		for _, l := range logs {
			for _, s := range l.states {
				if !s.dead && s.doc.Added.Before(t) {
					docs = append(docs, s.doc)
				}
			}
		}
		for part := range slices.Chunk(docs, window) { // their buckets are all in memory
			dropped, err := x.drop(ctx, part)
			if deleted += len(dropped); err != nil {
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

// sweep is one that is under way.
type sweep struct {
	*Index
	floor uint64   // what was announced up to here is none that a process still works at, or is refused its commit
	alive []uint64 // sequence numbers of records when their logs were read, ascending
	Swept
}

// Sweep kills what was announced a minute ago or more and never committed, and rewrites all that is stored
// without what is dead and without room to grow. It may run at any time, but one at a time is
// enough; after many recrawls or deletions, or once a day, it gives their memory back. It reads what is stored once, and takes 8 to 20
// bytes of this process's memory for each document.
func (x *Index) Sweep(ctx context.Context) (Swept, error) {
	if err := x.begin(ctx); err != nil {
		return Swept{}, err
	}
	defer x.end()
	last, err := x.reserve(ctx, 0)
	if err != nil {
		return Swept{}, err
	}
	s := &sweep{Index: x, floor: x.floorAt(last)}
	if err := x.eachLog(ctx, func(logs []*groupLog) error { return s.logs(ctx, logs) }); err != nil {
		return s.Swept, err
	}
	slices.Sort(s.alive)
	err = x.cluster.scan(ctx, ":b", func(keys []string) error { return s.buckets(ctx, keys) })
	return s.Swept, err
}

// logs rewrites logs, and keeps of which documents they have records.
func (s *sweep) logs(ctx context.Context, logs []*groupLog) error {
	var rewrites []*command
	for _, l := range logs {
		for _, state := range l.states {
			if state.dead {
				s.Documents++
			} else {
				s.alive = append(s.alive, state.doc.ID)
			}
		}
		rewrites = append(rewrites, l.rewrite(s.floor))
	}
	return s.run(ctx, true, rewrites)
}

// buckets rewrites buckets. Logs are read again for those documents alone that had no record.
func (s *sweep) buckets(ctx context.Context, keys []string) error {
	reads := gets(keys)
	if err := s.run(ctx, false, reads); err != nil {
		return err
	}
	var suspects []candidate
	for _, r := range reads {
		err := s.entries(r, func(_ string, _ uint64, of id) {
			if _, alive := slices.BinarySearch(s.alive, of.seq); !alive && of.seq <= s.floor {
				suspects = append(suspects, candidate{id: of})
			}
		})
		if err != nil {
			return err
		}
	}
	logs, err := s.readLogs(ctx, true, groupsOf(suspects))
	if err != nil {
		return err
	}
	var kills []*command
	gone := make(strays)
	for _, n := range suspects {
		switch {
		case logs.pending(n.id): // is left for the next sweep: it may have been quicker than this
			kills = append(kills, s.kill(n.id))
		case logs.record(n.id) == nil:
			gone[n.id] = nil
			s.Entries++
		}
	}
	if err := s.run(ctx, true, kills); err != nil {
		return err
	}
	s.Buckets += len(reads)
	return s.rewrite(ctx, reads, gone)
}

// eachLog calls f with the logs of all groups, some at a time.
func (x *Index) eachLog(ctx context.Context, f func(logs []*groupLog) error) error {
	return x.cluster.scan(ctx, ":g", func(keys []string) error {
		reads, logs := gets(keys), make([]*groupLog, len(keys))
		if err := x.run(ctx, true, reads); err != nil {
			return err
		}
		for i, r := range reads {
			var err error
			if logs[i], err = r.log(); err != nil {
				return err
			}
		}
		return f(logs)
	})
}
