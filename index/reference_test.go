package index

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
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

// scanEverything is the first of the two designs that the paper rejects (section
// 3): compare the query with every fingerprint. It is the oracle of these tests.
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

// probeEverything is the second one: look up each of the fingerprints within k.
type probeEverything map[uint64][]uint64

func (p probeEverything) add(id, fp uint64) { p[fp] = append(p[fp], id) }

func (p probeEverything) query(fp uint64, k int) []answer {
	var answers []answer
	var walk func(fp uint64, from, flipped int)
	walk = func(fp uint64, from, flipped int) {
		for _, id := range p[fp] {
			answers = append(answers, answer{id, flipped})
		}
		for bit := from; bit < 64 && flipped < k; bit++ {
			walk(fp^1<<bit, bit+1, flipped+1)
		}
	}
	walk(fp, 0, 0)
	sortAnswers(answers)
	return answers
}

func TestReferenceSearchersAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, set := range dataSets(rng, 2000) {
		scan, probe := &scanEverything{}, probeEverything{}
		for i, fp := range set.fps {
			scan.add(uint64(i+1), fp)
			probe.add(uint64(i+1), fp)
		}
		found := 0
		for _, q := range queriesFor(rng, set.fps, 15, 3) {
			for _, k := range []int{0, 1, 3} {
				a, b := scan.query(q, k), probe.query(q, k)
				if !slices.Equal(a, b) {
					t.Fatalf("%s: %016x within %d: scanning %v, probing %v", set.name, q, k, a, b)
				}
				found += len(a)
			}
		}
		if found == 0 {
			t.Errorf("%s: no query found anything", set.name)
		}
	}
}

// flip flips n different bits among those of a mask.
func flip(rng *rand.Rand, fp, mask uint64, n int) uint64 {
	for n = min(n, bits.OnesCount64(mask)); n > 0; {
		if bit := uint64(1) << rng.IntN(64); mask&bit != 0 {
			fp, mask, n = fp^bit, mask&^bit, n-1
		}
	}
	return fp
}

type dataSet struct {
	name string
	fps  []uint64
}

func dataSets(rng *rand.Rand, n int) []dataSet {
	return []dataSet{
		{"uniform", uniform(rng, n)},
		{"clustered", clustered(rng, n)},
		{"adversarial", adversarial(rng, n)},
	}
}

func uniform(rng *rand.Rand, n int) []uint64 {
	fps := make([]uint64, n)
	for i := range fps {
		fps[i] = rng.Uint64()
	}
	return fps
}

// clustered makes 35 % of the fingerprints by flipping 0 to 12 bits of another
// one, and three spikes of n/400 each at one value, thousands for a million.
func clustered(rng *rand.Rand, n int) []uint64 {
	fps := make([]uint64, 0, n)
	for range 3 {
		fps = append(fps, slices.Repeat([]uint64{rng.Uint64()}, n/400)...)
	}
	for len(fps) < n {
		fp := rng.Uint64()
		if len(fps) > 0 && rng.IntN(100) < 35 {
			fp = flip(rng, fps[rng.IntN(len(fps))], ^uint64(0), rng.IntN(13))
		}
		fps = append(fps, fp)
	}
	rng.Shuffle(n, func(i, j int) { fps[i], fps[j] = fps[j], fps[i] })
	return fps
}

// borders has the bits on both sides of every block border of every design at k = 3.
func borders() uint64 {
	mask := uint64(0)
	for _, m := range []int{4, 5, 6} {
		first := 0
		for i := range m {
			next := first + (64+m-1-i)/m // the larger blocks first
			mask |= 1<<(63-first) | 1<<(64-next)
			first = next
		}
	}
	return mask
}

// adversarial makes what trips a search by blocks: differences on block borders,
// all in one block, only behind every prefix, zeros, ones, and dense runs.
func adversarial(rng *rand.Rand, n int) []uint64 {
	fps := []uint64{0, ^uint64(0)}
	for shift := range 64 {
		fps = append(fps, 1<<shift, ^(uint64(1) << shift), ^uint64(0)<<shift, ^uint64(0)>>shift)
	}
	masks := []uint64{borders(), 0xffff << 48, 0xffff << 16, 0xffff, 0xff, ^uint64(0) >> 28}
	run := rng.Uint64() &^ 0xfff
	for i := uint64(0); len(fps) < n; i++ {
		center := []uint64{0, ^uint64(0), run, 0xaaaaaaaaaaaaaaaa, rng.Uint64()}[rng.IntN(5)]
		if i%4 == 0 {
			fps = append(fps, run+i/4)
			continue
		}
		fps = append(fps, flip(rng, center, masks[rng.IntN(len(masks))], rng.IntN(13)))
	}
	return fps[:n]
}

// queriesFor mixes stored fingerprints, ones up to k+2 bits from stored ones, by
// any bits and by those on block borders, and strangers.
func queriesFor(rng *rand.Rand, fps []uint64, n, k int) []uint64 {
	queries := make([]uint64, n)
	for i := range queries {
		near := fps[rng.IntN(len(fps))]
		switch rng.IntN(6) {
		case 0:
			queries[i] = rng.Uint64()
		case 1:
			queries[i] = near
		case 2:
			queries[i] = flip(rng, near, borders(), rng.IntN(k+3))
		default:
			queries[i] = flip(rng, near, ^uint64(0), rng.IntN(k+3))
		}
	}
	return queries
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
			matches, err := x.Query(context.Background(), fingerprint.Fingerprint(q), MaxDistance(at))
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
