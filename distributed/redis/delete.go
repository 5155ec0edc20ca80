package redis

import (
	"context"
	"slices"
	"time"

	"github.com/neardup/neardup/index"
)

// Delete removes the documents with the given keys and returns their number. If it fails, the
// number counts the documents that were removed durably.
func (x *Index) Delete(ctx context.Context, keys ...string) (deleted int, err error) {
	if err := x.begin(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for part := range slices.Chunk(slices.DeleteFunc(keys,
		func(key string) bool { return key == "" }), window) {
		n, err := x.deleteKeys(ctx, part)
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// deleteKeys repeats the search if a document is replaced between the search and its removal.
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

// DeleteBefore removes every document that was added before the second of t, and returns their
// number. Times are stored in seconds, so a document of that second may be newer than t.
// DeleteBefore reads every document. Call it again if it was interrupted, or if slots moved while
// it ran.
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

// Swept is the result of Sweep.
type Swept struct {
	Buckets int `json:"buckets"` // rewritten buckets
	// removed entries of documents that are dead or were never committed
	Entries   int `json:"entries"`
	Documents int `json:"documents"` // removed records of dead documents
}

// sweep is the state of a running Sweep.
type sweep struct {
	*Index
	floor uint64   // commits of documents up to this number are refused
	alive []uint64 // sequence numbers of the records, ascending
	Swept
}

// Sweep kills documents that were announced at least a minute ago and never committed. It rewrites
// all logs and buckets without dead documents and without spare capacity. To free their memory, run
// Sweep in one process once a day, or after many recrawls or deletions. Other calls can run at the
// same time. Sweep reads the whole index once, and takes 8 to 20 bytes of memory per document.
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
	if err := x.eachLog(ctx, func(logs []*groupLog) error {
		return s.logs(ctx, logs)
	}); err != nil {
		return s.Swept, err
	}
	slices.Sort(s.alive)
	err = x.cluster.scan(ctx, ":b", func(keys []string) error { return s.buckets(ctx, keys) })
	return s.Swept, err
}

// logs rewrites logs, and collects the sequence numbers of their records.
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

// buckets rewrites buckets. It reads logs again only for documents that had no record.
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
		case logs.pending(n.id): // can commit before the kill, so only the next sweep removes it
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

// eachLog calls f with the logs of all groups, in several batches.
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
