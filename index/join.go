package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/selfjoin"
)

// JoinOptions of Pairs and Clusters. The zero value asks for what check-and-add calls
// duplicates.
type JoinOptions struct {
	// MaxDistance is k, from 0 (for which Exact stands) to 64. It need not be within
	// what the index was made for: no table is asked. Default: that of the index.
	MaxDistance int

	// MaxShingleDistance as in Options; default: that of the index. Negative: Shingles
	// do not count.
	MaxShingleDistance int

	// MaxLengthRatio as in Options; default: that of the index. Negative: lengths do not
	// count.
	MaxLengthRatio float64

	// Prefer reports whether a document is to be kept rather than another. Of a
	// Cluster and of a Group, the one to be kept comes first. Default: the smaller ID.
	// Where it prefers neither, the smaller ID is. Several goroutines call it.
	Prefer func(a, b *Document) bool

	// Copies has Pairs yield each Group of more than one document as a pair with
	// itself, at distance 0, which stands for Documents*(Documents-1)/2 pairs.
	Copies bool

	// Stars makes clusters whose members all match the first one, by taking the
	// preferred document first. Default: connected components, see Clusters.
	Stars bool
}

// ShortestKey as JoinOptions.Prefer keeps the document with the shortest key, one with
// a key rather than one without.
func ShortestKey(a, b *Document) bool {
	return a.Key != "" && (b.Key == "" || len(a.Key) < len(b.Key))
}

func (o *JoinOptions) rule(x *Index) (rule, error) {
	r := x.rule()
	switch {
	case o.MaxDistance == Exact:
		r.k = 0
	case o.MaxDistance < 0 || o.MaxDistance > 64:
		return r, fmt.Errorf("%w: k = %d is not in 0..64", ErrDistance, o.MaxDistance)
	case o.MaxDistance > 0:
		r.k = o.MaxDistance
	}
	r = r.with(o.MaxShingleDistance, o.MaxLengthRatio)
	return r, r.check()
}

func (o *JoinOptions) prefers(a, b *Document) bool {
	if o.Prefer != nil {
		if o.Prefer(a, b) {
			return true
		}
		if o.Prefer(b, a) {
			return false
		}
	}
	return a.ID < b.ID
}

// Group is the documents of one scope that have the same fingerprint (and the same
// Shingle and length, if these count).
type Group struct {
	Document      // the preferred one
	Documents int // how many

	ids []uint64
	r   *reader
}

