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

// window is the number of documents that go through the protocol together.
const window = 256

// Signer returns the Signer of the index, as neardup.Index.Signer does. It is nil if the index has
// none.
func (x *Index) Signer() *page.Signer { return x.signer }

// Check checks a page, as neardup.Index.Check does. Concurrent calls share round trips.
func (x *Index) Check(ctx context.Context, p neardup.Page) (neardup.Verdict, error) {
	verdicts, err := x.CheckBatch(ctx, []neardup.Page{p})
	if err != nil {
		return neardup.Verdict{}, err
	}
	return verdicts[0], nil
}

// CheckBatch checks pages in their order, as neardup.Index.CheckBatch does.
func (x *Index) CheckBatch(ctx context.Context, pages []neardup.Page) ([]neardup.Verdict, error) {
	if x.signer == nil {
		return nil, fmt.Errorf("%w: it records no analyzer, so pages cannot be compared "+
			"with its fingerprints", index.ErrMismatch)
	}
	return check.Pages(ctx, x.signer, neardup.DefaultMaxBody, pages, x.CheckDocuments)
}

// CheckDocuments is like CheckBatch for pages with known signatures. A call that fails, or whose
// ctx ends, may have stored documents. If it is repeated, it finds these documents by their keys.
func (x *Index) CheckDocuments(
	ctx context.Context, docs []index.Document,
) ([]neardup.Verdict, error) {
	found, err := x.checkAndAdd(ctx, docs)
	verdicts := make([]neardup.Verdict, len(found))
	for i := range found {
		verdicts[i] = check.Verdict(x.rule, &found[i])
	}
	return verdicts, err
}

// checkAndAdd does the same as index.Index.CheckAndAddBatch.
func (x *Index) checkAndAdd(
	ctx context.Context, docs []index.Document,
) (verdicts []index.Verdict, err error) {
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	for i := range docs {
		if err := match.Validate(&docs[i]); err != nil {
			return nil, err
		}
		if x.signer != nil && docs[i].Signature() == (fingerprint.Signature{}) {
			return nil, fmt.Errorf("%w: document %d of %d, key %.80q: skip documents with 0 Tokens",
				index.ErrNoText, i+1, len(docs), docs[i].Key)
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

// maxFlights is the largest number of batches of single calls that run at a time. Other calls wait
// and share the next batch.
const maxFlights = 3

// single is a call of one document.
type single struct {
	doc      index.Document
	done     chan struct{}
	verdicts []index.Verdict
	err      error // if there is no verdict
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
		return nil, ctx.Err() // the flight continues for its other calls
	}
}

// fly checks the document of s and the documents of waiting calls in batches, until no call waits.
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

// waiting returns one of the waiting calls, or nil.
func (x *Index) waiting() *single {
	select {
	case s := <-x.singles:
		return s
	default:
		return nil
	}
}

// sequence is a block of reserved sequence numbers.
type sequence struct {
	next, last, size uint64
	until            time.Time
}

// Numbers are reserved in blocks, which grow while they are used up quickly. A block is used within
// blockTime, since the age of an ID is estimated from its number.
const (
	minBlock  = 256
	maxBlock  = 4096
	blockTime = time.Second
)

// draw returns the first of n consecutive numbers that no other call gets.
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

// reserve reserves n numbers in Redis and returns the last one.
func (x *Index) reserve(ctx context.Context, n uint64) (uint64, error) {
	cmd := newCommand(reserve, x.name.sequence(), n)
	if err := x.run(ctx, true, []*command{cmd}); err != nil {
		return 0, err
	}
	last, err := strconv.ParseUint(cmd.value, 10, 64)
	if err != nil || last > maxSeq {
		return 0, fmt.Errorf("%w: the value of key %q is %.40q, not a sequence number",
			index.ErrNotIndex, cmd.key, cmd.value)
	}
	return last, nil
}

func newToken() string { return rand.Text()[:12] }
