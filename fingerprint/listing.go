package fingerprint

import "bytes"

// span is a part of a tokenList's text.
type span struct{ start, end int }

// tokenList is a sequence of tokens: their texts, with a space after each, and
// their hashes. So the text of consecutive tokens is one span.
type tokenList struct {
	text   []byte
	spans  []span
	hashes []uint64
}

func (l *tokenList) reset() {
	l.text, l.spans, l.hashes = l.text[:0], l.spans[:0], l.hashes[:0]
}

func (l *tokenList) add(token []byte, hash uint64) {
	start := len(l.text)
	l.text = append(append(l.text, token...), ' ')
	l.spans = append(l.spans, span{start, len(l.text) - 1})
	l.hashes = append(l.hashes, hash)
}

// join is the span of n tokens from i on.
func (l *tokenList) join(i, n int) span { return span{l.spans[i].start, l.spans[i+n-1].end} }

func (l *tokenList) at(s span) []byte { return l.text[s.start:s.end] }

// listing holds the tokens of a whole text and its features, for the options
// that need to see a token's text or a feature's count.
type listing struct {
	raw      tokenList // as in the text
	arranged tokenList // without stop words, stemmed, with phrases in place of their words
	stem     []byte
	phrases  []feature      // besides their words
	mixed    []uint64       // hashes of the tokens that are mixed for windows, if they need it
	windows  []uint64       // hashes of the windows, if there are any
	hashes   []uint64       // of the features but for phrases
	place    map[uint64]int // feature hash -> place in distinct
	distinct []feature
}

type feature struct {
	hash  uint64
	count int
	text  []byte
}

// keptListing bounds what a pooled listing keeps, in tokens.
const keptListing = 1 << 16

// general is the pipeline for all options.
func (a *Analyzer) general(sc *scratch, text []byte) Signature {
	l, t := &sc.listed, &sc.tokens
	l.raw.reset()
	t.begin(text, a.options.Hash, &l.raw)
	for !t.done() {
		sc.batch = t.next(sc.batch[:0], batchSize)
	}
	a.options.seedAll(l.raw.hashes)
	tokens := a.arrange(l)
	l.hashes = tokens.hashes
	order := tokens.hashes // what windows are made of
	if a.options.Hash == HashFNV1 {
		l.mixed = l.mixed[:0]
		for _, h := range tokens.hashes {
			l.mixed = append(l.mixed, mix(h))
		}
		order = l.mixed
	}
	if a.options.Window > 1 {
		l.windows = windows(l.windows[:0], order, a.options.Window)
		l.hashes = l.windows
	}

	sig := Signature{
		Features: len(l.hashes) + len(l.phrases),
		Short:    t.words() < a.options.shortWords(),
	}
	if sig.Features == 0 {
		return Signature{Short: true}
	}
	sc.order.Reset()
	sc.text.Reset()
	sc.shingleShort(order, true)
	for i := 0; i < len(order); i += a.stretch {
		sc.shingles.begin(4 * min(len(order)-i, a.stretch))
		stretch := order[:min(len(order), i+a.stretch)]
		sc.shingle(stretch[max(0, i-shingleSize+1):], a.options.pairs())
	}
	sig.Shingle = sc.order.Fingerprint()
	if sig.Short {
		sig.Fingerprint = Fingerprint(sequenceHash(tokens.hashes))
		return sig
	}
	a.weigh(l, tokens, &sc.text)
	sig.Fingerprint = sc.text.Fingerprint()
	return sig
}

// arrange drops stop words, stems, and finds phrases.
func (a *Analyzer) arrange(l *listing) *tokenList {
	o := &a.options
	l.phrases = l.phrases[:0]
	if o.StopWords == nil && o.Stemmer == nil && o.Phrases == nil {
		return &l.raw
	}
	l.arranged.reset()
	after := 0 // the end of the last phrase
	for i := range l.raw.spans {
		if i < after && o.ReplacePhrases {
			continue
		}
		if n := o.Phrases.match(&l.raw, i); n > 0 && i >= after {
			after = i + n
			text := l.raw.at(l.raw.join(i, n))
			if o.ReplacePhrases {
				l.arranged.add(text, o.hash(text))
				continue
			}
			l.phrases = append(l.phrases, feature{o.hash(text), 1, text})
		}
		a.arrangeWord(l, i)
	}
	return &l.arranged
}

func (a *Analyzer) arrangeWord(l *listing, i int) {
	token, hash := l.raw.at(l.raw.spans[i]), l.raw.hashes[i]
	if a.options.StopWords.contains(token) {
		return
	}
	if s := a.options.Stemmer; s != nil {
		l.stem = s.Stem(l.stem[:0], token)
		if len(l.stem) == 0 {
			return
		}
		if !bytes.Equal(l.stem, token) {
			token, hash = l.stem, a.options.hash(l.stem)
		}
	}
	l.arranged.add(token, hash)
}

// weigh adds the features with their weights.
func (a *Analyzer) weigh(l *listing, tokens *tokenList, sum *Accumulator) {
	if a.options.Weight == Count && a.options.Weigher == nil {
		sum.addAll(l.hashes)
		for _, p := range l.phrases {
			sum.Add(p.hash, 1)
		}
		return
	}
	if l.place == nil {
		l.place = make(map[uint64]int)
	}
	clear(l.place)
	l.distinct = l.distinct[:0]
	n := min(max(a.options.Window, 1), len(tokens.spans))
	for i, h := range l.hashes {
		l.note(feature{h, 1, tokens.at(tokens.join(i, n))})
	}
	for _, p := range l.phrases {
		l.note(p)
	}
	for _, f := range l.distinct {
		sum.Add(f.hash, a.options.weight(f))
	}
}

func (l *listing) note(f feature) {
	if i, ok := l.place[f.hash]; ok {
		l.distinct[i].count++
		return
	}
	l.place[f.hash] = len(l.distinct)
	l.distinct = append(l.distinct, f)
}
