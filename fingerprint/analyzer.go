package fingerprint

import (
	"sync"
	"unsafe"
)

// Signature is what an [Analyzer] finds in a text.
//
// By MinHash both fingerprints are of sets: two texts of which a part J of all their words are in
// both have Fingerprints that differ in 32(1-J) bits on average, and their Shingles say the same
// of windows of four words.
//
// A text is Short when it has fewer than Options.ShortWords words. A run of
// letters, digits and marks is a word; in scripts written without spaces 1.5
// ideographs, 3 kana or 4 characters of South-East Asia count as one, which makes
// translations of one text about equally long. A Short text has
// too few features to tell near from far, so its Fingerprint is a
// hash of its token sequence: texts with equal tokens have equal fingerprints,
// all others are as far apart as random numbers. Its Shingle is made as always.
type Signature struct {
	// Fingerprint is the MinHash of the set of tokens or, with MethodSimhash, the simhash of
	// the features.
	Fingerprint Fingerprint

	// Shingle is the MinHash or simhash of the set of windows of four tokens (of all the
	// tokens, when there are fewer), whatever the options say of features and weights.
	Shingle Fingerprint

	// Digest identifies the sequence of all tokens. It does not depend on the options. Texts that
	// differ only in white space, punctuation, case or Unicode form have equal Digests; texts
	// with any other difference do not.
	Digest Digest

	// Tokens is the number of tokens or, with Window, of windows of them, repeats included.
	// When it is 0 there is nothing to compare, no letter or digit: both fingerprints are
	// then 0 and Short is true.
	Tokens int

	// Short says that Fingerprint is a hash of the whole, see above.
	Short bool
}

// Analyzer turns text into a [Signature]. It is safe for concurrent use; its
// scratch memory is pooled, so that a call allocates nothing in the steady state, but for
// words of 30 bytes and more that need the normalizer, and for texts of megabytes.
// With the default options scratch memory is some kB however long the text is, but for words of
// many kilobytes; with MethodSimhash it is bounded by some 50 MB, and with most other options of
// that grows with the text.
//
// The text is UTF-8. A byte that is not valid UTF-8 separates tokens, as U+FFFD does.
type Analyzer struct {
	options   Options
	name      string
	streaming bool // simhash by its defaults but for Cap and ShortWords
	segment   int  // segmentSize but in tests
	pool      sync.Pool
}

