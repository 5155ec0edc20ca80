package eval

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
)

// Method is how well a method of finding near-duplicates does: ours, or one of those that
// section 5 of the paper names.
type Method struct {
	Name             string  `json:"name"`
	BytesPerDocument float64 `json:"bytesPerDocument"`
	MBPerSecond      float64 `json:"mbPerSecond"` // of text, on one core, tokens included
	Score
	Deviation Score `json:"deviation"`
}

// ours is what an index keeps of a document: two fingerprints and a length.
const ours = 8 + 8 + 4

// Compare measures the rule of a Report and the other methods on the same pairs. Their
// implementations are plain: what they find is that of the method, their speed is that of a
// first version. The signers are those of the documents, for their time. All documents need
// a text, else the error is ErrDocuments.
func (l *Labelled) Compare(ctx context.Context, r *Report, signers []*page.Signer) ([]Method, error) {
	size := 0
	for _, d := range l.docs {
		if size += len(d.Text); d.Text == "" && !d.empty() {
			return nil, fmt.Errorf("%w: %.80q is a fingerprint; other methods need texts", ErrDocuments, d.ID)
		}
	}
	speed := func(spent time.Duration) float64 {
		return float64(size*len(signers)) / 1e6 / max(spent.Seconds(), 1e-9)
	}
	begun := time.Now()
	for _, s := range signers {
		for _, d := range l.docs {
			s.Analyzer().Text(d.Text)
		}
	}
	first := Method{
		Name: fmt.Sprintf("neardup, k=%d", r.Default.MaxDistance), BytesPerDocument: ours, MBPerSecond: speed(time.Since(begun)),
		Score: r.Default.Score, Deviation: r.Default.Deviation,
	}
	methods := []Method{first}
	for _, s := range sketchers(l.docs) {
		scores := make([][]Score, len(s.rules))
		numbers, spent := 0, time.Duration(0)
		for seed := range signers {
			begun := time.Now()
			sketches := l.sketches(ctx, s.make, uint64(seed))
			spent += time.Since(begun)
			for _, sketch := range sketches {
				numbers += len(sketch)
			}
			for i, rule := range s.rules {
				scores[i] = append(scores[i], l.scoreSketches(ctx, sketches, rule.near))
			}
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
		}
		for i, rule := range s.rules {
			m := Method{Name: rule.name, MBPerSecond: speed(spent)}
			m.BytesPerDocument = float64(s.size*numbers) / float64(max(1, len(l.docs)*len(signers)))
			m.Score, m.Deviation = meanOf(scores[i])
			methods = append(methods, m)
		}
	}
	return methods, nil
}

// sketch is what a method keeps of a document. An empty one, of a document of which the method
// takes nothing, is near to none.
type sketch []uint64

// sketcher is a way to make sketches, and the rules that compare them.
type sketcher struct {
	size  int // of a number, in bytes
	make  func(tokens []string, seed uint64) sketch
	rules []sketchRule
}

type sketchRule struct {
	name string
	near func(a, b sketch) bool
}

func (l *Labelled) sketches(ctx context.Context, make func([]string, uint64) sketch, seed uint64) (all []sketch) {
	for _, d := range l.docs {
		var s sketch
		if tokens := fingerprint.Tokens(d.Text); len(tokens) > 0 && ctx.Err() == nil {
			s = make(tokens, seed)
		}
		all = append(all, s)
	}
	return all
}

// scoreSketches compares all pairs, as Measure does.
func (l *Labelled) scoreSketches(ctx context.Context, sketches []sketch, near func(a, b sketch) bool) Score {
	var found, wrong atomic.Int64
	l.eachRow(func(a int) {
		if len(sketches[a]) == 0 || ctx.Err() != nil {
			return
		}
		for b, other := range sketches[:a] {
			if len(other) == 0 || !near(sketches[a], other) || !l.compared(a, b) {
				continue
			}
			switch l.labels[ordered(a, b)].class {
			case positive:
				found.Add(1)
			case negative, unlisted:
				wrong.Add(1)
			}
		}
	})
	return l.score(found.Load(), wrong.Load())
}

// sketchers are the other methods.
func sketchers(docs []*Document) []sketcher {
	words := wordCounts(docs)
	all := []sketcher{
		{8, tokenDigest, []sketchRule{{"digest of all tokens", equal}}},
		{size: 4, make: minHashes},
		{8, superShingles, []sketchRule{{"super-shingles, 2 of 6", func(a, b sketch) bool { return agreeing(a, b) >= 2 }}}},
		{size: 8, make: sample},
		{8, iMatch(words, len(docs), .1, 1), []sketchRule{{"I-Match, idf .1 to 1", equal}}},
		{8, iMatch(words, len(docs), .2, .8), []sketchRule{{"I-Match, idf .2 to .8", equal}}},
		{8, simhash(slices.Clone[[]string]), []sketchRule{{"simhash of words, k=3", withinThree}}},
		{8, simhash(shingles), []sketchRule{{"simhash of shingles, k=3", withinThree}}},
		{8, simhash(characters), []sketchRule{{"simhash of 4 characters, k=3", withinThree}}},
	}
	for _, banding := range bandings {
		t, bands, rows := banding.threshold, banding.bands, banding.rows
		all[1].rules = append(all[1].rules, sketchRule{fmt.Sprintf("MinHash LSH %.1f, %d bands of %d", t, bands, rows), func(a, b sketch) bool {
			return shareBand(a, b, bands, rows) && float64(agreeing(a, b)) >= t*permutations
		}})
		all[3].rules = append(all[3].rules, sketchRule{fmt.Sprintf("shingles 0 mod %d, Jaccard %.1f", modulus, t), func(a, b sketch) bool {
			return jaccard(a, b) >= t
		}})
	}
	return all
}