// All yields all documents of the group, by ID. It reads the record of each, and may be
// called only within the loop that yielded the group.
func (g *Group) All() iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		for _, id := range g.ids {
			d, err := g.r.loaded(id, g.stored())
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// join is all stored fingerprints in memory, to be compared with each other.
type join struct {
	JoinOptions
	rule
	set     *selfjoin.Set
	ids     []uint64 // of all documents, by fingerprint
	starts  []uint64 // where those of each node start; nil if each has one
	records bool     // some documents have one

	readers []*reader // one for each worker, and one for the caller's loop
}

// join reads all fingerprints of this moment. close must follow.
func (x *Index) join(ctx context.Context, o JoinOptions) (*join, error) {
	rule, err := o.rule(x)
	if err != nil {
		return nil, err
	}
	readers, err := x.sameReaders(runtime.GOMAXPROCS(0) + 1)
	if err != nil {
		return nil, err
	}
	j := &join{JoinOptions: o, rule: rule, readers: readers, records: x.firstRecord.Load() != noRecord}
	if err := j.read(ctx); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func (j *join) close() error { return closeAll(j.readers) }

func (j *join) workers() int { return len(j.readers) - 1 }

// looping is the reader of the goroutine that the caller's loop runs in.
func (j *join) looping() *reader { return j.readers[j.workers()] }

// stretch is what one worker has read.
type stretch struct {
	stored []fingerprint.Fingerprint
	ids    []uint64
	counts []uint32 // documents of each; nil if each has one
	err    error
}

func (j *join) read(ctx context.Context) (err error) {
	stretches := make([]stretch, j.workers())
	width := ^uint64(0) / uint64(len(stretches))
	var group sync.WaitGroup
	for i := range stretches {
		group.Go(func() {
			first := uint64(i) * width
			last := first + width - 1
			if i == len(stretches)-1 {
				last = ^uint64(0)
			}
			stretches[i].read(ctx, j.readers[i], first, last)
		})
	}
	group.Wait()
	var all stretch
	repeated := false
	nodes := 0
	for i := range stretches {
		s := &stretches[i]
		if s.err != nil {
			return s.err
		}
		nodes += len(s.stored)
		repeated = repeated || s.counts != nil
	}
	if repeated {
		j.starts = append(make([]uint64, 0, nodes+1), 0)
	}
	all.stored = slices.Grow(all.stored, nodes)
	for i := range stretches {
		s := &stretches[i]
		all.stored = append(all.stored, s.stored...)
		all.ids = append(all.ids, s.ids...)
		for node := range s.stored {
			if !repeated {
				break
			}
			count := uint64(1)
			if s.counts != nil {
				count = uint64(s.counts[node])
			}
			j.starts = append(j.starts, j.starts[len(j.starts)-1]+count)
		}
		*s = stretch{}
	}
	j.ids = all.ids
	j.set, err = selfjoin.SortedSet(all.stored)
	return err
}

// read takes the postings from first to last.
func (s *stretch) read(ctx context.Context, r *reader, first, last uint64) {
	if packed := r.x.store.Packed(0); packed != nil {
		share := float64(packed.Entries()) * (float64(last-first) / (1 << 64))
		s.stored = make([]fingerprint.Fingerprint, 0, int(share*1.01)+1024)
		s.ids = make([]uint64, 0, cap(s.stored))
	}
	for p, err := range r.v.Postings(first) {
		if err == nil && len(s.stored)%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			s.err = err
			return
		}
		if p.Stored > last {
			return
		}
		if p.IDs.Empty() {
			continue
		}
		before := len(s.ids)
		s.ids = p.IDs.AppendTo(s.ids)
		count := len(s.ids) - before
		if count > 1 && s.counts == nil {
			s.counts = slices.Repeat([]uint32{1}, len(s.stored))
		}
		s.stored = append(s.stored, fingerprint.Fingerprint(p.Stored))
		if s.counts != nil {
			s.counts = append(s.counts, uint32(count))
		}
	}
}

// idsOf returns the documents of a node.
func (j *join) idsOf(node selfjoin.Node) []uint64 {
	if j.starts == nil {
		return j.ids[node : node+1 : node+1]
	}
	return j.ids[j.starts[node]:j.starts[node+1]:j.starts[node+1]]
}

// loaded returns a document of a stored fingerprint.
func (r *reader) loaded(id, stored uint64) (d Document, err error) {
	d = bareDocument(id, stored)
	if id >= r.x.firstRecord.Load() {
		if d, err = r.recorded(id, d); err != nil {
			return Document{}, err
		}
	}
	d.Added, err = r.added(id)
	return d, err
}

// bare returns the documents of a node of an index without records.
func (j *join) bare(r *reader, node selfjoin.Node) (Group, error) {
	ids := j.idsOf(node)
	d, err := r.loaded(ids[0], uint64(j.set.Fingerprint(node)))
	return Group{d, len(ids), ids, j.looping()}, err
}

// groupKey is what documents of one fingerprint have to share for being one Group.
type groupKey struct {
	scope string
	details
}

// groups returns the documents of a node, those of each scope, Shingle and length together.
func (j *join) groups(r *reader, node selfjoin.Node) ([]Group, error) {
	ids, stored := j.idsOf(node), uint64(j.set.Fingerprint(node))
	if !j.records {
		g, err := j.bare(r, node)
		return []Group{g}, err
	}
	var groups []Group
	var at map[groupKey]int // place in groups
	if len(ids) > 1 {
		at = make(map[groupKey]int)
	}
	for i, id := range ids {
		d, err := r.loaded(id, stored)
		if err != nil {
			return nil, err
		}
		key := groupKey{d.Scope, j.relevant(d.details())}
		g, found := at[key]
		if !found {
			if at != nil {
				at[key] = len(groups)
			}
			groups = append(groups, Group{d, 1, ids[i : i+1 : i+1], j.looping()})
			continue
		}
		group := &groups[g]
		group.Documents++
		group.ids = append(group.ids, id)
		if j.prefers(&d, &group.Document) {
			group.Document = d
		}
	}
	return groups, nil
}

// match reports whether two groups within k bits match.
func (j *join) match(a, b *Group) bool {
	return a.Scope == b.Scope && j.lets(a.Fingerprint.Distance(b.Fingerprint), a.details(), b.details())
}
