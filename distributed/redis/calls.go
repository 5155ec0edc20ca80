package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// window is how many documents go through the protocol together.
const window = 256

// Check is neardup.Index.Check. Concurrent calls share round trips.
func (x *Index) Check(ctx context.Context, p neardup.Page) (neardup.Verdict, error) {
	verdicts, err := x.CheckBatch(ctx, []neardup.Page{p})
	if err != nil {
		return neardup.Verdict{}, err
	}
	return verdicts[0], nil
}

// CheckBatch is neardup.Index.CheckBatch.
func (x *Index) CheckBatch(ctx context.Context, pages []neardup.Page) ([]neardup.Verdict, error) {
	if x.signer == nil {
		return nil, fmt.Errorf("%w: its fingerprints are of no recorded analyzer, so pages cannot be compared with them", index.ErrMismatch)
	}
	return neardup.CheckPages(ctx, x.signer, 0, pages, x.CheckDocuments)
}

// CheckDocuments is CheckBatch of pages that are analyzed already.
func (x *Index) CheckDocuments(ctx context.Context, docs []index.Document) ([]neardup.Verdict, error) {
	found, err := x.CheckAndAddBatch(ctx, docs)
	verdicts := make([]neardup.Verdict, len(found))
	for i := range found {
		verdicts[i] = neardup.VerdictOf(x.rule, &found[i])
	}
	return verdicts, err
}

// CheckAndAdd is index.Index.CheckAndAdd.
func (x *Index) CheckAndAdd(ctx context.Context, doc index.Document) (index.Verdict, error) {
	verdicts, err := x.CheckAndAddBatch(ctx, []index.Document{doc})
	if err != nil {
		return index.Verdict{}, err
	}
	return verdicts[0], nil
}

// CheckAndAddBatch is index.Index.CheckAndAddBatch. A call that fails, or whose ctx ends, may have taken effect:
// repeated, it finds its own documents by their keys.
func (x *Index) CheckAndAddBatch(ctx context.Context, docs []index.Document) (verdicts []index.Verdict, err error) {
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	for i := range docs {
		if err := index.Validate(&docs[i]); err != nil {
			return nil, err
		}
		if x.texts && docs[i].Signature() == (fingerprint.Signature{}) {
			return nil, fmt.Errorf("%w: document %d of %d, key %.80q: skip what has 0 Tokens", index.ErrNoText, i+1, len(docs), docs[i].Key)
		}
	}
	if len(docs) == 1 {
		return x.gather.check(ctx, x, docs[0])
	}
	for start := 0; start < len(docs); start += window {
		part, err := x.check(ctx, docs[start:min(start+window, len(docs))])
		if verdicts = append(verdicts, part...); err != nil {
			return verdicts, err
		}
	}
	return verdicts, nil
}

// gather makes batches of single calls: while as many as may be are under way, others wait to go together.
type gather struct {
	mu      sync.Mutex
	waiting []*single
	flights int
	flying  sync.WaitGroup
}

const maxFlights = 3

type single struct {
	doc     index.Document
	done    chan struct{}
	verdict index.Verdict
	err     error
}

func (g *gather) check(ctx context.Context, x *Index, doc index.Document) ([]index.Verdict, error) {
	s := &single{doc: doc, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, s)
	if g.flights < maxFlights {
		g.flights++
		g.flying.Go(func() { g.fly(x) })
	}
	g.mu.Unlock()
	select {
	case <-s.done:
		return []index.Verdict{s.verdict}, s.err
	case <-ctx.Done():
		g.mu.Lock()
		if at := slices.Index(g.waiting, s); at >= 0 { // or else callers that give up would leave more and more
			g.waiting = slices.Delete(g.waiting, at, at+1)
		}
		g.mu.Unlock()
		return nil, ctx.Err() // a flight goes on for the others in it
	}
}

func (g *gather) fly(x *Index) {
	for {
		g.mu.Lock()
		n := min(window, len(g.waiting))
		flight := g.waiting[:n:n]
		if g.waiting = g.waiting[n:]; n == 0 {
			g.flights--
		}
		g.mu.Unlock()
		if n == 0 {
			return
		}
		docs := make([]index.Document, n)
		for i, s := range flight {
			docs[i] = s.doc
		}
		verdicts, err := x.check(context.Background(), docs)
		for i, s := range flight {
			if i < len(verdicts) {
				s.verdict = verdicts[i]
			} else {
				s.err = err
			}
			close(s.done)
		}
	}
}

// sequence is the numbers that were reserved and not used yet.
type sequence struct {
	next, last, size uint64
	until            time.Time
}

// Numbers are reserved some at a time, more where they are soon used up, and used within blockTime: an ID
// tells about when it was drawn.
const (
	minBlock  = 256
	maxBlock  = 4096
	blockTime = time.Second
)

// draw returns the first of n numbers that are nobody else's.
func (x *Index) draw(ctx context.Context, n uint64) (uint64, error) {
	if n == 0 {
		return 0, nil
	}
	select {
	case x.drawing <- struct{}{}:
		defer func() { <-x.drawing }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	s := &x.sequence
	if now := x.now(); s.last+1 < s.next+n || now.After(s.until) {
		if s.size = min(2*s.size, maxBlock); now.After(s.until) {
			s.size = 0
		}
		s.size = max(s.size, n, minBlock)
		last, err := x.reserve(ctx, s.size)
		if err != nil {
			return 0, err
		}
		s.next, s.last, s.until = last-s.size+1, last, now.Add(blockTime)
	}
	s.next += n
	return s.next - n, nil
}

// reserve returns the last of n numbers that are given out by this.
func (x *Index) reserve(ctx context.Context, n uint64) (uint64, error) {
	cmd := &command{verb: reserve, key: x.name.sequence(), args: []any{n}}
	if err := x.run.run(ctx, true, []*command{cmd}); err != nil {
		return 0, err
	}
	last, err := strconv.ParseUint(cmd.value, 10, 64)
	if err != nil || last > maxSeq {
		return 0, fmt.Errorf("%w: key %q holds %.40q, which is no sequence number", ErrNotIndex, cmd.key, cmd.value)
	}
	return last, nil
}

func newToken() string { return rand.Text()[:12] }
