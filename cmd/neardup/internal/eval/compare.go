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
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
)

// Method is the quality, size and speed of a method that finds near-duplicates: neardup, or one
// that section 5 of the paper names.
type Method struct {
	Name             string
	BytesPerDocument float64
	MBPerSecond      float64 // of text, on one core, including the tokenizer
	Score
	Deviation Score
	Crawl     Crawl
}

// bytesPerDocument is the size of a fingerprint, a shingle signature and a length.
const bytesPerDocument = 8 + 32 + 4

// method returns the rule of the report as a method, without its speed.
func (r *Report) method() Method {
	return Method{
		Name:             fmt.Sprintf("neardup, k=%d", r.Default.Rule.MaxDistance),
		BytesPerDocument: bytesPerDocument,
		Score:            r.Default.Score, Deviation: r.Default.Deviation, Crawl: r.Crawl,
	}
}

// Compare measures the rule of a Report and other methods on the same pairs. The implementations of
// the other methods are exact but not optimized, so their speed is only a lower bound. signers are
// the signers of the documents. If a document has no text, Compare returns ErrDocuments.
func (l *Labelled) Compare(
	ctx context.Context, r *Report, signers []*page.Signer,
) ([]Method, error) {
	size := 0
	for _, d := range l.docs {
		if size += len(d.Text); d.Text == "" && !d.empty() {
			return nil, fmt.Errorf("%w: %.80q is a fingerprint; other methods need texts",
				ErrDocuments, d.ID)
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
	methods := []Method{r.method()}
	methods[0].MBPerSecond = speed(time.Since(begun))
	for _, s := range sketchers(l.docs) {
		numbers, spent := 0, time.Duration(0)
		var seeds [][][]found
		for seed := range signers {
			begun := time.Now()
			sketches := l.sketches(ctx, s.make, uint64(seed))
			spent += time.Since(begun)
			for _, sketch := range sketches {
				numbers += len(sketch)
			}
			seeds = append(seeds, l.findSketches(ctx, sketches, s.similarity, s.thresholds[0]))
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
		}
		m, threshold := l.bestMethod(seeds, s.thresholds)
		m.Name, m.MBPerSecond = s.name, speed(spent)
		if len(s.thresholds) > 1 {
			m.Name = fmt.Sprintf("%s >= %.2f", s.name, float64(threshold)/permutations)
		}
		m.BytesPerDocument = float64(s.size*numbers) / float64(max(1, len(l.docs)*len(signers)))
		methods = append(methods, m)
	}
	return methods, nil
}

// leastPrecision is the precision that the best threshold must have, if any threshold has it.
const leastPrecision = 0.98

// bestMethod returns the best threshold and its scores. It has the best F1 of all thresholds with
// leastPrecision, or of all thresholds if none has this precision.
func (l *Labelled) bestMethod(seeds [][][]found, thresholds []int) (best Method, threshold int) {
	for i, t := range thresholds {
		var scores []Score
		for _, documents := range seeds {
			scores = append(scores, l.scoreFound(documents, t))
		}
		var m Method
		m.Score, m.Deviation = meanOf(scores)
		precise, was := m.Precision >= leastPrecision, best.Precision >= leastPrecision
		if i == 0 || precise && !was || precise == was && m.F1 > best.F1 {
			best, threshold = m, t
		}
	}
	stored := make([][]bool, len(seeds))
	for seed, documents := range seeds {
		stored[seed] = crawlFound(documents, threshold)
	}
	best.Crawl = l.crawl(stored)
	return best, threshold
}

// sketch is the data that a method stores per document. An empty sketch matches no other.
type sketch []uint64

// sketcher is a method that computes and compares sketches.
type sketcher struct {
	name string
	size int // bytes per number of a sketch
	make func(tokens []string, seed uint64) sketch
	// similarity compares two sketches. They match if it is at least the threshold. Several
	// thresholds are in ascending order.
	similarity func(a, b sketch) int
	thresholds []int
}

func (l *Labelled) sketches(
	ctx context.Context, make func([]string, uint64) sketch, seed uint64,
) (all []sketch) {
	for _, d := range l.docs {
		var s sketch
		if tokens := fingerprint.Tokens(d.Text); len(tokens) > 0 && ctx.Err() == nil {
			s = make(tokens, seed)
		}
		all = append(all, s)
	}
	return all
}

// findSketches compares all pairs, as Measure does. It returns the pairs whose similarity is at
// least least.
func (l *Labelled) findSketches(
	ctx context.Context, sketches []sketch, similarity func(a, b sketch) int, least int,
) [][]found {
	all := make([][]found, len(l.docs))
	near := func(a, b sketch) bool {
		return len(a) > 0 && len(b) > 0 && ctx.Err() == nil && similarity(a, b) >= least
	}
	eachPair(l, sketches, near, func(later, earlier int) {
		all[later] = append(all[later], found{int32(earlier),
			int32(similarity(sketches[later], sketches[earlier]))})
	})
	return all
}

// scoreFound scores the pairs whose similarity is at least the threshold.
func (l *Labelled) scoreFound(documents [][]found, threshold int) Score {
	var right, wrong int64
	for later, earlier := range documents {
		for _, f := range earlier {
			if int(f.similarity) < threshold {
				continue
			}
			switch l.labels[ordered(later, int(f.earlier))].class {
			case positive:
				right++
			case negative, unlisted:
				wrong++
			}
		}
	}
	return l.score(right, wrong)
}

// sketchers returns the other methods. MinHash gets the best threshold for the documents. The other
// methods have the parameters of their publications, or the threshold with the best F1 for the
// documents of docs/quality.md.
func sketchers(docs []*Document) []sketcher {
	one := []int{1}
	var jaccards []int // from 0.5 to 1, in permutations
	for t := permutations / 2; t <= permutations; t += 4 {
		jaccards = append(jaccards, t)
	}
	return []sketcher{
		{"digest of all tokens", 8, tokenDigest, whether(equal), one},
		{"MinHash, Jaccard", 4, minHashes, agreeing, jaccards},
		{"super-shingles, 2 of 6", 8, superShingles, agreeing, []int{2}},
		{"shingles 0 mod 25, Jaccard 0.7", 8, sample,
			whether(func(a, b sketch) bool { return jaccard(a, b) >= 0.7 }), one},
		{"I-Match, idf 0.2 to 0.8", 8, iMatch(wordCounts(docs), len(docs), 0.2, 0.8),
			whether(equal), one},
		{"simhash of words, k=3", 8, simhash(slices.Clone[[]string]), whether(withinThree), one},
		{"simhash of 4 characters, k=3", 8, simhash(characters), whether(withinThree), one},
	}
}

// whether returns a similarity that is 1 if two sketches match and 0 if not.
func whether(match func(a, b sketch) bool) func(a, b sketch) int {
	return func(a, b sketch) int {
		if match(a, b) {
			return 1
		}
		return 0
	}
}

// tokenDigest returns a digest of the sequence of tokens.
func tokenDigest(tokens []string, _ uint64) sketch {
	d := digestOf(tokens)
	return sketch{binary.LittleEndian.Uint64(d[:8]), binary.LittleEndian.Uint64(d[8:])}
}

func equal(a, b sketch) bool { return slices.Equal(a, b) }

// shingles returns the rows of four tokens (Broder et al. 1997). Fewer tokens are one row.
func shingles(tokens []string) (all []string) {
	for i := range max(1, len(tokens)-4+1) {
		all = append(all, strings.Join(tokens[i:min(i+4, len(tokens))], " "))
	}
	return all
}

// hashes returns the hashes of features. Hashes of different seeds are independent.
func hashes(features []string, seed uint64) []uint64 {
	all, d := make([]uint64, len(features)), xxhash.New()
	for i, f := range features {
		d.ResetWithSeed(seed)
		d.WriteString(f)
		all[i] = d.Sum64()
	}
	return all
}

// permutations is the default number of min-hashes of datasketch.
const permutations = 128

// minHashes returns the min-hashes that datasketch stores.
func minHashes(tokens []string, seed uint64) sketch {
	return minHash(hashes(shingles(tokens), seed), permutations, seed)
}

// minHash returns n min-hashes of 32 bits of a set (Broder 1997). Each is the minimum of a strongly
// universal hash of the members (Dietzfelbinger 1996), the upper half of a·x+b.
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

func agreeing(a, b sketch) (n int) {
	for i := range a {
		if a[i] == b[i] {
			n++
		}
	}
	return n
}

// superShingles returns six hashes of 14 min-hashes each (Fetterly, Manasse and Najork 2003).
func superShingles(tokens []string, seed uint64) (s sketch) {
	const supers, each = 6, 14
	minimums := minHash(hashes(shingles(tokens), seed), supers*each, seed)
	for group := range slices.Chunk(minimums, each) {
		s = append(s, xxhash.Sum64String(fmt.Sprint(group)))
	}
	return s
}

const modulus = 25

// sample returns the hashes of shingles that are 0 modulo 25, sorted (Manber 1994, Broder et al.
// 1997).
func sample(tokens []string, seed uint64) sketch {
	s := slices.DeleteFunc(hashes(shingles(tokens), seed),
		func(h uint64) bool { return h%modulus != 0 })
	slices.Sort(s)
	return slices.Compact(s)
}

// jaccard returns the similarity of two sorted sets, of which one is not empty.
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

// wordCounts returns the number of documents that contain each word.
func wordCounts(docs []*Document) map[string]int {
	counts := make(map[string]int)
	for _, d := range docs {
		for _, word := range wordSet(fingerprint.Tokens(d.Text)) {
			counts[word]++
		}
	}
	return counts
}

// iMatch returns a function that hashes the set of words whose inverse document frequency,
// log(documents/count)/log(documents), is in a range (Chowdhury et al. 2002; Kołcz, Chowdhury and
// Alspector 2004).
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

// characters returns the rows of four characters of the text without spaces. Fewer characters are
// one row.
func characters(tokens []string) (all []string) {
	text := []rune(strings.Join(tokens, ""))
	for i := range max(1, len(text)-4+1) {
		all = append(all, string(text[i:min(i+4, len(text))]))
	}
	return all
}

// simhash returns the simhash of features weighted by frequency (Charikar 2002).
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
