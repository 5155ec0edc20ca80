package fingerprint

import (
	"slices"
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
	streaming bool // simhash by its defaults but for Cap, ShortWords and a Hash that needs no mixing
	segment   int  // segmentSize but in tests
	pool      sync.Pool
}

// NewAnalyzer checks the options. Its errors wrap [ErrOptions].
func NewAnalyzer(o Options) (*Analyzer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &Analyzer{options: o, name: o.name(), segment: segmentSize}
	a.streaming = o.method() == MethodSimhash && o.pairs() && o.Hash != HashFNV1 && o.cap() < maxCount && o.shortWords() <= maxStreamedShortWords
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
	sc.tokenizer.begin(text, a.options.Hash)
	if a.options.method() == MethodMinHash {
		return a.minHashes(sc)
	}
	sc.textSum = Accumulator{}
	sc.shingleSum = Accumulator{}
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

	// Of the batch: hashes that count, its windows of four tokens, the first two tokens of those,
	// and how often each hash has come so far.
	counted, windows, pairs []uint64
	counts                  []uint8
	sums                    [1 << sumBits]uint8 // of tokens, see unlike
}

// keptBatch bounds what a pooled scratch keeps, in hashes.
const keptBatch = 1 << 16

// release puts scratch memory back, but for what an unusual text made large.
func (a *Analyzer) release(sc *scratch) {
	sc.tokenizer.end()
	if cap(sc.batch) > keptBatch {
		sc.batch, sc.counted, sc.windows, sc.pairs, sc.counts = nil, nil, nil, nil, nil
	}
	a.pool.Put(sc)
}

const (
	// batchSize is how many tokens, or a few more, are counted at a time. All of a Short
	// text are in one batch, up to maxStreamedShortWords with four to a word.
	batchSize             = 512
	maxStreamedShortWords = 100

	// segmentSize bounds what a text can claim: a longer one is counted in segments of so
	// many tokens, as if what came before had not been there.
	segmentSize = 1 << 20

	// wholeSize is the most bytes of a text that is one batch, unless it has very many tokens.
	wholeSize = 1 << 15
	sumBits   = 12
)

// stream is the default pipeline of MethodSimhash. It holds a batch of tokens at a time, and counts features in
// hash counters: some five times as fast as whole, which takes all options.
func (a *Analyzer) stream(sc *scratch, size int) Signature {
	begin := func() {
		// The tables are large, for few hashes to find their slot taken.
		sc.features.begin(size)
		sc.shingles.begin(2 * size)
	}
	begin()
	t := &sc.tokenizer
	atOnce := batchSize
	if size <= wholeSize {
		atOnce = max(batchSize, size/2+1)
	}
	total, inSegment := 0, 0
	for carried := 0; ; { // tokens of the batch before, for the windows that begin there
		sc.batch = t.next(sc.batch[:carried], atOnce)
		batch := sc.batch
		total += len(batch) - carried
		a.options.seedAll(batch[carried:])
		all := len(batch) == total && t.done()
		if all {
			sc.shingleShort(batch)
		}
		for rest := a.segment - inSegment; len(batch)-carried > rest; rest = a.segment {
			end := carried + rest
			a.countBatch(sc, batch[:end], carried, false)
			carried = min(end, shingleSize-1)
			batch = batch[end-carried:]
			inSegment = 0
			begin()
		}
		a.countBatch(sc, batch, carried, all && total <= a.segment)
		inSegment += len(batch) - carried
		if t.done() {
			return a.signature(sc, total, batch[carried:])
		}
		carried = copy(sc.batch, batch[max(0, len(batch)-shingleSize+1):])
	}
}

// countBatch adds the features of a batch of tokens, the carried ones of which are there for
// the windows only. A batch may be all there is.
func (a *Analyzer) countBatch(sc *scratch, batch []uint64, carried int, all bool) {
	most := uint8(a.options.cap())
	tokens := batch[carried:]
	counted, n := withLength(&sc.counted, len(tokens)), 0
	if all {
		n, tokens = sc.unlike(tokens, most)
	}
	counts := withLength(&sc.counts, len(tokens))
	sc.features.count(counts, tokens)
	for i, count := range counts {
		counted[n] = tokens[i]
		if count <= most {
			n++
		}
	}
	sc.textSum.addAll(counted[:n])
	sc.shingle(batch, true)
}

// unlike begins sc.counted with the tokens that come at most so often for sure, since no more have
// their upper bits: most do, and this costs less than to count them. It gives their number, and the others.
func (sc *scratch) unlike(tokens []uint64, most uint8) (n int, others []uint64) {
	clear(sc.sums[:])
	for _, h := range tokens {
		sum := &sc.sums[h>>(64-sumBits)]
		*sum += 1 - *sum>>countBits // no more than maxCount+1
	}
	counted, others := sc.counted[:len(tokens)], withLength(&sc.pairs, len(tokens))
	for i, h := range tokens {
		counted[n], others[i-n] = h, h
		if sc.sums[h>>(64-sumBits)] <= most {
			n++
		}
	}
	return n, others[:len(tokens)-n]
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
	a.options.seedAll(tokens)
	order := tokens // what windows are made of
	if a.options.Hash == HashFNV1 {
		order = slices.Clone(tokens)
		for i, h := range order {
			order[i] = mix(h)
		}
	}
	sc.shingleShort(order)
	for i := 0; i < len(order); i += a.segment {
		segment := order[max(0, i-shingleSize+1):min(len(order), i+a.segment)]
		sc.shingles.begin(4 * len(segment))
		sc.shingle(segment, a.options.pairs())
	}
	features := tokens
	if a.options.Window > 1 {
		features = windows(order, a.options.Window)
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
	s := Signature{sc.textSum.Fingerprint(), sc.shingleSum.Fingerprint(), total, sc.tokenizer.words() < a.options.shortWords()}
	if s.Short {
		s.Fingerprint = Fingerprint(sequenceHash(tokens))
	}
	return s
}
