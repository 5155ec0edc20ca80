package stem

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestStem(t *testing.T) {
	s, err := For("ru", "en", "ar", "ta")
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{
		"running": "run", "connections": "connect", "книгами": "книг", "日": "日", "2024": "2024",
		"ευχαριστώ": "ευχαριστώ", "": "", "s": "s",
		strings.Repeat("running", 40): strings.Repeat("running", 40),
	} {
		if got := s.Stem(token); got != want {
			t.Errorf("stem of %q: %q, want %q", token, got, want)
		}
	}
}

func TestFor(t *testing.T) {
	for _, codes := range [][]string{nil, {"xx"}, {"en", "de"}, {"en", "en"}, {"tr"}} {
		if _, err := For(codes...); err == nil {
			t.Errorf("For(%q): no error", codes)
		}
	}
	for _, code := range known() {
		if _, err := For(code); err != nil {
			t.Error(err)
		}
	}
}

func FuzzStem(f *testing.F) {
	for _, w := range []string{"running", "fußgängerin", "книгами", "والكتاب", "மரங்கள்",
		"ñandúes", "y", "''"} {
		f.Add(w)
	}
	all := make([]*Stemmer, 0, len(languages))
	for _, code := range known() {
		s, err := For(code)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, s)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if !utf8.ValidString(word) {
			return
		}
		for _, s := range all {
			got := s.Stem(word)
			if again := s.Stem(word); again != got {
				t.Fatalf("%s: %q, then %q", s.languages[0].code, got, again)
			}
			if got == "" && word != "" || !utf8.ValidString(got) {
				t.Fatalf("%s: stem of %q is %q", s.languages[0].code, word, got)
			}
		}
	})
}
