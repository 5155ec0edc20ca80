package stopwords

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
)

func TestLists(t *testing.T) {
	if n := len(lists); n < 12 {
		t.Errorf("%d languages", n)
	}
	for code, list := range lists {
		words := strings.Fields(list)
		if len(words) < 40 || len(words) > 200 {
			t.Errorf("%s: %d words", code, len(words))
		}
		slices.Sort(words)
		for i, w := range words {
			if i > 0 && w == words[i-1] {
				t.Errorf("%s: %q is there twice", code, w)
			}
			if utf8.RuneCountInString(w) > 9 {
				t.Errorf("%s: %q is long for a function word", code, w)
			}
		}
	}
}

func TestFor(t *testing.T) {
	stop, err := For("en", "ru")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, token := range fingerprint.Tokens("The house and THE garden, но не сад") {
		if !stop[token] {
			left = append(left, token)
		}
	}
	if !slices.Equal(left, []string{"house", "garden", "сад"}) {
		t.Errorf("left are %q", left)
	}
	if _, err := For("en", "xx"); err == nil {
		t.Error("no error for an unknown language")
	}
}
