package store

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestCommits tests that Apply returns the first encoding error of a batch, that an empty batch is
// applied, and that every caller may wait for a commit. A commit must be durable for them even if
// the caller that applied it never waits, as after a panic.
func TestCommits(t *testing.T) {
	s := openMem(t)
	first := errors.New("first")
	if err := commitOf(s, true, func(b *Batch) {
		b.keep(first)
		b.keep(errors.New("second"))
		b.SetKey(1, 1)
	}); !errors.Is(err, first) {
		t.Errorf("Apply: %v", err)
	}
	must(t, s.NewBatch().Close())
	apply(t, s, false, func(*Batch) {})
	must(t, s.Apply(s.NewBatch(), true))
	commit := s.Last()
	must(t, s.Last().Wait(), commit.Wait(), commit.Wait())
}

// TestLastCoversViews opens views during commits. The commit that Last returns after a view was
// opened is the newest commit that the view shows, or a later one.
func TestLastCoversViews(t *testing.T) {
	s := openMem(t)
	var wg sync.WaitGroup
	var ending atomic.Bool
	var changes atomic.Int64
	type sight struct {
		id   uint64
		last *Commit
	}
	sights := make([][]sight, 3)
	for i := range sights {
		wg.Go(func() {
			for !ending.Load() {
				v, err := s.View()
				last := s.Last() // immediately, since Last would be wrong only for a moment
				if err != nil {
					t.Error(err)
					return
				}
				r, _, err := v.Record(1)
				if err := errors.Join(err, v.Close()); err != nil {
					t.Error(err)
					return
				}
				if seen := sights[i]; len(seen) == 0 || seen[len(seen)-1].id != r.Time {
					sights[i] = append(seen, sight{r.Time, last})
					changes.Add(1)
				}
			}
		})
	}
	order := map[*Commit]uint64{s.Last(): 0}
	// a reader must run in the microsecond between two steps of Apply
	commits := uint64(testenv.Number(4000, 4000, 32_000, 32_000))
	for id := uint64(1); id <= commits || changes.Load() < 100 && id < 100_000; id++ {
		b := s.NewBatch()
		b.SetRecord(Record{ID: 1, Time: id})
		must(t, s.Apply(b, true))
		order[s.Last()] = id
		must(t, s.Last().Wait())
	}
	ending.Store(true)
	wg.Wait()
	seen := slices.Concat(sights...)
	for _, x := range seen {
		if order[x.last] < x.id {
			t.Fatalf("a view shows commit %d, and Last is commit %d", x.id, order[x.last])
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d sights", len(seen))
	}
}
