// Package stopwords has short lists of function words in some languages, to be left
// out of the tokens of package fingerprint.
package stopwords

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/neardup/neardup/fingerprint"
)

// ErrLanguage is what For wraps when there is no list.
var ErrLanguage = errors.New("no stop words for that language")

// languages gives the codes that there are lists for (ISO 639-1), sorted.
func languages() []string { return slices.Sorted(maps.Keys(lists)) }

// words gives the list of a language. The error wraps [ErrLanguage].
func words(code string) ([]string, error) {
	list, ok := lists[code]
	if !ok {
		return nil, fmt.Errorf("%w: %q is none of %s", ErrLanguage, code, strings.Join(languages(), ", "))
	}
	return strings.Fields(list), nil
}

// For gives the tokens of the lists of some languages as one set. A word goes wherever it
// stands, whatever the language of the text: "die" in English too, with "de" in
// the set. The error wraps [ErrLanguage].
func For(codes ...string) (map[string]bool, error) {
	set := make(map[string]bool)
	for _, code := range codes {
		words, err := words(code)
		if err != nil {
			return nil, err
		}
		for _, token := range fingerprint.Tokens(strings.Join(words, " ")) {
			set[token] = true
		}
	}
	return set, nil
}
