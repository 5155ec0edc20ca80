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

// Sample keeps documents of a stream, each with the same chance, and finds the pairs among them
// that are nearest to the limits of a rule. Its memory is bounded: MaxSample documents, the
// first MaxKeyShown bytes of their keys and scopes.
type Sample struct {
	seen int64
	kept []Sampled
	rng  *rand.Rand
}

const (
	// MaxSample is how many documents a Sample keeps.
	MaxSample = 50_000
	// MaxKeyShown is how many bytes of a key a Sample keeps.
	MaxKeyShown = 512
	// Reach is how many bits beyond k a Sample looks for pairs.
	Reach = 6
	// MaxPairs ends the search: a template may have as many as there are pairs of documents.
	MaxPairs = 5_000_000
)

// Sampled is a document, and where it was read.
type Sampled struct {
	Document
	Source string
	Number int64

	at int64 // in the stream
}

// NewSample makes a Sample; the same stream gives the same one.
func NewSample() *Sample { return &Sample{rng: rand.New(rand.NewPCG(1, 2))} }

// Add takes a document and the record that it is.
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
	one := Sampled{Document: *Of(d), Source: source, Number: number, at: s.seen}
	one.Key, one.Scope = clipped(one.Key), clipped(one.Scope)
	s.kept[at] = one
}

func clipped(s string) string {
	if len(s) > MaxKeyShown {
		s = s[:MaxKeyShown] + "..."
	}
	return strings.Clone(s)
}

// Pair is two documents of a Sample.
type Pair struct {
	A, B *Sampled // the earlier one first
	near float64
}

// Pairs is what a Sample has found.
type Pairs struct {
	Seen      int64 // documents that went by
	Documents int   // that were kept and are different
	Cut       bool  // there are more pairs than were looked at

	// Match and Miss are how many pairs of different documents there are at each distance, up to k + Reach.
	Match, Miss []int64

	Inside, Outside []Pair // the nearest to the limits; no document is in two
}

// Pairs compares all that were kept, and names up to most pairs on each side of the limits.
// Documents equal in all that is compared are one.
func (s *Sample) Pairs(ctx context.Context, rule match.Rule, most int) (*Pairs, error) {
	docs := slices.Clone(s.kept)
	slices.SortStableFunc(docs, func(a, b Sampled) int {
		return cmp.Or(cmp.Compare(a.Fingerprint, b.Fingerprint), slices.Compare(a.Shingles[:], b.Shingles[:]), cmp.Compare(a.Tokens, b.Tokens), strings.Compare(a.Scope, b.Scope))
	})
	docs = slices.CompactFunc(docs, func(a, b Sampled) bool { return a.signature() == b.signature() && a.Scope == b.Scope })
	reach := min(rule.MaxDistance+Reach, 64)
	p := &Pairs{Seen: s.seen, Documents: len(docs), Match: make([]int64, reach+1), Miss: make([]int64, reach+1)}
	inside, outside := nearest{most: most}, nearest{most: most, outside: true}
	for i, found := range p.near(ctx, docs) {
		for _, j := range found {
			a, b := &docs[i], &docs[j]
			if b.at < a.at {
				a, b = b, a
			}
			r := measured(&a.Document, &b.Document, rule)
			if share, _ := r.Nearness(); r.Match {
				p.Match[r.Distance]++
				inside.add(Pair{a, b, share})
			} else {
				p.Miss[r.Distance]++
				outside.add(Pair{a, b, share})
			}
		}
	}
	p.Inside, p.Outside = inside.choose(), outside.choose()
	return p, ctx.Err()
}

// near yields for each document those behind it of its scope that are within reach.
func (p *Pairs) near(ctx context.Context, docs []Sampled) func(yield func(int, []int) bool) {
	return func(yield func(int, []int) bool) {
		pairs, reach := 0, len(p.Match)-1
		var found []int
		for i := range docs {
			found = found[:0]
			for j := i + 1; j < len(docs); j++ {
				if docs[i].Fingerprint.Distance(docs[j].Fingerprint) <= reach && docs[i].Scope == docs[j].Scope {
					found = append(found, j)
				}
			}
			if pairs += len(found); pairs > MaxPairs {
				p.Cut = true
				return
			}
			if ctx.Err() != nil || !yield(i, found) {
				return
			}
		}
	}
}

// nearest keeps the pairs nearest to the limits, from one side.
type nearest struct {
	most    int
	outside bool
	pairs   []Pair
	full    bool
	last    float64 // what a pair must be nearer than, once it is full
}

func (n *nearest) add(p Pair) {
	if n.full && n.order(p.near, n.last) >= 0 {
		return
	}
	if n.pairs = append(n.pairs, p); len(n.pairs) >= 1000*n.most {
		n.sort()
		n.pairs = n.pairs[:500*n.most]
		n.full, n.last = true, n.pairs[len(n.pairs)-1].near
	}
}

// order is below 0 where a is nearer than b.
func (n *nearest) order(a, b float64) int {
	if n.outside {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(b, a)
}

func (n *nearest) sort() {
	slices.SortStableFunc(n.pairs, func(a, b Pair) int { return n.order(a.near, b.near) })
}

func (n *nearest) choose() (chosen []Pair) {
	n.sort()
	taken := make(map[*Sampled]bool)
	for _, p := range n.pairs {
		if len(chosen) < n.most && !taken[p.A] && !taken[p.B] {
			chosen = append(chosen, p)
			taken[p.A], taken[p.B] = true, true
		}
	}
	return chosen
}
