package main

import (
	"context"
	"iter"
	"runtime/debug"
	"sync"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/selfjoin"
)

// externalSource is lists that are sorted in files, within -memory. Fingerprints are all
// that is known of them, and their places in clusters.
type externalSource struct {
	flags     *joinFlags
	documents bool  // every document is a member of its own
	before    int64 // memory limit of the garbage collector
}

func (f *joinFlags) openExternal() joinSource {
	s := &externalSource{flags: f, documents: f.equal || f.as == "removals" || f.as == "removal-ids"}
	const others = 32 << 20 // buffers and the like
	s.before = debug.SetMemoryLimit(s.memory() + others)
	return s
}

// close sets the memory limit back, which had garbage collected before it adds to -memory.
func (s *externalSource) close() error {
	debug.SetMemoryLimit(s.before)
	return nil
}

func (s *externalSource) memory() int64 { return int64(s.flags.memory) << 20 }

// fingerprints yields those of the lists.
func (s *externalSource) fingerprints(ctx context.Context) iter.Seq2[[]fingerprint.Fingerprint, error] {
	return func(yield func([]fingerprint.Fingerprint, error) bool) {
		for chunk, err := range s.flags.chunks(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(chunk.Fingerprints, nil) {
				return
			}
		}
	}
}

func (s *externalSource) pairs(ctx context.Context, found func(a, b *member, distance int) error) error {
	var mu sync.Mutex
	o := selfjoin.Options{MaxDistance: s.flags.k, MemoryBytes: s.memory()}
	return selfjoin.External(ctx, s.fingerprints(ctx), o, func(_ int, pairs []selfjoin.Pair) error {
		mu.Lock()
		defer mu.Unlock()
		var a, b member
		for i := range pairs {
			a.Fingerprint, b.Fingerprint = pairs[i].First, pairs[i].Second
			if err := found(&a, &b, pairs[i].Distance); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *externalSource) clusters(ctx context.Context, found func(*cluster) error) error {
	o := selfjoin.ExternalClusterOptions{Stars: s.flags.star, Copies: s.documents}
	o.MaxDistance, o.MemoryBytes = s.flags.k, s.memory()
	return selfjoin.ExternalClusters(ctx, s.fingerprints(ctx), o, func(c *selfjoin.ExternalCluster) error {
		return found(&cluster{documents: int(c.Copies), distinct: int(c.Distinct), members: func(yield func(member, error) bool) {
			for m, err := range c.Members() {
				if !yield(member{ID: uint64(m.Place) + 1, Fingerprint: m.Fingerprint, Documents: int(m.Copies)}, err) {
					return
				}
			}
		}})
	})
}
