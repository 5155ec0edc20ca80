package mediatype

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " Text/HTML ; charset=x": "text/html", "text/html,text/html": "text/html", "html": "unknown", "a/b/c": "unknown",
		"text/\x01": "unknown", "/": "unknown", "a/" + strings.Repeat("b", 100): "unknown", "image/svg+xml": "image/svg+xml",
	} {
		if got := Of(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
