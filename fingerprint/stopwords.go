package fingerprint

import (
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
	var t tokenizer
	for _, w := range words {
		for _, token := range t.tokens(w) {
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

// contentName is a hash of a set of texts.
func contentName(set map[string]struct{}) string {
	texts := make([]string, 0, len(set))
	for s := range set {
		texts = append(texts, s)
	}
	slices.Sort(texts)
	return Fingerprint(xxhash.Sum64String(strings.Join(texts, "\n"))).String()
}

// tokens gives the normalised tokens of a text.
func (t *tokenizer) tokens(text string) []string {
	var l tokenList
	t.begin([]byte(text), Folded, &l)
	t.next(nil, len(text))
	t.end()
	tokens := make([]string, len(l.spans))
	for i, s := range l.spans {
		tokens[i] = string(l.at(s))
	}
	return tokens
}
