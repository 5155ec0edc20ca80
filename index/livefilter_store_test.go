package index

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/neardup/neardup/index/plan"
)

// liveStore stands for the store: what a commit writes is visible to scans and
// views when the commit is done, and not before.
type liveStore struct {
	commit sync.Mutex

	mu       sync.Mutex
	visible  []uint64
	at       map[uint64]int // in visible
	scans    int
	yielded  int // by the last scan that has ended
	failures []error
	fail     error  // of scans, after half of what is visible
	begun    func() // called by a scan when its snapshot is taken
}

var errLiveScan = errors.New("scan fails")

func newLiveStore(visible ...uint64) *liveStore {
	s := &liveStore{at: make(map[uint64]int)}
	s.change(visible, nil)
	return s
}

func (s *liveStore) change(appear, vanish []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fp := range appear {
		if _, there := s.at[fp]; !there {
			s.at[fp] = len(s.visible)
			s.visible = append(s.visible, fp)
		}
	}
	for _, fp := range vanish {
		if i, there := s.at[fp]; there {
			last := len(s.visible) - 1
			s.visible[i] = s.visible[last]
			s.at[s.visible[i]] = i
			s.visible = s.visible[:last]
			delete(s.at, fp)
		}
	}
}

func (s *liveStore) scan(yield func(uint64) bool) error {
	s.mu.Lock()
	snapshot, fail, begun := slices.Clone(s.visible), s.fail, s.begun
	s.scans++
	s.mu.Unlock()
	if begun != nil {
		begun()
	}
	i := 0
	defer func() { s.mu.Lock(); s.yielded = i; s.mu.Unlock() }()
	for ; i < len(snapshot); i++ {
		if fail != nil && i >= len(snapshot)/2 {
			return fail
		}
		if !yield(snapshot[i]) {
			return nil
		}
	}
	return fail
}

// write commits; between adding to the filters and becoming visible it calls late.
func (s *liveStore) write(f *liveFilters, appear, vanish []uint64, late func()) {
	s.commit.Lock()
	defer s.commit.Unlock()
	f.add(appear)
	if late != nil {
		late()
	}
	s.change(appear, vanish)
}

// view returns up to n of the fingerprints that are visible at one moment.
func (s *liveStore) view(rng *rand.Rand, n int) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var view []uint64
	for range min(n, len(s.visible)) {
		view = append(view, s.visible[rng.IntN(len(s.visible))])
	}
	return view
}

func (s *liveStore) set(fail error, begun func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.begun = fail, begun
}

func (s *liveStore) scanned() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scans
}

func (s *liveStore) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, err)
}

func (s *liveStore) filters(plan *plan.Plan, budget, live, least int64) *liveFilters {
	return newLiveFilters(liveSource{
		plan: plan, budget: budget, live: live, least: least,
		commit: &s.commit, scan: s.scan, failed: s.failed,
	})
}

// settle waits until no filters are being made.
func (s *liveStore) settle(t interface{ Fatalf(string, ...any) }, f *liveFilters) {
	waitFor(t, "the filters to grow", func() bool {
		s.commit.Lock()
		defer s.commit.Unlock()
		return !f.growing
	})
}

func waitFor(t interface{ Fatalf(string, ...any) }, what string, done func() bool) {
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}
