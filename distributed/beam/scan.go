package beam

import (
	"context"
	"crypto/sha256"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/neardup/neardup/internal/scan"
)

func init() {
	beam.RegisterDoFn(&scanBatch{})
	register.Iter1[Batch]()
	register.Emitter1[Match]()
}

// Scan compares a collection with queries, each a PCollection<Batch>, as in section 3.3 of the
// paper. Every worker keeps the queries in memory, at about 100 bytes per query and filters, and
// passes over the collection once. Scan returns a PCollection<Match>: for each fingerprint of the
// collection, all distinct queries within MaxDistance bits. A repeated fingerprint has repeated
// matches.
func Scan(s beam.Scope, o Options, queries, collection beam.PCollection) beam.PCollection {
	o.must(scan.MaxDistance)
	return beam.ParDo(s.Scope("neardup.Scan"), &scanBatch{MaxDistance: o.MaxDistance}, collection,
		beam.SideInput{Input: queries})
}

// scanBatch compares a batch with all queries of its window.
type scanBatch struct {
	MaxDistance int
	window      beam.Window
	queries     *queries
}

func (s *scanBatch) ProcessElement(
	_ context.Context, w beam.Window, b Batch, batches func(*Batch) bool, emit func(Match),
) error {
	if s.window == nil || !w.Equals(s.window) {
		var fps []fp
		var batch Batch
		for batches(&batch) {
			fps = append(fps, batch.Fingerprints...)
		}
		var err error
		if s.queries, err = prepare(fps, s.MaxDistance); err != nil {
			return err
		}
		s.window = w
	}
	words := make([]uint64, len(b.Fingerprints))
	for i, f := range b.Fingerprints {
		words[i] = uint64(f)
	}
	var out emitting
	var workers sync.WaitGroup
	for part := range slices.Chunk(words, max(len(words)/runtime.GOMAXPROCS(0)+1, 1)) {
		workers.Go(func() {
			s.queries.Scan(part, func(m scan.Match) {
				_ = out.do(func() { emit(Match{s.queries.distinct[m.Query], fp(part[m.At])}) })
			})
		})
	}
	workers.Wait()
	return out.err
}

// queries has queries that are prepared for comparison.
type queries struct {
	*scan.Queries
	distinct []fp
	sum      [sha256.Size]byte
}

// lately has the queries that were prepared last, as long as a bundle of this process uses them, so
// that bundles share their memory.
var lately struct {
	sync.Mutex
	queries weak.Pointer[queries]
}

// prepare sorts the queries and keeps them for other bundles.
func prepare(fps []fp, k int) (*queries, error) {
	slices.Sort(fps)
	fps = slices.Compact(fps)
	sum := sha256.Sum256(append(packed(fps), byte(k)))
	lately.Lock()
	defer lately.Unlock()
	if q := lately.queries.Value(); q != nil && q.sum == sum {
		return q, nil
	}
	prepared, err := scan.New(fps, k, 0)
	if err != nil {
		return nil, err
	}
	q := &queries{prepared, fps, sum}
	lately.queries = weak.Make(q)
	return q, nil
}
