package index

import (
	"context"
	"slices"
	"sync"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/selfjoin"
	"github.com/neardup/neardup/store"
)

// joiner compares all documents of a snapshot with each other. The result is complete and has no
// repetitions, for any plan of the index. A joiner does not probe the tables. It reads the
// fingerprints and IDs into memory and compares them there (internal/selfjoin). It then reads the
// documents of near fingerprints, and the rule decides. Documents with the same fingerprint are one
// Group, so that a page with a million copies is one member for each page near it, not a million.
type joiner struct {
	readers  []*reader // of the snapshot: one per worker, and one for the caller
	rule     match.Rule
	centered bool // clusters are stars
	bare     bool // no document has a record

	set    *selfjoin.Set
	ids    []uint64 // of all documents, by fingerprint
	starts []uint64 // the start of each node in ids, and the end of the last one
}

// newJoiner reads a snapshot. Each worker reads a part of the fingerprints.
func newJoiner(ctx context.Context, readers []*reader, rule match.Rule, stars bool) (*joiner, error) {
	x := readers[0].x
	j := &joiner{readers: readers, rule: rule, centered: stars, bare: x.firstRecord.Load() == noRecord}
	about := int(x.store.Now().PackedEntries())
	parts := make([]joinPart, j.workers())
	width := ^uint64(0) / uint64(len(parts))
	var group sync.WaitGroup
	for i := range parts {
		first := uint64(i) * width
		last := first + width - 1
		if i == len(parts)-1 {
			last = ^uint64(0)
		}
		group.Go(func() {
			parts[i].err = parts[i].read(ctx, readers[i].v, first, last, about/len(parts))
		})
	}
	group.Wait()
	nodes, documents := 0, 0
	for _, s := range parts {
		if s.err != nil {
			return nil, s.err
		}
		nodes, documents = nodes+len(s.fps), documents+len(s.ids)
	}
	fps := make([]fingerprint.Fingerprint, 0, nodes)
	j.ids, j.starts = make([]uint64, 0, documents), append(make([]uint64, 0, nodes+1), 0)
	for i := range parts {
		s := &parts[i]
		fps = append(fps, s.fps...)
		for _, end := range s.ends {
			j.starts = append(j.starts, uint64(len(j.ids))+end)
		}
		j.ids = append(j.ids, s.ids...)
		*s = joinPart{}
	}
	var err error
	j.set, err = selfjoin.SortedSet(fps, j.copies)
	return j, err
}

// joinPart is the part of one worker.
type joinPart struct {
	fps  []fingerprint.Fingerprint
	ids  []uint64
	ends []uint64 // the end of each fingerprint's IDs
	err  error
}

// read reads the postings from first to last. about is their approximate number.
func (s *joinPart) read(ctx context.Context, v *store.View, first, last uint64, about int) error {
	s.fps = make([]fingerprint.Fingerprint, 0, about+about/64)
	s.ids, s.ends = make([]uint64, 0, cap(s.fps)), make([]uint64, 0, cap(s.fps))
	for p, err := range v.Postings(first) {
		if err == nil && len(s.fps)%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if p.Stored > last {
			break
		}
		if p.IDs.Empty() {
			continue
		}
		s.fps = append(s.fps, fingerprint.Fingerprint(p.Stored))
		s.ids = p.IDs.AppendTo(s.ids)
		s.ends = append(s.ends, uint64(len(s.ids)))
	}
	return nil
}

func (j *joiner) workers() int { return len(j.readers) - 1 }

func (j *joiner) options() selfjoin.Options {
	return selfjoin.Options{MaxDistance: j.rule.MaxDistance, Workers: j.workers()}
}

// copies returns the number of documents of a node.
func (j *joiner) copies(node selfjoin.Node) int { return int(j.starts[node+1] - j.starts[node]) }

// groupKey holds the fields that are equal for the documents of a Group.
type groupKey struct {
	scope     string
	signature fingerprint.Signature
}

// appendGroups appends the documents of a node in groups. The rule does not distinguish the
// documents of a group.
func (j *joiner) appendGroups(dst []Group, r *reader, node selfjoin.Node) ([]Group, error) {
	ids, stored := slices.Clip(j.ids[j.starts[node]:j.starts[node+1]]), uint64(j.set.Fingerprint(node))
	taker := j.readers[j.workers()]
	if len(ids) == 1 || j.bare {
		d, err := r.member(ids[0], stored)
		return append(dst, Group{d, len(ids), ids, taker}), err
	}
	places := make(map[groupKey]int)
	for i, id := range ids {
		d, err := r.member(id, stored)
		if err != nil {
			return dst, err
		}
		key := groupKey{d.Scope, j.rule.Relevant(d.Signature())}
		place, found := places[key]
		if !found {
			places[key] = len(dst)
			dst = append(dst, Group{d, 1, ids[i : i+1 : i+1], taker})
			continue
		}
		group := &dst[place]
		group.Documents++
		group.ids = append(group.ids, id)
	}
	return dst, nil
}
