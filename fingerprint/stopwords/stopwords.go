// Package stopwords has short lists of function words in some languages. A caller
// leaves them out of the tokens of package fingerprint.
package stopwords

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/neardup/neardup/fingerprint"
)

// For returns the tokens of the lists of some languages as one set. The set does not
// depend on the language of a text: with "de", it also contains the "die" of English
// texts.
func For(codes ...string) (map[string]bool, error) {
	set := make(map[string]bool)
	for _, code := range codes {
		list, ok := lists[code]
		if !ok {
			return nil, fmt.Errorf("stopwords: there is no list of %q, only of %s", code,
				strings.Join(slices.Sorted(maps.Keys(lists)), ", "))
		}
		for _, token := range fingerprint.Tokens(list) {
			set[token] = true
		}
	}
	return set, nil
}
