package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/ordered"
)

// Answer is what QueryBatch found for one of the fingerprints asked for.
type Answer struct {
	Query   int // its place among them, from 0
	Matches []Match
}

// QueryBatch queries many fingerprints at once, on all cores, and yields their
// answers in the order of fps. All are answered of one moment. It stops at the
// first error, which it yields. The index must not be closed from within the loop.
//
// Many queries are not answered one by one, but so that the index is read in order, or
// once from beginning to end: PlanBatch says which, By asks for one of the ways. They
// differ in time only. At most a million queries are under way at once; they take some
// 100 bytes each, and 48 for each matching fingerprint, of which there are 4 million
// at most before fewer queries are taken at once.
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
		if err == nil && q.lengths != nil && len(q.lengths) != len(fps) {
			err = fmt.Errorf("%d fingerprints with %d lengths", len(fps), len(q.lengths))
		}
		if err != nil {
			yield(Answer{}, err)
			return
		}
		if q.method == "" {
			q.method = x.planBatch(len(fps), q.k).Method
		}
		if err := x.queryBatch(ctx, fps, q, yield); err != nil {
			yield(Answer{}, err)
		}
	}
}

// batchWindow is how many queries are searched together.
const batchWindow = 1 << 20

// leastWindow is how many queries are answered one by one if together they have too many
// hits to be kept.
const leastWindow = 1 << 10

// queryBatch answers window after window.
func (x *Index) queryBatch(ctx context.Context, fps []fingerprint.Fingerprint, q query, yield func(Answer, error) bool) error {
	workers := min(runtime.GOMAXPROCS(0), (len(fps)+queryChunkLen-1)/queryChunkLen)
	readers, err := x.sameReaders(workers)
	if err != nil {
		return err
	}
	err = eachWindow(ctx, readers, fps, q, yield)
	return errors.Join(err, closeAll(readers))
}

func eachWindow(ctx context.Context, readers []*reader, fps []fingerprint.Fingerprint, q query, yield func(Answer, error) bool) error {
	size := batchWindow
	if q.method == QueryEach {
		size = max(1, len(fps))
	}
	for start := 0; start < len(fps); {
		w := answering{query: q, start: start, fps: fps[start:min(start+size, len(fps))]}
		if q.method != QueryEach && size > leastWindow {
			var err error
			w.hits, err = searchBatch(ctx, readers, w.fps, q)
			if errors.Is(err, errManyHits) {
				size /= 4
				continue
			}
			if err != nil {
				return err
			}
		}
		if more, err := w.answer(ctx, readers, yield); !more || err != nil {
			return err
		}
		start += len(w.fps)
	}
	return nil
}

// answering is a window of queries on their way to answers.
type answering struct {
	query
	start int
	fps   []fingerprint.Fingerprint
	hits  *batchHits // nil: they are not known
}

// queryChunk is a run of queries that one worker answers.
type queryChunk struct {
	start   int // in the window
	fps     []fingerprint.Fingerprint
	answers [][]Match
	err     error
}

const (
	queryChunkLen = 64
	// chunksAhead is how many chunks each worker may be ahead of what was yielded.
	chunksAhead = 4
)

// answer lets workers answer chunk by chunk, ahead of what is yielded. more is false if
// the caller wants no more.
func (w *answering) answer(ctx context.Context, readers []*reader, yield func(Answer, error) bool) (more bool, err error) {
	for c, err := range ordered.All(ctx, len(readers), len(readers)*chunksAhead, func(p *ordered.Pipe[*queryChunk]) error {
		return w.chunks(p, readers)
	}) {
		if err != nil {
			return false, err
		}
		for i, matches := range c.answers {
			if !yield(Answer{w.start + c.start + i, matches}, nil) {
				return false, nil
			}
		}
		if c.err != nil {
			return false, c.err
		}
	}
	return true, nil
}

// chunks has the workers answer all of the window.
func (w *answering) chunks(p *ordered.Pipe[*queryChunk], readers []*reader) error {
	for start := 0; start < len(w.fps); start += queryChunkLen {
		c := &queryChunk{start: start, fps: w.fps[start:min(start+queryChunkLen, len(w.fps))]}
		err := p.Go(func(worker int) (*queryChunk, error) {
			w.answerChunk(p.Context(), readers[worker], c)
			return c, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *answering) answerChunk(ctx context.Context, r *reader, c *queryChunk) {
	c.answers = make([][]Match, 0, len(c.fps))
	q := w.query
	var hits []hit
	for i, fp := range c.fps {
		if q.shingles != nil {
			q.signature.Shingle = q.shingles[w.start+c.start+i]
		}
		if q.lengths != nil {
			q.signature.Tokens = q.lengths[w.start+c.start+i]
		}
		var matches []Match
		c.err = ctx.Err()
		switch {
		case c.err != nil:
		case w.hits != nil:
			if hits = w.hits.of(hits[:0], c.start+i); len(hits) > 0 {
				matches, c.err = r.matchesOf(ctx, hits, &q)
			}
		default:
			matches, c.err = r.matches(ctx, fp, q)
		}
		if c.err != nil {
			return
		}
		c.answers = append(c.answers, matches)
	}
}
