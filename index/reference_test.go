package index

import (
	"context"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index/plan"
)

// long reports whether the tests are to run at full size.
func long() bool { return os.Getenv("NEARDUP_LONG") != "" }

// answer is a match as the reference searchers give it.
type answer struct {
	id       uint64
	distance int
}

func sortAnswers(answers []answer) {
	slices.SortFunc(answers, func(a, b answer) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return int(int64(a.id) - int64(b.id))
	})
}

// scanEverything compares the query with every fingerprint.
type scanEverything struct {
	ids []uint64
	fps []uint64
}

func (s *scanEverything) add(id, fp uint64) {
	s.ids = append(s.ids, id)
	s.fps = append(s.fps, fp)
}

func (s *scanEverything) query(fp uint64, k int) []answer {
	var answers []answer
	for i, other := range s.fps {
		if d := bits.OnesCount64(fp ^ other); d <= k {
			answers = append(answers, answer{s.ids[i], d})
		}
	}
	sortAnswers(answers)
	return answers
}

func mustParse(t testing.TB, text string) *plan.Plan {
	t.Helper()
	p, err := plan.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustPlan(t testing.TB, design string, k int) *plan.Plan {
	t.Helper()
	p, err := plan.Named(design, k)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// openMem opens an index in memory that is closed when the test ends.
func openMem(t testing.TB, opts Options) *Index {
	t.Helper()
	if opts.FS == nil {
		opts.FS = vfs.NewMem()
	}
	x, err := Open("index", &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return x
}

func bareDocuments(fps []uint64) []Document {
	docs := make([]Document, len(fps))
	for i, fp := range fps {
		docs[i].Fingerprint = fingerprint.Fingerprint(fp)
	}
	return docs
}

// fill adds bare documents, batch by batch, to an index and to its oracle.
func fill(t testing.TB, x *Index, oracle *scanEverything, fps []uint64, batch int) {
	t.Helper()
	for chunk := range slices.Chunk(bareDocuments(fps), batch) {
		if err := x.Add(context.Background(), chunk...); err != nil {
			t.Fatal(err)
		}
		if oracle == nil {
			continue
		}
		for _, d := range chunk {
			oracle.add(d.ID, uint64(d.Fingerprint))
		}
	}
}

func answersOf(matches []Match) []answer {
	answers := make([]answer, len(matches))
	for i, m := range matches {
		answers[i] = answer{m.ID, m.Distance}
	}
	return answers
}

// difference tells where two answers part, shortly.
func difference(got, want []answer) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%d matches, not %d: match %d, %v, is missing", len(got), len(want), i, want[i])
		case i >= len(want):
			return fmt.Sprintf("%d matches, not %d: match %d, %v, is too many", len(got), len(want), i, got[i])
		case got[i] != want[i]:
			return fmt.Sprintf("match %d is %v, not %v", i, got[i], want[i])
		}
	}
	return ""
}

// checkQueries compares Query, at every distance from 0 to k, with the oracle. It
// returns the number of matches.
func checkQueries(t testing.TB, x *Index, oracle *scanEverything, queries []uint64, k int) (found int) {
	t.Helper()
	for _, q := range queries {
		all := oracle.query(q, k)
		for at := k; at >= 0; at-- {
			for len(all) > 0 && all[len(all)-1].distance > at {
				all = all[:len(all)-1]
			}
			matches, err := x.Query(context.Background(), within(at, Query{Signature: nearTo(fingerprint.Fingerprint(q)).Signature}))
			if err != nil {
				t.Fatal(err)
			}
			if got := answersOf(matches); !slices.Equal(got, all) {
				t.Fatalf("plan %v: query %016x within %d: %s", x.Plan(), q, at, difference(got, all))
			}
			for _, m := range matches {
				if m.Distance != m.Fingerprint.Distance(fingerprint.Fingerprint(q)) {
					t.Fatalf("query %016x: distance %d of %v", q, m.Distance, m.Document)
				}
			}
			found += len(matches)
		}
	}
	return found
}

// failer is what a *testing.T and a *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// checkInvariants compares an index with the documents that it should hold, of which the
// last that was given an ID has a certain one: counters, all documents, those that Get and
// a query for their own fingerprint find. Verify compares the rest with them.
func checkInvariants(t failer, x *Index, docs []Document, last uint64) {
	t.Helper()
	ctx := context.Background()
	byID, bare := map[uint64]Document{}, uint64(0)
	for _, d := range docs {
		d.Added = time.Time{}
		byID[d.ID] = d
		if d.Key == "" && d.Scope == "" && d.Shingle == 0 && d.Tokens == 0 {
			bare++
		}
	}
	if s := x.Stats(); s.Documents != uint64(len(docs)) || s.Bare != bare || s.NextID != last+1 {
		t.Fatalf("%+v for %d documents, %d bare, the last of them %d", s, len(docs), bare, last)
	}
	n := 0
	for d, err := range x.Documents(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Added.IsZero() {
			t.Fatalf("no time of arrival: %+v", d)
		}
		matches, err := x.Query(ctx, Query{Signature: d.Signature(), Scope: d.Scope, MaxDistance: Exact})
		if err != nil || !slices.Contains(matches, Match{Document: d}) {
			t.Fatalf("%+v is not among %+v: %v", d, matches, err)
		}
		if got, found, err := x.Get(ctx, d.Key); d.Key != "" && (err != nil || !found || got != d) {
			t.Fatalf("key %q: %+v, %v, %v, not %+v", d.Key, got, found, err, d)
		}
		if d.Added = (time.Time{}); d != byID[d.ID] {
			t.Fatalf("%+v, not %+v", d, byID[d.ID])
		}
		n++
	}
	if n != len(docs) {
		t.Fatalf("%d documents, not %d", n, len(docs))
	}
	checkVerified(t, x)
}
