package compare

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
)

// Sample keeps documents of a stream, each with the same probability. It finds the pairs of them
// that are nearest to the limits of a rule. Its memory is bounded: it keeps up to MaxSample
// documents, and up to MaxKeyShown bytes of a key or scope.
type Sample struct {
	seen int64
	kept []Sampled
	rng  *rand.Rand
}

const (
	// MaxSample is the number of documents that a Sample keeps.
	MaxSample = 50_000
	// MaxKeyShown is the number of bytes of a key that a Sample keeps.
	MaxKeyShown = 512
	// Reach is the number of bits beyond k within which a Sample looks for pairs.
	Reach = 6
	// MaxPairs is the number of pairs that ends the search, since all documents of a template can
	// be near each other.
	MaxPairs = 5_000_000
)

// Sampled is a document and its position.
type Sampled struct {
	Document
	Source string
	Number int64

	at int64 // in the stream
}

// NewSample returns an empty Sample. The samples of equal streams are equal.
func NewSample() *Sample { return &Sample{rng: rand.New(rand.NewPCG(1, 2))} }

// Add adds a document of the stream, with the file and number of its record.
func (s *Sample) Add(d *index.Document, source string, number int64) {
	s.seen++
	at := int64(len(s.kept))
	if at == MaxSample {
		if at = s.rng.Int64N(s.seen); at >= MaxSample {
			return
		}
	} else {
		s.kept = append(s.kept, Sampled{})
	}
	sampled := Sampled{Document: *Of(d), Source: source, Number: number, at: s.seen}
	sampled.Key, sampled.Scope = clipped(sampled.Key), clipped(sampled.Scope)
	s.kept[at] = sampled
}

// clipped returns a copy of at most the first MaxKeyShown bytes of s.
func clipped(s string) string {
	if len(s) > MaxKeyShown {
		s = s[:MaxKeyShown] + "..."
	}
	return strings.Clone(s)
}

// Pair is two documents of a Sample.
type Pair struct {
	A, B  *Sampled // the earlier one first
	share float64  // of the limit to which they are nearest
}

// Pairs is the result of Sample.Pairs.
type Pairs struct {
	Seen      int64 // documents of the stream
	Documents int   // different documents of the Sample
	Cut       bool  // the search ended at MaxPairs

	// Match and Miss are the numbers of pairs of different documents at each distance, up to k +
	// Reach.
	Match, Miss []int64

	Inside, Outside []Pair // the pairs nearest to the limits; no document is in two of them
}

// Pairs compares all documents of the Sample, and returns up to most pairs on each side of the
// limits. Documents that are equal in all compared fields count as one.
func (s *Sample) Pairs(ctx context.Context, rule match.Rule, most int) (*Pairs, error) {
	docs := slices.Clone(s.kept)
	slices.SortStableFunc(docs, func(a, b Sampled) int {
		return cmp.Or(cmp.Compare(a.Fingerprint, b.Fingerprint),
			slices.Compare(a.Shingles[:], b.Shingles[:]), cmp.Compare(a.Tokens, b.Tokens),
			strings.Compare(a.Scope, b.Scope))
	})
	docs = slices.CompactFunc(docs, func(a, b Sampled) bool {
		return a.signature() == b.signature() && a.Scope == b.Scope
	})
	reach := min(rule.MaxDistance+Reach, 64)
	p := &Pairs{Seen: s.seen, Documents: len(docs), Match: make([]int64, reach+1),
		Miss: make([]int64, reach+1)}
	pairs := 0
	var inside, outside []Pair
	for i := range docs {
		for j := i + 1; j < len(docs) && !p.Cut; j++ {
			a, b := &docs[i], &docs[j]
			if a.Fingerprint.Distance(b.Fingerprint) > reach || a.Scope != b.Scope {
				continue
			}
			if b.at < a.at {
				a, b = b, a
			}
			r := measured(&a.Document, &b.Document, rule)
			if share, _ := r.Nearness(); r.Match {
				p.Match[r.Distance]++
				inside = nearest(append(inside, Pair{a, b, share}), -1)
			} else {
				p.Miss[r.Distance]++
				outside = nearest(append(outside, Pair{a, b, share}), 1)
			}
			pairs++
			p.Cut = pairs == MaxPairs
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	p.Inside, p.Outside = chosen(inside, -1, most), chosen(outside, 1, most)
	return p, nil
}

// maxNearest is the number of pairs that are kept on each side of the limits.
const maxNearest = 10_000

// nearest drops the pairs that are far from the limits, if pairs is long. sign is 1 if pairs with a
// small share are near, and -1 if pairs with a large share are near.
func nearest(pairs []Pair, sign float64) []Pair {
	if len(pairs) < 2*maxNearest {
		return pairs
	}
	sortPairs(pairs, sign)
	return pairs[:maxNearest]
}

func sortPairs(pairs []Pair, sign float64) {
	slices.SortStableFunc(pairs, func(a, b Pair) int {
		return cmp.Compare(sign*a.share, sign*b.share)
	})
}

// chosen returns the pairs nearest to the limits, each document once.
func chosen(pairs []Pair, sign float64, most int) (chosen []Pair) {
	sortPairs(pairs, sign)
	taken := make(map[*Sampled]bool)
	for _, p := range pairs {
		if len(chosen) < most && !taken[p.A] && !taken[p.B] {
			chosen = append(chosen, p)
			taken[p.A], taken[p.B] = true, true
		}
	}
	return chosen
}
