package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// ErrWrongAnswer: the index did not return exactly the stored documents within the
// distance. It is a bug, and no figure of such an index is worth anything.
var ErrWrongAnswer = errors.New("wrong answer")

// A verification compares with every stored fingerprint so many times in all, within
// the bounds on the number of questions.
const (
	comparisons  = 1 << 30
	minQuestions = 8
	maxQuestions = 64
)

// verify asks the index and compares with every stored fingerprint of the collection.
func verify(ctx context.Context, x *index.Index, c collection, k int) (asked int, err error) {
	questions := c.questions(k, streamVerify).next(min(max(comparisons/max(c.n, 1), minQuestions), maxQuestions))
	expected, err := scan(ctx, c, k, questions)
	if err != nil {
		return 0, err
	}
	for answer, err := range x.QueryBatch(ctx, questions) {
		if err != nil {
			return 0, err
		}
		if err := sameMatches(questions[answer.Query], answer.Matches, expected[answer.Query]); err != nil {
			return 0, err
		}
	}
	return len(questions), nil
}

// stored is a document that must be found.
type stored struct {
	id          uint64
	fingerprint fingerprint.Fingerprint
	distance    int
}

// scan returns what is within k bits of each question, by (distance, ID).
func scan(ctx context.Context, c collection, k int, questions []fingerprint.Fingerprint) ([][]stored, error) {
	workers := runtime.GOMAXPROCS(0)
	parts := make([][][]stored, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			parts[w] = scanPart(ctx, c, k, questions, c.n*w/workers, c.n*(w+1)/workers)
		})
	}
	wg.Wait()
	found := make([][]stored, len(questions))
	for _, part := range parts {
		for q := range part {
			found[q] = append(found[q], part[q]...)
		}
	}
	for _, f := range found {
		slices.SortFunc(f, func(a, b stored) int {
			return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.id, b.id))
		})
	}
	return found, ctx.Err()
}

func scanPart(ctx context.Context, c collection, k int, questions []fingerprint.Fingerprint, from, to int) [][]stored {
	found := make([][]stored, len(questions))
	for i := from; i < to; i++ {
		if i%(1<<20) == 0 && ctx.Err() != nil {
			break
		}
		v := c.at(i)
		for q, asked := range questions {
			if d := bits.OnesCount64(v ^ uint64(asked)); d <= k {
				found[q] = append(found[q], stored{uint64(i) + 1, fingerprint.Fingerprint(v), d})
			}
		}
	}
	return found
}

func sameMatches(asked fingerprint.Fingerprint, matches []index.Match, expected []stored) error {
	got := make([]stored, len(matches))
	for i, m := range matches {
		got[i] = stored{m.ID, m.Fingerprint, m.Distance}
	}
	if !slices.Equal(got, expected) {
		return fmt.Errorf("%w: asked for %v, the index returned %v, and %v is stored (id, fingerprint, distance)", ErrWrongAnswer, asked, got, expected)
	}
	return nil
}

// verifyReference compares the fingerprints that both find.
func verifyReference(asked fingerprint.Fingerprint, matches []index.Match, found []uint64) error {
	got := make([]uint64, len(matches))
	for i, m := range matches {
		got[i] = uint64(m.Fingerprint)
	}
	slices.Sort(got)
	found = slices.Sorted(slices.Values(found))
	if !slices.Equal(got, found) {
		return fmt.Errorf("%w: asked for %v, the index returned %x and the reference %x", ErrWrongAnswer, asked, got, found)
	}
	return nil
}
