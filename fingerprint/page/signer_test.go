package page

import (
	"errors"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

func newSigner(t *testing.T, mode TextMode, o fingerprint.Options) *Signer {
	t.Helper()
	s, err := NewSigner(mode, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readDocument returns the kind and the text of a document after its Content-Type, or the error.
func readDocument(t *testing.T, document string) []string {
	contentType, body, _ := strings.Cut(document, " ")
	contentType = strings.TrimPrefix(contentType, "-")
	s := newSigner(t, Visible, fingerprint.Options{})
	kind, err := KindOf(contentType, []byte(body))
	signature, again := s.Sign(contentType, []byte(body))
	if err != nil {
		if !errors.Is(again, ErrNotText) || again.Error() != err.Error() {
			t.Errorf("Sign: %v", again)
		}
		return []string{err.Error()}
	}
	text := s.Text(kind, contentType, []byte(body))
	if signature != s.analyzer.Text(text) || again != nil {
		t.Errorf("Sign of %q: %+v, %v", text, signature, again)
	}
	return []string{[]string{"unknown", "HTML", "plain text"}[kind], text}
}

// TestParseSigner tests that a Signer made from a name has that name.
func TestParseSigner(t *testing.T) {
	body := []byte("<nav>menu</nav><p>" + strings.Repeat(
		"some words of a page that is long enough and says what it says ", 20))
	for _, mode := range []TextMode{Visible, Main} {
		for _, o := range []fingerprint.Options{
			{}, {Seed: 0xabcdef}, {Method: fingerprint.MethodSimhash},
			{Method: fingerprint.MethodSimhash, Window: 3, Seed: 7},
		} {
			s := newSigner(t, mode, o)
			again, err := ParseSigner(s.Name())
			if err != nil {
				t.Errorf("%s: %v", s.Name(), err)
				continue
			}
			if again.Name() != s.Name() ||
				again.SignKind(HTML, "", body) != s.SignKind(HTML, "", body) {
				t.Errorf("ParseSigner(%s) returns %s", s.Name(), again.Name())
			}
		}
	}
	name := newSigner(t, Visible, fingerprint.Options{}).Name()
	text, analyzer, _ := strings.Cut(name, " ")
	for _, name := range []string{
		"", text, "visible/3 " + analyzer, text + " text/0", text + "+urls",
		text + "+urls+urls " + analyzer, name + " ", name + " seed=x", name + " cap=100",
		name + " weight=heavy",
		name + " stop=0123456789abcdef", name + " hash=fnv1", text + "  " + analyzer,
		name + " short=x", name + " window=-1",
	} {
		if s, err := ParseSigner(name); err == nil {
			t.Errorf("%q was read as %s", name, s.Name())
		}
	}
	if _, err := NewSigner(9, fingerprint.Options{}); err == nil {
		t.Error("no error for an unknown text mode")
	}
}
