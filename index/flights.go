package index

import (
	"context"
	"slices"
	"sync"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index/match"
	"github.com/neardup/neardup/internal/store"
)

// flights are the changes under way, in the order in which they began. A change
// that could bear on another one's outcome, because they share a key or have
// documents that match, waits until the earlier one has been applied. All others
// go side by side. Waiting only for earlier ones, no two wait for each other.
type flights struct {
	mu   sync.Mutex
	open []*flight
}

type flight struct {
	signatures []fingerprint.Signature // of documents that come to be stored, with their fingerprints as the tables hold them
	keys       []uint64                // hashes of the keys that are looked up or changed
	alone      bool                    // bears on everything
	done       chan struct{}
}

// maxCompared bounds the comparisons between two flights; larger ones wait for
// each other without a look.
const maxCompared = 4096

func newFlight(docs []Document) *flight {
	f := &flight{done: make(chan struct{}), signatures: make([]fingerprint.Signature, len(docs))}
	for i := range docs {
		f.signatures[i] = docs[i].Signature()
		f.signatures[i].Fingerprint = fingerprint.Fingerprint(storedOf(&docs[i]))
		if docs[i].Key != "" {
			f.keys = append(f.keys, store.KeyHash(docs[i].Key))
		}
	}
	return f
}

func (f *flight) bearsOn(g *flight, r match.Rule) bool {
	if f.alone || g.alone || len(f.signatures)*len(g.signatures) > maxCompared || len(f.keys)*len(g.keys) > maxCompared {
		return true
	}
	for _, key := range f.keys {
		if slices.Contains(g.keys, key) {
			return true
		}
	}
	for _, a := range f.signatures {
		for _, b := range g.signatures {
			if d := a.Fingerprint.Distance(b.Fingerprint); d <= r.MaxDistance && r.Allows(d, a, b) {
				return true
			}
		}
	}
	return false
}

// enter adds f and waits for those before it that bear on it. leave must follow
// unless it fails.
func (s *flights) enter(ctx context.Context, f *flight, r match.Rule) error {
	s.mu.Lock()
	var before []*flight
	for _, g := range s.open {
		if f.bearsOn(g, r) {
			before = append(before, g)
		}
	}
	s.open = append(s.open, f)
	s.mu.Unlock()
	for _, g := range before {
		select {
		case <-g.done:
		case <-ctx.Done():
			s.leave(f)
			return ctx.Err()
		}
	}
	return nil
}

func (s *flights) leave(f *flight) {
	s.mu.Lock()
	i := slices.Index(s.open, f)
	s.open = slices.Delete(s.open, i, i+1)
	s.mu.Unlock()
	close(f.done)
}
