package mediatype

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " Text/HTML ; charset=x": "text/html", "text/html,text/html": "text/html",
		"html": "unknown", "a/b/c": "unknown",
		"text/\x01": "unknown", "/": "unknown", "a/" + strings.Repeat("b", 100): "unknown",
		"image/svg+xml": "image/svg+xml",
	} {
		if got := Of(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// IsText ignores a character that is cut off after SniffBytes bytes.
func TestIsTextWithTruncatedCharacter(t *testing.T) {
	for _, character := range []string{"é", "漢", "𐍈"} {
		for i := range utf8.UTFMax {
			text := strings.Repeat("x", i) + strings.Repeat(character, SniffBytes)
			if !IsText([]byte(text)) {
				t.Errorf("%d bytes and %s repeated are not text", i, character)
			}
			if IsText([]byte(text[:SniffBytes-8] + "\xff" + text[SniffBytes-8:])) {
				t.Errorf("%d bytes and %s repeated, with an invalid byte, are text", i, character)
			}
		}
	}
}