// tokenDigest is equal for equal tokens only.
func tokenDigest(tokens []string, _ uint64) sketch {
	d := digestOf(tokens)
	return sketch{binary.LittleEndian.Uint64(d[:8]), binary.LittleEndian.Uint64(d[8:])}
}

func equal(a, b sketch) bool { return slices.Equal(a, b) }

// shingles are the rows of four tokens (Broder et al. 1997); fewer are one.
func shingles(tokens []string) (all []string) {
	for i := range max(1, len(tokens)-4+1) {
		all = append(all, strings.Join(tokens[i:min(i+4, len(tokens))], " "))
	}
	return all
}

// hashes of features; those of different seeds have nothing to do with each other.
func hashes(features []string, seed uint64) []uint64 {
	all, d := make([]uint64, len(features)), xxhash.New()
	for i, f := range features {
		d.ResetWithSeed(seed)
		d.WriteString(f)
		all[i] = d.Sum64()
	}
	return all
}

// permutations is how many min-hashes datasketch makes by default.
const permutations = 128

// bandings are what datasketch chooses for so many permutations: for a threshold, the least sum of the
// areas of false positives below it and of false negatives above.
var bandings = []struct {
	threshold   float64
	bands, rows int
}{{.5, 25, 5}, {.6, 18, 7}, {.7, 14, 9}, {.8, 9, 13}}

// minHashes are what MinHash with LSH keeps, as datasketch does.
func minHashes(tokens []string, seed uint64) sketch {
	return minHash(hashes(shingles(tokens), seed), permutations, seed)
}

// minHash makes n min-hashes of 32 bits of a set (Broder 1997), each the least of a strongly
// universal hash of its members (Dietzfelbinger 1996): the upper half of a·x+b.
func minHash(set []uint64, n int, seed uint64) sketch {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	least := make(sketch, n)
	for i := range least {
		a, b := rng.Uint64(), rng.Uint64()
		least[i] = math.MaxUint32
		for _, x := range set {
			least[i] = min(least[i], (a*(x>>32)+b)>>32)
		}
	}
	return least
}

// shareBand reports whether two documents meet in LSH: all rows of a band are equal.
func shareBand(a, b sketch, bands, rows int) bool {
	for i := range bands {
		if slices.Equal(a[i*rows:(i+1)*rows], b[i*rows:(i+1)*rows]) {
			return true
		}
	}
	return false
}

func agreeing(a, b sketch) (n int) {
	for i := range a {
		if a[i] == b[i] {
			n++
		}
	}
	return n
}

// superShingles are six hashes of 14 min-hashes each (Fetterly, Manasse and Najork 2003, after
// Broder).
func superShingles(tokens []string, seed uint64) (s sketch) {
	const supers, each = 6, 14
	for group := range slices.Chunk(minHash(hashes(shingles(tokens), seed), supers*each, seed), each) {
		s = append(s, xxhash.Sum64String(fmt.Sprint(group)))
	}
	return s
}

const modulus = 25

// sample is of the shingles whose hash is 0 modulo 25, in order (Manber 1994, Broder et al. 1997).
func sample(tokens []string, seed uint64) sketch {
	s := slices.DeleteFunc(hashes(shingles(tokens), seed), func(h uint64) bool { return h%modulus != 0 })
	slices.Sort(s)
	return slices.Compact(s)
}

// jaccard is the similarity of two sorted sets, not both empty.
func jaccard(a, b sketch) float64 {
	both, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch order := cmp.Compare(a[i], b[j]); {
		case order == 0:
			both, i, j = both+1, i+1, j+1
		case order < 0:
			i++
		default:
			j++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

func wordSet(tokens []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(tokens)))
}

// wordCounts says how many documents have a word.
func wordCounts(docs []*Document) map[string]int {
	counts := make(map[string]int)
	for _, d := range docs {
		for _, word := range wordSet(fingerprint.Tokens(d.Text)) {
			counts[word]++
		}
	}
	return counts
}

// iMatch is a digest of the set of words of which the inverse document frequency among so many
// documents, log(documents/count)/log(documents), is in a range (Chowdhury et al. 2002; Kołcz,
// Chowdhury and Alspector 2004).
func iMatch(counts map[string]int, documents int, from, to float64) func([]string, uint64) sketch {
	return func(tokens []string, seed uint64) sketch {
		kept := slices.DeleteFunc(wordSet(tokens), func(word string) bool {
			idf := 1 - math.Log(float64(counts[word]))/math.Log(float64(documents))
			return idf < from || idf > to
		})
		if len(kept) == 0 {
			return nil
		}
		return tokenDigest(kept, seed)
	}
}

// characters are the rows of four characters of the words, without spaces; fewer are one.
func characters(tokens []string) (all []string) {
	text := []rune(strings.Join(tokens, ""))
	for i := range max(1, len(text)-4+1) {
		all = append(all, string(text[i:min(i+4, len(text))]))
	}
	return all
}

// simhash is that of Charikar (2002): each feature as often as it comes.
func simhash(features func(tokens []string) []string) func([]string, uint64) sketch {
	return func(tokens []string, seed uint64) sketch {
		var sum fingerprint.Accumulator
		for _, h := range hashes(features(tokens), seed) {
			sum.Add(h, 1)
		}
		return sketch{uint64(sum.Fingerprint())}
	}
}

func withinThree(a, b sketch) bool { return bits.OnesCount64(a[0]^b[0]) <= 3 }
