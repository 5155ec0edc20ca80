package stem

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
)

var _ fingerprint.Stemmer = (*Stemmer)(nil)

func TestStem(t *testing.T) {
	s, err := For("ru", "en", "ar", "ta")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Name(); got != "snowball-0.9.0-ar-en-ru-ta" {
		t.Errorf("Name %q", got)
	}
	for token, want := range map[string]string{
		"running": "run", "connections": "connect", "книгами": "книг", "日": "日", "2024": "2024",
		"ευχαριστώ": "ευχαριστώ", "": "", "s": "s",
		strings.Repeat("running", 40): strings.Repeat("running", 40),
	} {
		if got := string(s.Stem([]byte("x"), []byte(token))); got != "x"+want {
			t.Errorf("stem of %q after x: %q, want %q", token, got, "x"+want)
		}
	}
}

func TestFor(t *testing.T) {
	for _, codes := range [][]string{nil, {"xx"}, {"en", "de"}, {"en", "en"}, {"tr"}} {
		if _, err := For(codes...); !errors.Is(err, ErrLanguages) {
			t.Errorf("For(%q): %v", codes, err)
		}
	}
	for _, code := range Languages() {
		if _, err := For(code); err != nil {
			t.Error(err)
		}
	}
}

func TestAnalyzerWithStemmer(t *testing.T) {
	s, err := For("en")
	if err != nil {
		t.Fatal(err)
	}
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{Stemmer: s})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.Name(), s.Name()) {
		t.Errorf("%q does not name %q", a.Name(), s.Name())
	}
	if a.Text("The dogs walked home") != a.Text("the dog walks home") {
		t.Error("inflected forms differ")
	}
}

func FuzzStem(f *testing.F) {
	for _, w := range []string{"running", "fußgängerin", "книгами", "والكتاب", "மரங்கள்", "ñandúes", "y", "''"} {
		f.Add(w)
	}
	all := make([]*Stemmer, 0, len(languages))
	for _, code := range Languages() {
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
			got := s.Stem(nil, []byte(word))
			if again := s.Stem(nil, []byte(word)); string(again) != string(got) {
				t.Fatalf("%s: %q, then %q", s.Name(), got, again)
			}
			if len(got) == 0 && len(word) > 0 || !utf8.Valid(got) {
				t.Fatalf("%s: stem of %q is %q", s.Name(), word, got)
			}
		}
	})
}
