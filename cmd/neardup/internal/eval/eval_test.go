package eval

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

var must = testenv.Must

// world returns documents with clustered signatures, and labels of all classes.
func world(rng *rand.Rand, n, seeds int) (docs []*Document, pairs []Pair) {
	for i := range n {
		d := &Document{ID: strconv.Itoa(i)}
		binary.LittleEndian.PutUint64(d.tokens[:], uint64(rng.IntN(3*n))) // some are identical
		docs = append(docs, d)
		if a, b := rng.IntN(n), rng.IntN(n); a != b {
			pairs = append(pairs, Pair{0.6 + 0.4*rng.Float64(), strconv.Itoa(a), strconv.Itoa(b)})
		}
	}
	for range seeds {
		for i, f := range testgen.Clustered(rng, n) {
			s := fingerprint.Signature{Fingerprint: fingerprint.Fingerprint(f),
				Tokens: 100 + rng.IntN(40)}
			if rng.IntN(20) > 0 {
				s.Shingles[0] = 1 // not zero
				for range rng.IntN(40) {
					s.Shingles[rng.IntN(4)] ^= 1 << rng.IntN(64)
				}
			}
			if rng.IntN(30) == 0 && len(docs[i].Signatures) == 0 {
				s.Tokens = 0
			}
			docs[i].Signatures = append(docs[i].Signatures, s)
		}
	}
	return docs, pairs
}

// naive scores a rule pair by pair, directly from the definitions.
func naive(
	docs []*Document, pairs []Pair, r match.Rule, seed int,
) (positive int, negative int64, s Score) {
	similarity := map[[2]int]float64{}
	for _, p := range pairs {
		a, _ := strconv.Atoi(p.A)
		b, _ := strconv.Atoi(p.B)
		similarity[[2]int{min(a, b), max(a, b)}] = p.Similarity
	}
	found, wrong := 0, 0
	for a := range docs {
		for b := a + 1; b < len(docs); b++ {
			x, y := docs[a], docs[b]
			if x.tokens == y.tokens {
				continue
			}
			u, v := x.Signatures[seed], y.Signatures[seed]
			match := u.Fingerprint.Distance(v.Fingerprint) <= r.MaxDistance &&
				x.Signatures[0].Tokens > 0 && y.Signatures[0].Tokens > 0
			if !u.Shingles.IsZero() && !v.Shingles.IsZero() &&
				!r.Allows(u.Fingerprint.Distance(v.Fingerprint), u, v) {
				match = false
			}
			switch sim := similarity[[2]int{a, b}]; {
			case sim >= 0.90:
				positive++
				if match {
					found++
				}
			case sim < 0.80:
				negative++
				if match {
					wrong++
				}
			}
		}
	}
	s = Score{Precision: 1, Recall: float64(found) / float64(positive), FalsePairs: float64(wrong)}
	if found+wrong > 0 {
		s.Precision = float64(found) / float64(found+wrong)
	}
	if s.Precision+s.Recall > 0 {
		s.F1 = 2 * s.Precision * s.Recall / (s.Precision + s.Recall)
	}
	s.FalsePairsPerBillion = 1e9 * float64(wrong) / float64(negative)
	return positive, negative, s
}

func approx(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func TestMeasureMatchesDefinition(t *testing.T) {
	rounds := uint64(12)
	if testing.Short() {
		rounds = 3
	}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(seed, 1))
		const seeds = 3
		docs, pairs := world(rng, 40+rng.IntN(160), seeds)
		labelled, err := Label(docs, pairs)
		must(t, err)
		rule := match.Rule{
			MaxDistance:        rng.IntN(MaxDistance + 1),
			MaxShingleDistance: 5 + rng.IntN(120) - 200*rng.IntN(2)*rng.IntN(2),
			ShortAllowance:     30 * rng.IntN(2),
			MaxLengthRatio:     []float64{1, 1.125, 1.3, -1}[rng.IntN(4)],
		}
		report := measured(t, labelled, rule)
		points := []Point{report.Default}
		for _, c := range report.Curves {
			points = append(points, c.Points...)
		}
		for _, p := range points {
			var scores []Score
			for s := range seeds {
				positive, negative, score := naive(docs, pairs, p.Rule, s)
				if positive != report.Positive || negative != report.Negative {
					t.Fatalf("seed %d: %d positive and %d negative pairs, want %d and %d", seed,
						report.Positive, report.Negative, positive, negative)
				}
				scores = append(scores, score)
			}
			for f, got := range p.Score.fields() {
				mean, square := 0.0, 0.0
				for i := range scores {
					mean += *scores[i].fields()[f] / seeds
				}
				for i := range scores {
					square += math.Pow(*scores[i].fields()[f]-mean, 2) / (seeds - 1)
				}
				if !approx(*got, mean) || !approx(*p.Deviation.fields()[f], math.Sqrt(square)) {
					t.Fatalf("seed %d, %+v, field %d: %v ±%v, want %v ±%v", seed, p.Rule, f,
						*got, *p.Deviation.fields()[f], mean, math.Sqrt(square))
				}
			}
		}
	}
}

func TestReadPairs(t *testing.T) {
	pairs, err := ReadPairs(strings.NewReader("# a comment\n0.9\ta\tb\r\n\n1\tb c\td"))
	if err != nil || len(pairs) != 2 || pairs[0] != (Pair{0.9, "a", "b"}) ||
		pairs[1] != (Pair{1, "b c", "d"}) {
		t.Errorf("%v, %v", pairs, err)
	}
	for _, bad := range []string{"0.9\ta", "x\ta\tb", "1.1\ta\tb", "-1\ta\tb", "NaN\ta\tb",
		"0.9\ta\ta", "0.9\t\ta", strings.Repeat("x", maxLabelLine+1)} {
		if _, err := ReadPairs(strings.NewReader("0.9\ta\tb\n" + bad + "\n")); !errors.Is(err,
			ErrLabels) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

func FuzzReadPairs(f *testing.F) {
	f.Add("0.9\ta\tb\n")
	f.Add("# x\n\n1e-3\ta\tb\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		pairs, err := ReadPairs(strings.NewReader(s))
		if err != nil && !errors.Is(err, ErrLabels) {
			t.Fatal(err)
		}
		for _, p := range pairs {
			if !(p.Similarity >= 0 && p.Similarity <= 1) || p.A == "" || p.B == "" || p.A == p.B {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func TestUnknownDocuments(t *testing.T) {
	docs, _ := world(rand.New(rand.NewPCG(1, 1)), 3, 1)
	if _, err := Label(docs, []Pair{{0.9, "x", "0"}}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	l, err := Label(docs, []Pair{{0.9, "x", "0"}, {0.1, "0", "1"}})
	if err != nil || l.Unknown != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, id := range []string{"", "0"} {
		docs[1].ID = id
		if _, err := Label(docs, nil); !errors.Is(err, ErrDocuments) {
			t.Errorf("an id %q: %v", id, err)
		}
	}
}
