package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// upkeep is what is done to the whole index in turn, one thing an interval.
type upkeep struct {
	name string
	do   func(*soak, context.Context) error
}

var soakUpkeep = []upkeep{
	{"expire", (*soak).expire},
	{"checkpoint", (*soak).checkpoint},
	{"compact", (*soak).compact},
}

// The kinds of calls that look at the whole index after a compaction.
const (
	compareAll = "all documents"
	verifyAll  = "verify"
)

// keepUp does them until the time is up, each at least once, and takes a sample after each.
func (s *soak) keepUp(ctx context.Context) error {
	tick := time.NewTicker(s.Interval)
	defer tick.Stop()
	for n := 0; n < len(soakUpkeep) || time.Now().Before(s.end); n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.upkeep(ctx, soakUpkeep[n%len(soakUpkeep)]); err != nil {
			return err
		}
	}
	s.over.Store(true)
	return s.upkeep(ctx, upkeep{"compact", (*soak).compact}) // and compares
}

func (s *soak) upkeep(ctx context.Context, u upkeep) error {
	err := u.do(s, ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = s.sample(u.name)
	}
	if err != nil {
		return fmt.Errorf("%s, seed %d: %w", u.name, s.Seed, err)
	}
	return nil
}

// timed notes how long a call took that was for so many items.
func (s *soak) timed(kind string, call func() (items int, err error)) error {
	begun := time.Now()
	items, err := call()
	if err == nil {
		s.times[kind].add(time.Since(begun), items)
	}
	return err
}

// expire drops the oldest documents of each worker that has more than it is to keep.
func (s *soak) expire(ctx context.Context) error {
	s.open.Lock()
	defer s.open.Unlock()
	second := int64(0)
	for _, w := range s.workers {
		if at := len(w.model.docs) - s.Documents/s.Workers*3/4; at > 0 {
			for at < len(w.model.docs) && w.model.docs[at].ID == 0 {
				at++
			}
			if at < len(w.model.docs) {
				second = max(second, w.model.docs[at].Added.Unix())
			}
		}
	}
	return s.timed("expire", func() (int, error) {
		expired, err := s.index.DeleteBefore(ctx, time.Unix(second, 0))
		if err != nil {
			return 0, err
		}
		want := 0
		for _, w := range s.workers {
			want += w.model.expire(second)
		}
		if expired != want {
			return 0, fmt.Errorf("%w: %d documents expired, not %d", ErrWrongAnswer, expired, want)
		}
		return expired, nil
	})
}

// compact closes the index, compacts it, opens it again, looks at every document and
// verifies it.
func (s *soak) compact(ctx context.Context) error {
	s.open.Lock()
	defer s.open.Unlock()
	if err := s.closeIndex(); err != nil {
		return err
	}
	err := s.timed("compact", func() (int, error) {
		report, err := compaction.Run(ctx, s.dir, compaction.Options{CacheBytes: s.CacheBytes, FilterBytes: s.FilterBytes})
		return int(report.Documents), err
	})
	if err := errors.Join(err, s.openIndex()); err != nil {
		return err
	}
	if err := s.compare(ctx); err != nil {
		return err
	}
	return s.verify(ctx)
}

// verify looks whether the parts of the index fit together.
func (s *soak) verify(ctx context.Context) error {
	return s.timed(verifyAll, func() (int, error) {
		for p := range s.index.Verify(ctx) {
			if p.Err != nil && ctx.Err() != nil {
				return 0, ctx.Err()
			}
			return 0, fmt.Errorf("%w: %v", ErrWrongAnswer, p)
		}
		return int(s.index.Stats().Documents), nil
	})
}

// compare looks whether the index has the documents of the models, and no others.
func (s *soak) compare(ctx context.Context) error {
	models := make(map[string]*soakModel)
	want := 0
	for _, w := range s.workers {
		models[w.scope] = w.model
		want += w.model.live()
	}
	return s.timed(compareAll, func() (n int, err error) {
		for d, err := range s.index.Documents(ctx) {
			if err != nil {
				return n, err
			}
			n++
			m := models[d.Scope]
			if m == nil {
				return n, fmt.Errorf("%w: a document that no one added: %+v", ErrWrongAnswer, d)
			}
			if at := m.at(d.ID); at == len(m.docs) || !sameDocument(m.docs[at], d) {
				return n, fmt.Errorf("%w: a document that should not be there: %+v", ErrWrongAnswer, d)
			}
		}
		if stats := s.index.Stats(); n != want || stats.Documents != uint64(want) {
			return n, fmt.Errorf("%w: %d documents, %d by the counter, and %d were stored", ErrWrongAnswer, n, stats.Documents, want)
		}
		return n, nil
	})
}

// ids returns the IDs of all documents, and the largest that was given. It waits until
// no call is under way.
func (s *soak) ids() (ids []uint64, last uint64) {
	s.open.Lock()
	defer s.open.Unlock()
	for _, w := range s.workers {
		for _, d := range w.model.docs {
			if d.ID != 0 {
				ids = append(ids, d.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids, s.index.Stats().NextID - 1
}

// checkpoint takes one while the workers go on, and looks whether it is the index of one
// moment in between: it has what was there before and after, and nothing else but what
// came or went meanwhile.
func (s *soak) checkpoint(ctx context.Context) (err error) {
	dir := s.dir + "-checkpoint"
	before, last := s.ids()
	s.open.RLock()
	err = s.timed("checkpoint", func() (int, error) { return 1, s.index.Checkpoint(ctx, dir) })
	s.open.RUnlock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	after, _ := s.ids()
	return withIndex(dir, &index.Options{ReadOnly: true, CacheBytes: 16 << 20}, func(x *index.Index) error {
		var got []uint64
		for d, err := range x.Documents(ctx) {
			if err != nil {
				return err
			}
			got = append(got, d.ID)
		}
		slices.Sort(got)
		return between(got, before, after, last)
	})
}

// between reports what is wrong with the IDs of a checkpoint; last is the largest that
// was given before it.
func between(got, before, after []uint64, last uint64) error {
	for _, id := range got {
		if _, found := slices.BinarySearch(before, id); !found && id <= last {
			return fmt.Errorf("%w: a checkpoint has document %d, which was gone", ErrWrongAnswer, id)
		}
	}
	for _, id := range before {
		_, kept := slices.BinarySearch(after, id)
		if _, found := slices.BinarySearch(got, id); kept && !found {
			return fmt.Errorf("%w: a checkpoint lacks document %d", ErrWrongAnswer, id)
		}
	}
	return nil
}
