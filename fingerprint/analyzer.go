package fingerprint

import (
	"sync"
	"unsafe"
)

// Signature is the result of an [Analyzer] for a text.
//
// With MethodMinHash, both Fingerprint and Shingles are MinHashes of sets. If two texts have a
// Jaccard similarity J of their sets of words, their Fingerprints differ in 32(1-J) bits on
// average.
//
// A text is Short if it has fewer than 5 words, or 50 with MethodSimhash. A word is a run of
// letters, digits and marks. In scripts without spaces, 1.5 ideographs, 3 kana or 4 characters of
// South-East Asia count as one word, so that translations of a text are about equally long. A Short
// text has too few features for a comparison by distance. Its Fingerprint is therefore a hash of
// its token sequence: texts with equal tokens have equal Fingerprints, and other texts differ in 32
// bits on average. Shingles are computed as for other texts.
type Signature struct {
	// Fingerprint is the MinHash of the set of tokens or, with MethodSimhash, the simhash of the
	// features.
	Fingerprint Fingerprint

	// Shingles is the MinHash of the pairs of consecutive tokens, with either method. A text of one
	// token has one shingle, this token.
	Shingles ShingleSignature

	// Digest identifies the sequence of all tokens. It does not depend on the options. Texts that
	// differ only in white space, punctuation, case or Unicode form have equal Digests; texts
	// with any other difference do not.
	Digest Digest

	// Tokens is the number of tokens. It is 0 if the text has no letter or digit. All other
	// fields are 0 then, and Short is true.
	Tokens int

	// Short reports whether Fingerprint is a hash of the token sequence.
	Short bool
}

// Analyzer computes the [Signature] of a text. It is safe for concurrent use.
//
// Scratch memory is pooled. With MethodMinHash it is a few kB, except for words of many kB. A
// call usually allocates nothing. It allocates for words of 30 bytes and more that need the
// normalizer. With MethodSimhash, scratch memory is 24 bytes per token.
//
// The text is UTF-8. A byte that is not valid UTF-8 separates tokens, as U+FFFD does.
type Analyzer struct {
	options Options
	name    string
	pool    sync.Pool
}

// NewAnalyzer checks the options. Its errors wrap [ErrOptions].
func NewAnalyzer(o Options) (*Analyzer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &Analyzer{options: o, name: o.name()}
	a.pool.New = func() any { return new(scratch) }
	return a, nil
}

// Name identifies the version and the options: two Analyzers with equal names return equal
// Signatures for every text. The name is printable ASCII. [ParseAnalyzer] reads it.
func (a *Analyzer) Name() string { return a.name }

// Text returns the Signature of a text.
func (a *Analyzer) Text(s string) Signature {
	// A view, not a copy: nothing in this package writes to a text or keeps it
	// after the call, which TestConcurrentUse checks.
	return a.Bytes(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Bytes returns the Signature of a text. It neither keeps nor changes the slice.
func (a *Analyzer) Bytes(text []byte) Signature {
	sc := a.pool.Get().(*scratch)
	defer a.release(sc)
	sc.tokenizer.begin(text)
	sc.digest.Reset()
	if a.options.Method == MethodSimhash {
		return a.simhashes(sc)
	}
	return a.minHashes(sc)
}

// scratch is the memory of one call.
type scratch struct {
	tokenizer tokenizer
	digest    digester
	batch     []uint64 // hashes of tokens

	words    minHash
	shingles shingleBins
}

const (
	// batchSize is the minimum number of new tokens in a batch, except in the last batch.
	batchSize = 512

	// keptBatch is the largest number of hashes that a pooled scratch keeps.
	keptBatch = 1 << 16
)

// release returns sc to the pool, without buffers that an unusual text made large.
func (a *Analyzer) release(sc *scratch) {
	sc.tokenizer.end()
	if cap(sc.batch) > keptBatch {
		sc.batch = nil
	}
	a.pool.Put(sc)
}

// minHashes returns the Signature with MethodMinHash. One batch of tokens is in memory at a time.
func (a *Analyzer) minHashes(sc *scratch) Signature {
	sc.words.reset()
	sc.shingles.reset()
	t := &sc.tokenizer
	total := 0
	for carried := 0; ; { // the last token is carried to the next batch, for its first shingle
		sc.batch = t.next(sc.batch[:carried], batchSize)
		batch := sc.batch
		tokens := batch[carried:]
		sc.digest.add(tokens) // before seedAll: the digest does not depend on the options
		a.options.seedAll(tokens)
		total += len(tokens)
		addTokens(&sc.words, &sc.shingles, batch, carried)
		if t.done() {
			break
		}
		carried = copy(sc.batch, batch[max(0, len(batch)-1):])
	}
	return a.signature(sc, total, sc.words.fingerprint)
}

// simhashes returns the Signature with MethodSimhash.
func (a *Analyzer) simhashes(sc *scratch) Signature {
	sc.shingles.reset()
	t := &sc.tokenizer
	sc.batch = sc.batch[:0]
	for !t.done() {
		sc.batch = t.next(sc.batch, batchSize)
	}
	tokens := sc.batch
	sc.digest.add(tokens)
	a.options.seedAll(tokens)
	addTokens(&sc.words, &sc.shingles, tokens, 0)
	return a.signature(sc, len(tokens), func() Fingerprint {
		return simhash(windows(tokens, max(a.options.Window, 1)))
	})
}

// signature returns the Signature of a text with total tokens, of which the last are in sc.batch.
// fingerprint returns the Fingerprint of a text that is not Short.
func (a *Analyzer) signature(sc *scratch, total int, fingerprint func() Fingerprint) Signature {
	if total == 0 {
		return Signature{Short: true}
	}
	if total == 1 { // the only shingle
		sc.shingles.add(sc.batch[0])
	}
	s := Signature{Shingles: sc.shingles.signature(), Digest: sc.digest.sum(), Tokens: total}
	if s.Short = sc.tokenizer.words() < a.options.shortWords(); s.Short {
		s.Fingerprint = sequenceHash(sc.batch) // a Short text has one batch
	} else {
		s.Fingerprint = fingerprint()
	}
	return s
}

// simhash returns the simhash of features, each weighted by its frequency.
func simhash(features []uint64) Fingerprint {
	var sum Accumulator
	for _, h := range features {
		sum.Add(h, 1)
	}
	return sum.Fingerprint()
}
