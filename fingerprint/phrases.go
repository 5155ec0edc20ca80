package fingerprint

import (
	"fmt"
	"strings"
)

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
	var t tokenizer
	for _, phrase := range phrases {
		tokens := t.tokens(phrase)
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
