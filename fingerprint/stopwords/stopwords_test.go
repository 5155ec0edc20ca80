package stopwords

import (
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

func TestLists(t *testing.T) {
	if n := len(lists); n < 12 {
		t.Errorf("%d languages", n)
	}
	for code, list := range lists {
		words := strings.Fields(list)
		slices.Sort(words)
		if len(words) < 40 || len(slices.Compact(words)) != len(strings.Fields(list)) {
			t.Errorf("%s: %d words, want 40 or more without repetitions", code, len(words))
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
		t.Errorf("%q are not stop words", left)
	}
	if _, err := For("en", "xx"); err == nil {
		t.Error("no error for an unknown language")
	}
}
