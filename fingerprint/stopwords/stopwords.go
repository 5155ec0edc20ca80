// Package stopwords has short lists of function words in some languages. A caller can remove them
// from the tokens of package fingerprint.
package stopwords

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/neardup/neardup/fingerprint"
)

// For returns the tokens of the lists of the given languages (ISO 639-1) as one set. Words of
// different languages may be equal: the set of "de" contains "die", which is also an English verb.
// An unknown language is an error.
func For(codes ...string) (map[string]bool, error) {
	set := make(map[string]bool)
	for _, code := range codes {
		list, ok := lists[code]
		if !ok {
			return nil, fmt.Errorf("stopwords: unknown language %q: want one of %s", code,
				strings.Join(slices.Sorted(maps.Keys(lists)), ", "))
		}
		for _, token := range fingerprint.Tokens(list) {
			set[token] = true
		}
	}
	return set, nil
}
