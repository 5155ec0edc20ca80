package fingerprint

import (
	"slices"
	"sync"
	"unsafe"
)

// Signature is what an [Analyzer] finds in a text.
//
// A text is Short when it has fewer than Options.ShortWords words. A run of
// letters, digits and marks is a word; in scripts written without spaces 1.5
// ideographs, 3 kana or 4 characters of South-East Asia count as one, which makes
// translations of one text about equally long. A Short text has
// too few features for a simhash to tell near from far, so its Fingerprint is a
// hash of its token sequence: texts with equal tokens have equal fingerprints,
// all others are as far apart as random numbers. Its Shingle is made as always.
type Signature struct {
	// Fingerprint is the simhash of the features.
	Fingerprint Fingerprint

	// Shingle is the simhash of the set of windows of four tokens (of all the tokens,
	// when there are fewer), each with weight 1, whatever the options say of features
	// and weights.
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
// words of 30 bytes and more that need the normaliser.
// With the default options scratch memory is bounded however long the text is
// (some 50 MB; a few hundred kB for usual pages), but for words of many
// kilobytes; with most others it grows with the text.
//
// The text is UTF-8. A byte that is not valid UTF-8 separates tokens, as U+FFFD does.
type Analyzer struct {
	options Options
	name    string
	plain   bool // the default pipeline but for Cap, ShortWords and a Hash that needs no mixing
	stretch int
	pool    sync.Pool
}

// NewAnalyzer checks the options. Its errors wrap [ErrOptions].
func NewAnalyzer(o Options) (*Analyzer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &Analyzer{options: o, name: o.name(), stretch: stretchSize}
	a.plain = o.pairs() && o.Hash != HashFNV1 && o.cap() < countMask && o.shortWords() <= maxPlainShortWords
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
	if a.plain {
		return a.defaultPath(sc, text)
	}
	return a.configurable(sc, text)
}

// scratch is what one call needs.
type scratch struct {
	tokens   tokenizer
	batch    []uint64 // hashes of some tokens
	windows  []uint64 // hashes of their windows
	pairs    []uint64 // and of the first two tokens of those
	taken    int      // tokens of this stretch so far
	features hashCounter
	shingles hashCounter
	counted  []uint64 // hashes that count
	places   []int32  // of windows that are new
	text     Accumulator
	order    Accumulator // of the Shingle
}

// keptWindows bounds what a pooled scratch keeps, in windows.
const keptWindows = 1 << 16

// release puts scratch memory back, but for what an unusual text made large.
func (a *Analyzer) release(sc *scratch) {
	sc.tokens.end()
	sc.features.trim()
	sc.shingles.trim()
	if cap(sc.batch) > 16*chunkSize || cap(sc.windows) > keptWindows {
		sc.batch, sc.windows, sc.pairs = nil, nil, nil
	}
	a.pool.Put(sc)
}

// What follows is for the default pipeline.
const (
	// batchSize is how many tokens, or a few more, are counted at a time. All of a Short
	// text are in one batch, up to maxPlainShortWords with four to a word.
	batchSize          = 512
	maxPlainShortWords = 100

	// stretchSize bounds what a text can claim: a longer one is counted in stretches of so
	// many tokens, as if what came before had not been there.
	stretchSize = 1 << 20
)

// defaultPath is the default pipeline. Nothing needs a token's text, so a token is its
// hash from the tokenizer on.
func (a *Analyzer) defaultPath(sc *scratch, text []byte) Signature {
	sc.text.Reset()
	sc.order.Reset()
	sc.begin(len(text))
	t := &sc.tokens
	t.begin(text, a.options.Hash)

	total, carried := 0, 0 // carried: tokens of the batch before, for the windows that begin there
	for {
		batch := t.next(sc.batch[:carried], batchSize)
		sc.batch = batch
		total += len(batch) - carried
		a.options.seedAll(batch[carried:])
		sc.shingleShort(batch, total == len(batch) && t.done())
		a.take(sc, batch, carried, len(text))
		if t.done() {
			break
		}
		carried = copy(batch, batch[max(0, len(batch)-shingleSize+1):])
	}

	sig := Signature{Tokens: total, Short: t.words() < a.options.shortWords()}
	if total == 0 {
		return Signature{Short: true}
	}
	sig.Shingle = sc.order.Fingerprint()
	if sig.Short {
		sig.Fingerprint = Fingerprint(sequenceHash(sc.batch[carried:]))
	} else {
		sig.Fingerprint = sc.text.Fingerprint()
	}
	return sig
}

// begin empties the tables for a new stretch of a text of so many bytes. They are
// large, for few hashes to find their slot taken, but within the caches.
func (sc *scratch) begin(size int) {
	sc.taken = 0
	sc.features.begin(min(size, largeText))
	sc.shingles.begin(2 * min(size, largeText))
}

// largeText is from how many bytes on the tables grow with what is in them.
const largeText = 1 << 16

// take counts a batch of tokens, the carried ones of which are there for the windows
// only.
func (a *Analyzer) take(sc *scratch, batch []uint64, carried, size int) {
	for {
		end := min(len(batch), carried+a.stretch-sc.taken)
		sc.counted = sc.features.addAll(sc.counted[:0], batch[carried:end], uint64(a.options.cap()))
		sc.text.addAll(sc.counted)
		sc.shingle(batch[:end], true)
		sc.taken += end - carried
		if end == len(batch) {
			return
		}
		from := max(0, end-shingleSize+1)
		batch, carried = batch[from:], end-from
		sc.begin(size)
	}
}

// configurable is the pipeline for all options. It holds the hashes of the whole text, and
// counts features in a map.
func (a *Analyzer) configurable(sc *scratch, text []byte) Signature {
	t := &sc.tokens
	t.begin(text, a.options.Hash)
	sc.batch = sc.batch[:0]
	for !t.done() {
		sc.batch = t.next(sc.batch, batchSize)
	}
	tokens := sc.batch
	if len(tokens) == 0 {
		return Signature{Short: true}
	}
	a.options.seedAll(tokens)
	order := tokens // what windows are made of
	if a.options.Hash == HashFNV1 {
		order = slices.Clone(tokens)
		for i, h := range order {
			order[i] = mix(h)
		}
	}
	features := tokens
	if a.options.Window > 1 {
		features = windows(nil, order, a.options.Window)
	}

	sc.order.Reset()
	sc.text.Reset()
	sc.shingleShort(order, true)
	for i := 0; i < len(order); i += a.stretch {
		sc.shingles.begin(4 * min(len(order)-i, a.stretch))
		stretch := order[:min(len(order), i+a.stretch)]
		sc.shingle(stretch[max(0, i-shingleSize+1):], a.options.pairs())
	}
	sig := Signature{Shingle: sc.order.Fingerprint(), Tokens: len(features), Short: t.words() < a.options.shortWords()}
	if sig.Short {
		sig.Fingerprint = Fingerprint(sequenceHash(tokens))
		return sig
	}
	counts := make(map[uint64]int)
	for _, h := range features {
		counts[h]++
	}
	for h, n := range counts {
		sc.text.Add(h, a.options.weight(n))
	}
	sig.Fingerprint = sc.text.Fingerprint()
	return sig
}
