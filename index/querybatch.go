package index

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"

	"github.com/neardup/neardup/fingerprint"
)

// Answer is what QueryBatch found for one of the fingerprints asked for.
type Answer struct {
	Query   int // its place among them, from 0
	Matches []Match
}

// QueryBatch queries many fingerprints at once, on all cores, and yields their
// answers in the order of fps. All are answered of one moment. It stops at the
// first error, which it yields. The index must not be closed from within the loop.
func (x *Index) QueryBatch(ctx context.Context, fps []fingerprint.Fingerprint, opts ...QueryOption) iter.Seq2[Answer, error] {
	return func(yield func(Answer, error) bool) {
		if err := x.begin(ctx); err != nil {
			yield(Answer{}, err)
			return
		}
		defer x.end()
		q, err := x.query(opts)
		if err == nil && q.shingles != nil && len(q.shingles) != len(fps) {
			err = fmt.Errorf("%d fingerprints with %d Shingles", len(fps), len(q.shingles))
		}
		if err != nil {
			yield(Answer{}, err)
			return
		}
		if err := x.queryBatch(ctx, fps, q, yield); err != nil {
			yield(Answer{}, err)
		}
	}
}

// queryChunk is a run of queries that one worker answers.
type queryChunk struct {
	start   int
	fps     []fingerprint.Fingerprint
	answers [][]Match
	err     error
	done    chan struct{}
}

const (
	queryChunkLen = 64
	// chunksAhead is how many chunks each worker may be ahead of what was yielded.
	chunksAhead = 4
)

// queryBatch lets workers answer chunk by chunk, ahead of what is yielded.
func (x *Index) queryBatch(ctx context.Context, fps []fingerprint.Fingerprint, q query, yield func(Answer, error) bool) error {
	workers := min(runtime.GOMAXPROCS(0), (len(fps)+queryChunkLen-1)/queryChunkLen)
	readers, err := x.sameReaders(workers)
	if err != nil {
		return err
	}
	defer closeAll(readers)
	ctx, cancel := context.WithCancel(ctx)
	work := make(chan *queryChunk, workers*chunksAhead)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(work)
	defer cancel() // first: what is not yielded need not be answered
	for _, r := range readers {
		wg.Go(func() {
			for c := range work {
				c.answer(ctx, r, q)
			}
		})
	}
	var ahead []*queryChunk
	for next := 0; next < len(fps) || len(ahead) > 0; ahead = ahead[1:] {
		for next < len(fps) && len(ahead) < cap(work) {
			end := min(next+queryChunkLen, len(fps))
			c := &queryChunk{start: next, fps: fps[next:end], done: make(chan struct{})}
			work <- c // has room
			ahead = append(ahead, c)
			next = end
		}
		c := ahead[0]
		<-c.done
		for i, matches := range c.answers {
			if !yield(Answer{c.start + i, matches}, nil) {
				return nil
			}
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

func (c *queryChunk) answer(ctx context.Context, r *reader, q query) {
	defer close(c.done)
	c.answers = make([][]Match, 0, len(c.fps))
	for i, fp := range c.fps {
		if q.shingles != nil {
			q.shingle = q.shingles[c.start+i]
		}
		var matches []Match
		if c.err = ctx.Err(); c.err == nil {
			matches, c.err = r.matches(ctx, fp, q)
		}
		if c.err != nil {
			return
		}
		c.answers = append(c.answers, matches)
	}
}
