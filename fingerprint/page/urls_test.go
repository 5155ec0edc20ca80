package page

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
)

var anyURL = regexp.MustCompile(
	"[A-Za-z][A-Za-z0-9+.-]*://[^\\x00- \"<>\\[\\]{}|\\\\^`\\x7f-\\x{10ffff}]|" +
		"(^|[^0-9A-Za-z])www\\.[^\\x00- \"<>\\[\\]{}|\\\\^`\\x7f-\\x{10ffff}]|\\]\\([a-z/]+\\)")

// FuzzWithoutURLs tests that the result has no URL, is a part of the text, and does not change if
// withoutURLs reads it again.
func FuzzWithoutURLs(f *testing.F) {
	for _, seed := range []string{"a http://b.c/d e", "[a](b)(c) www.d", "](](](", "a://b://c",
		"www.www.a", "x](www.a (b)", "é](é)http://é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := textWithoutURLs(text)
		if len(got) > len(text) || utf8.ValidString(text) && !subsequence(got, text) {
			t.Fatalf("%q is no part of %q", got, text)
		}
		if utf8.ValidString(text) {
			if !utf8.ValidString(got) {
				t.Fatalf("%q of %q is not UTF-8", got, text)
			}
			if found := anyURL.FindString(got); found != "" {
				t.Fatalf("%q is left in %q of %q", found, got, text)
			}
		}
		if again := textWithoutURLs(got); again != got {
			t.Fatalf("%q became %q, and that %q", text, got, again)
		}
	})
}

// TestHostileURLs tests that time is linear for texts that resemble links.
func TestHostileURLs(t *testing.T) {
	for _, fill := range []string{"](", "](a", "://", "a://", "www.", "](((", "]()", "a", ":", "[",
		"+://", "](a \"", " www.a"} {
		text := strings.Repeat(fill, (4<<20)/len(fill))
		within(t, time.Minute, func() { textWithoutURLs(text) })
	}
}

// TestURLsAreNotWords tests that URLs and link targets are not words in plain text and Markdown.
// URLs that an HTML page shows are words.
func TestURLsAreNotWords(t *testing.T) {
	words := strings.Repeat("some words of a text that is long enough and says what it says ", 9)
	linked := strings.ReplaceAll(words, "text", "[text](https://example.com/a/b \"text\")")
	for _, mode := range []TextMode{Visible, Main} {
		s := newSigner(t, mode, fingerprint.Options{})
		if got := s.Text(PlainText, "", []byte(linked)); strings.Contains(got, "example") ||
			!strings.Contains(got, "[text](  \"text\")") {
			t.Errorf("%s: %.80q", s.Name(), got)
		}
		page := []byte("<p>" + words + "https://example.com/")
		if !strings.Contains(s.Text(HTML, "", page), "https://example.com/") {
			t.Errorf("%s: the page has lost its URL", s.Name())
		}
	}
}
