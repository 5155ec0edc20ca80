package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var rule = match.Rule{MaxDistance: 4, MaxShingleDistance: 12, ShortAllowance: 3,
	MaxLengthRatio: 1.3}

// draw returns a document that is near many others.
func draw(rng *rand.Rand) *index.Document {
	bits := func() uint64 { return rng.Uint64() & rng.Uint64() & rng.Uint64() & 0xffffff }
	return &index.Document{Fingerprint: fingerprint.Fingerprint(1<<60 ^ bits()),
		Shingles: fingerprint.ShingleSignature{2: 1<<61 ^ bits()}, Tokens: 100 + rng.IntN(40),
		Scope: fmt.Sprint(rng.IntN(2))}
}

// TestDocuments tests that the result of a comparison agrees with the rule of the index. Nearness
// must be at most 1 if two documents match, and larger if they do not. It must name a limit that
// they exceed.
func TestDocuments(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 6))
	for _, rule := range []match.Rule{rule, match.Default(6), {MaxLengthRatio: 1.3},
		{MaxDistance: 3, MaxShingleDistance: -1, MaxLengthRatio: -1}} {
		matching := 0
		for range 5000 {
			a, b := draw(rng), draw(rng)
			if rng.IntN(2) == 0 {
				b.Fingerprint, b.Shingles, b.Scope = a.Fingerprint, a.Shingles, a.Scope
			}
			if rng.IntN(10) == 0 { // unknown
				b.Tokens, b.Shingles = 0, fingerprint.ShingleSignature{}
			}
			r := Documents(Of(a), Of(b), rule, 0)
			share, by := r.Nearness()
			if r.Match != rule.Matches(a, b) ||
				a.Scope == b.Scope && (r.Match != (share <= 1) ||
					!r.Match && !slices.Contains(r.Decided, by)) {
				t.Fatalf("%+v by %+v: %v by %s", r, rule, share, by)
			}
			if r.Match {
				matching++
			}
		}
		if matching < 500 || matching > 4500 {
			t.Errorf("%+v: %d match", rule, matching)
		}
	}
}

var removedWords, addedWords = regexp.MustCompile(`\[-(.*?)-\]`), regexp.MustCompile(`{\+(.*?)\+}`)

// TestDifferences tests that exactly the words that differ are marked.
func TestDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		var a, b, removed, added []string
		for i := range 50 {
			word := fmt.Sprint("w", i)
			switch rng.IntN(10) {
			case 0:
				a, removed = append(a, word), append(removed, word)
			case 1:
				b, added = append(b, word), append(added, word)
			default:
				a, b = append(a, word), append(b, word)
			}
		}
		var marked [2][]string
		for _, place := range differences(a, b) {
			for i, mark := range []*regexp.Regexp{removedWords, addedWords} {
				for _, words := range mark.FindAllStringSubmatch(place.String(), -1) {
					marked[i] = append(marked[i], strings.Fields(words[1])...)
				}
			}
		}
		if !slices.Equal(marked[0], removed) || !slices.Equal(marked[1], added) {
			t.Fatalf("%v and %v:\n%q", a, b, differences(a, b))
		}
	}
}

// TestLongDifferences tests that documents without a common word are not printed as a whole.
func TestLongDifferences(t *testing.T) {
	var a, b []string
	for i := range 10_000 {
		a, b = append(a, fmt.Sprint("a", i)), append(b, fmt.Sprint("b", i))
	}
	places := differences(a, b)
	if len(places) != 1 || len(places[0].String()) > 1000 ||
		strings.Count(places[0].String(), "...(9950 words)...") != 2 ||
		!strings.HasSuffix(places[0].String(), "b9999+}") {
		t.Errorf("%.2000q", places)
	}
}

// TestPairsOfSample compares the pairs of a sample with a comparison of all pairs. The named
// pairs must be the nearest to the limits on their side, and no document may be in two of them.
func TestPairsOfSample(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 5))
	const most, documents = 8, 400
	s := NewSample()
	matches, misses := make([]int64, 4+Reach+1), make([]int64, 4+Reach+1)
	inside, outside := 0.0, 1e9
	var docs []*index.Document
	for i := range documents {
		b := draw(rng)
		b.Key = fmt.Sprint(i)
		s.Add(b, "a", int64(i))
		s.Add(b, "a", int64(i)) // equal documents count once
		for _, a := range docs {
			distance := a.Fingerprint.Distance(b.Fingerprint)
			if a.Scope != b.Scope || distance > 4+Reach {
				continue
			}
			share, _ := Documents(Of(a), Of(b), rule, 0).Nearness()
			if rule.Matches(a, b) {
				matches[distance]++
				inside = max(inside, share)
			} else {
				misses[distance]++
				outside = min(outside, share)
			}
		}
		docs = append(docs, b)
	}
	got, err := s.Pairs(t.Context(), rule, most)
	if err != nil || got.Cut || got.Seen != 2*documents || got.Documents != documents {
		t.Fatalf("%v: %d of %d, cut %v", err, got.Documents, got.Seen, got.Cut)
	}
	if !slices.Equal(got.Match, matches) || !slices.Equal(got.Miss, misses) ||
		len(got.Inside) != most || len(got.Outside) != most {
		t.Fatalf("%v and %v, want %v and %v; %d and %d named", got.Match, got.Miss, matches, misses,
			len(got.Inside), len(got.Outside))
	}
	if got.Inside[0].share != inside || got.Outside[0].share != outside {
		t.Errorf("the nearest are %v and %v, want %v and %v", got.Inside[0].share,
			got.Outside[0].share, inside, outside)
	}
	for _, pairs := range [][]Pair{got.Inside, got.Outside} {
		named := make(map[string]bool)
		for _, p := range pairs {
			named[p.A.Key], named[p.B.Key] = true, true
		}
		if len(named) != 2*most {
			t.Errorf("a document is named twice: %v", named)
		}
	}
}

// TestSampleIsBounded tests that a sample keeps the same number of documents for any input. Early
// and late documents must be equally likely, and keys must be short.
func TestSampleIsBounded(t *testing.T) {
	s := NewSample()
	const n = 4 * MaxSample
	d := index.Document{Key: strings.Repeat("k", 10*MaxKeyShown)}
	for i := range n {
		d.Fingerprint = fingerprint.Fingerprint(i)
		s.Add(&d, "", int64(i))
	}
	late := 0
	for _, d := range s.kept {
		if len(d.Key) > MaxKeyShown+3 {
			t.Fatalf("a key of %d bytes", len(d.Key))
		}
		if d.Number >= n/2 {
			late++
		}
	}
	if len(s.kept) != MaxSample || late < MaxSample*45/100 || late > MaxSample*55/100 {
		t.Errorf("%d kept, %d of the second half", len(s.kept), late)
	}
	p, err := s.Pairs(t.Context(), match.Rule{MaxDistance: 16, MaxShingleDistance: -1,
		MaxLengthRatio: -1}, 3)
	if err != nil || !p.Cut {
		t.Errorf("%v, cut: %v: all are near each other", err, p.Cut)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Pairs(ctx, rule, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
