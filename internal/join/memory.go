package join

import (
	"context"
	"slices"
	"sync"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/selfjoin"
)

// joiner holds the fingerprints and IDs of a Source in memory.
type joiner struct {
	Source
	Options
	set    *selfjoin.Set
	ids    []uint64 // of all documents, by fingerprint
	starts []uint64 // the start of each node in ids, and the end of the last one
}

// newJoiner reads a source. Each worker reads a part of the fingerprints.
func newJoiner(ctx context.Context, source Source, o Options) (*joiner, error) {
	j := &joiner{Source: source, Options: o}
	parts := make([]part, j.workers())
	width := ^uint64(0) / uint64(len(parts))
	var group sync.WaitGroup
	for i := range parts {
		first := uint64(i) * width
		last := first + width - 1
		if i == len(parts)-1 {
			last = ^uint64(0)
		}
		group.Go(func() {
			parts[i].err = parts[i].read(ctx, j.Readers[i], first, last, j.Fingerprints/len(parts))
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
		*s = part{}
	}
	var err error
	j.set, err = selfjoin.SortedSet(fps, j.copies)
	return j, err
}

// part is the part of one worker.
type part struct {
	fps  []fingerprint.Fingerprint
	ids  []uint64
	ends []uint64 // the end of each fingerprint's IDs
	err  error
}

// read reads the postings from first to last. expected is their approximate number.
func (s *part) read(ctx context.Context, r Reader, first, last uint64, about int) error {
	s.fps = make([]fingerprint.Fingerprint, 0, about+about/64)
	s.ids, s.ends = make([]uint64, 0, cap(s.fps)), make([]uint64, 0, cap(s.fps))
	for p, err := range r.Postings(first) {
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

func (j *joiner) workers() int { return len(j.Readers) - 1 }

func (j *joiner) options() selfjoin.Options {
	return selfjoin.Options{MaxDistance: j.Rule.MaxDistance, Workers: j.workers()}
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
func (j *joiner) appendGroups(dst []Group, r Reader, node selfjoin.Node) ([]Group, error) {
	ids, stored := slices.Clip(j.ids[j.starts[node]:j.starts[node+1]]), uint64(j.set.Fingerprint(node))
	taker := j.Readers[j.workers()]
	if len(ids) == 1 || j.Bare {
		d, err := r.Document(ids[0], stored)
		return append(dst, Group{d, len(ids), ids, taker}), err
	}
	places := make(map[groupKey]int)
	for i, id := range ids {
		d, err := r.Document(id, stored)
		if err != nil {
			return dst, err
		}
		key := groupKey{d.Scope, j.Rule.Relevant(d.Signature())}
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