// NewAnalyzer checks the options. Its errors wrap [ErrOptions].
func NewAnalyzer(o Options) (*Analyzer, error) {
	if o.Weight == capped {
		o.Weight = ""
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &Analyzer{options: o, name: o.name(), segment: segmentSize}
	a.streaming = o.method() == MethodSimhash && o.pairs() && o.cap() < maxCount && o.shortWords() <= maxStreamedShortWords
	a.pool.New = func() any { return new(scratch) }
	return a, nil
}

// Name identifies what the Analyzer does: two Analyzers of equal name give equal
// signatures for every text. It is printable ASCII. [ParseAnalyzer] reads it.
func (a *Analyzer) Name() string { return a.name }

// Text gives the signature of a text.
func (a *Analyzer) Text(s string) Signature {
	// A view, not a copy: nothing in this package writes to a text or keeps it
	// after the call, which TestTextIsNotKept holds.
	return a.Bytes(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Bytes gives the signature of a text. It neither keeps nor changes the slice.
func (a *Analyzer) Bytes(text []byte) Signature {
	sc := a.pool.Get().(*scratch)
	defer a.release(sc)
	sc.tokenizer.begin(text)
	if a.options.method() == MethodMinHash {
		return a.minHashes(sc)
	}
	sc.textSum, sc.shingleSum = Accumulator{}, Accumulator{}
	if a.streaming {
		return a.stream(sc, len(text))
	}
	return a.whole(sc)
}

// scratch is what one call needs.
type scratch struct {
	tokenizer  tokenizer
	batch      []uint64 // hashes of some tokens
	features   hashCounter
	shingles   hashCounter
	textSum    Accumulator
	shingleSum Accumulator

	wordBins, windowBins minHash
	digest               digester

	// Of the batch: its windows of four tokens, the first two tokens of those, and how often each
	// hash has come so far.
	windows, pairs []uint64
	counts         []uint8
}

// keptBatch bounds what a pooled scratch keeps, in hashes.
const keptBatch = 1 << 16

// release puts scratch memory back, but for what an unusual text made large.
func (a *Analyzer) release(sc *scratch) {
	sc.tokenizer.end()
	if cap(sc.batch) > keptBatch {
		sc.batch, sc.windows, sc.pairs, sc.counts = nil, nil, nil, nil
	}
	a.pool.Put(sc)
}

const (
	// batchSize is how many tokens are taken at a time, or a few more. All of a Short
	// text are in one batch, up to maxStreamedShortWords with four to a word.
	batchSize             = 512
	maxStreamedShortWords = 100

	// segmentSize bounds what a text can claim: a longer one is counted in segments of so
	// many tokens, as if what came before had not been there.
	segmentSize = 1 << 20
)

// stream is the default pipeline of MethodSimhash. It holds a batch of tokens at a time, and counts features in
// hash counters: some five times as fast as whole, which takes all options.
func (a *Analyzer) stream(sc *scratch, size int) Signature {
	t := &sc.tokenizer
	total, inSegment := 0, 0
	sc.batch = sc.batch[:0]
	sc.digest.Reset()
	for carried := 0; ; { // tokens of the batch before, for the windows that begin there
		if inSegment == 0 {
			// The tables are large, for few hashes to find their slot taken.
			sc.features.begin(size)
			sc.shingles.begin(2 * size)
		}
		known := len(sc.batch) // a call of next may give more tokens than the batch takes
		sc.batch = t.next(sc.batch, carried+batchSize-known)
		sc.digest.add(sc.batch[known:])
		a.options.seedAll(sc.batch[known:])
		end := min(len(sc.batch), carried+min(batchSize, a.segment-inSegment))
		tokens := sc.batch[carried:end]
		sc.addCapped(tokens, uint8(a.options.cap()))
		sc.shingle(sc.batch[:end], true)
		total += len(tokens)
		inSegment = (inSegment + len(tokens)) % a.segment
		if end == len(sc.batch) && t.done() {
			if len(tokens) == total {
				sc.shingleShort(tokens)
			}
			return a.signature(sc, total, tokens)
		}
		carried = min(end, shingleSize-1)
		sc.batch = sc.batch[:copy(sc.batch, sc.batch[end-carried:])]
	}
}

// addCapped adds tokens to the text's sum, each at most so many times in a segment.
func (sc *scratch) addCapped(tokens []uint64, most uint8) {
	counts, counted := withLength(&sc.counts, len(tokens)), withLength(&sc.windows, len(tokens))
	sc.features.count(counts, tokens)
	n := 0
	for i, count := range counts {
		counted[n] = tokens[i]
		if count <= most {
			n++
		}
	}
	sc.textSum.addAll(counted[:n])
}

// whole is the pipeline for all options. It holds the hashes of the whole text, and counts
// features in a map.
func (a *Analyzer) whole(sc *scratch) Signature {
	t := &sc.tokenizer
	sc.batch = sc.batch[:0]
	for !t.done() {
		sc.batch = t.next(sc.batch, batchSize)
	}
	tokens := sc.batch
	sc.digest.Reset()
	sc.digest.add(tokens)
	a.options.seedAll(tokens)
	sc.shingleShort(tokens)
	for i := 0; i < len(tokens); i += a.segment {
		segment := tokens[max(0, i-shingleSize+1):min(len(tokens), i+a.segment)]
		sc.shingles.begin(4 * len(segment))
		sc.shingle(segment, a.options.pairs())
	}
	features := tokens
	if a.options.Window > 1 {
		features = windows(tokens, a.options.Window)
	}
	counts := make(map[uint64]int)
	for _, h := range features {
		counts[h]++
	}
	for h, n := range counts {
		sc.textSum.Add(h, a.options.weight(n))
	}
	return a.signature(sc, len(features), tokens)
}

// signature gives the Signature of what was added. A Short text has the given tokens.
func (a *Analyzer) signature(sc *scratch, total int, tokens []uint64) Signature {
	if total == 0 {
		return Signature{Short: true}
	}
	s := Signature{sc.textSum.Fingerprint(), sc.shingleSum.Fingerprint(), sc.digest.sum(), total, sc.tokenizer.words() < a.options.shortWords()}
	if s.Short {
		s.Fingerprint = Fingerprint(sequenceHash(tokens))
	}
	return s
}
