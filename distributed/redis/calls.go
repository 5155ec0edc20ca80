package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
)

// window is how many documents go through the protocol together.
const window = 256

// Signer is neardup.Index.Signer.
func (x *Index) Signer() *page.Signer { return x.signer }

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
	return check.Pages(ctx, x.signer, neardup.DefaultMaxBody, pages, x.CheckDocuments)
}

// CheckDocuments is CheckBatch of pages that are analyzed already. A call that fails, or whose ctx ends, may have taken effect:
// repeated, it finds its own documents by their keys.
func (x *Index) CheckDocuments(ctx context.Context, docs []index.Document) ([]neardup.Verdict, error) {
	found, err := x.checkAndAdd(ctx, docs)
	verdicts := make([]neardup.Verdict, len(found))
	for i := range found {
		verdicts[i] = check.Verdict(x.rule, &found[i])
	}
	return verdicts, err
}

// checkAndAdd is index.Index.CheckAndAddBatch.
func (x *Index) checkAndAdd(ctx context.Context, docs []index.Document) (verdicts []index.Verdict, err error) {
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	for i := range docs {
		if err := match.Validate(&docs[i]); err != nil {
			return nil, err
		}
		if x.signer != nil && docs[i].Signature() == (fingerprint.Signature{}) {
			return nil, fmt.Errorf("%w: document %d of %d, key %.80q: skip what has 0 Tokens", index.ErrNoText, i+1, len(docs), docs[i].Key)
		}
	}
	if len(docs) == 1 {
		return x.checkOne(ctx, docs[0])
	}
	for part := range slices.Chunk(docs, window) {
		found, err := x.check(ctx, part)
		if verdicts = append(verdicts, found...); err != nil {
			return verdicts, err
		}
	}
	return verdicts, nil
}

// maxFlights is how many batches of single calls are under way at most; others wait to go together in the next.
const maxFlights = 3

// single is a call of one document.
type single struct {
	doc      index.Document
	done     chan struct{}
	verdicts []index.Verdict
	err      error // where there is no verdict
}

func (x *Index) checkOne(ctx context.Context, doc index.Document) ([]index.Verdict, error) {
	s := &single{doc: doc, done: make(chan struct{})}
	select {
	case x.singles <- s:
	case x.flights <- struct{}{}:
		go x.fly(s)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-s.done:
		return s.verdicts, s.err
	case <-ctx.Done():
		return nil, ctx.Err() // a flight goes on for the others in it
	}
}

// fly checks documents as long as there are any.
func (x *Index) fly(s *single) {
	for ; s != nil; s = x.waiting() {
		flight, docs := []*single(nil), []index.Document(nil)
		for ; s != nil; s = x.waiting() {
			if flight, docs = append(flight, s), append(docs, s.doc); len(docs) == window {
				break
			}
		}
		verdicts, err := x.check(context.Background(), docs)
		for i, s := range flight {
			if i < len(verdicts) {
				s.verdicts = verdicts[i : i+1]
			} else {
				s.err = err
			}
			close(s.done)
		}
	}
	<-x.flights
}

// waiting takes one of the calls that wait, if there are any.
func (x *Index) waiting() *single {
	select {
	case s := <-x.singles:
		return s
	default:
		return nil
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
	cmd := newCommand(reserve, x.name.sequence(), n)
	if err := x.run(ctx, true, []*command{cmd}); err != nil {
		return 0, err
	}
	last, err := strconv.ParseUint(cmd.value, 10, 64)
	if err != nil || last > maxSeq {
		return 0, fmt.Errorf("%w: key %q holds %.40q, which is no sequence number", index.ErrNotIndex, cmd.key, cmd.value)
	}
	return last, nil
}

func newToken() string { return rand.Text()[:12] }
