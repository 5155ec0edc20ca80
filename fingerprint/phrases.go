package fingerprint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// StopWords is a set of tokens to leave out. It must not be changed after the
// first use; there is no way to.
type StopWords struct {
	words map[string]struct{}
	name  string
}

// NewStopWords makes a set of the normalised tokens of the words; a word that
// is cut into several, such as "don't", gives all of them. An Analyzer's name
// identifies the set by its content.
func NewStopWords(words ...string) *StopWords {
	s := &StopWords{words: make(map[string]struct{})}
	for _, w := range words {
		for _, token := range tokensOf(w) {
			s.words[token] = struct{}{}
		}
	}
	s.name = contentName(s.words)
	return s
}

func (s *StopWords) contains(token []byte) bool {
	if s == nil {
		return false
	}
	_, ok := s.words[string(token)]
	return ok
}

func (s *StopWords) id() string { return s.name }

// Phrases is a set of sequences of two or more tokens. It is safe for concurrent use.
type Phrases struct {
	texts   map[string]struct{} // tokens with single spaces between them
	longest map[string]int      // first token -> tokens in the longest phrase that begins with it
	name    string
}

// NewPhrases makes a set of the phrases, each normalised and cut into tokens. An
// Analyzer's name identifies the set by its content. A phrase of fewer than two
// tokens is an error that wraps [ErrOptions].
func NewPhrases(phrases ...string) (*Phrases, error) {
	p := &Phrases{texts: make(map[string]struct{}), longest: make(map[string]int)}
	for _, phrase := range phrases {
		tokens := tokensOf(phrase)
		if len(tokens) < 2 {
			return nil, fmt.Errorf("%w: phrase %s has %d tokens, want at least 2", ErrOptions, quote(phrase), len(tokens))
		}
		p.texts[strings.Join(tokens, " ")] = struct{}{}
		p.longest[tokens[0]] = max(p.longest[tokens[0]], len(tokens))
	}
	p.name = contentName(p.texts)
	return p, nil
}

// match gives the number of tokens of the longest phrase that begins at token i, or 0.
func (p *Phrases) match(l *tokenList, i int) int {
	if p == nil {
		return 0
	}
	for n := min(p.longest[string(l.at(l.spans[i]))], len(l.spans)-i); n > 1; n-- {
		if _, ok := p.texts[string(l.at(l.join(i, n)))]; ok {
			return n
		}
	}
	return 0
}

func (p *Phrases) id() string { return p.name }

// contentName is a hash of a set of texts.
func contentName(set map[string]struct{}) string {
	texts := make([]string, 0, len(set))
	for s := range set {
		texts = append(texts, s)
	}
	slices.Sort(texts)
	return Fingerprint(xxhash.Sum64String(strings.Join(texts, "\n"))).String()
}

// tokensOf gives the normalised tokens of a text.
func tokensOf(text string) []string {
	var l tokenList
	var t tokenizer
	t.begin([]byte(text), XXH64, &l)
	t.next(nil, len(text))
	tokens := make([]string, len(l.spans))
	for i, s := range l.spans {
		tokens[i] = string(l.at(s))
	}
	return tokens
}
