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

const png = "\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00"

// TestSign tests that the same words have one signature as HTML, as XHTML and as plain text. For
// other documents the error must name the media type. A document without words has 0 Tokens.
func TestSign(t *testing.T) {
	s := newSigner(t, Visible, fingerprint.Options{})
	const words = "<The> ferry leaves at nine & at noon &amp; & not at five or so."
	want := s.analyzer.Text("<The> ferry leaves at nine & at noon & & not at five or so.")
	plain := s.analyzer.Text(words)
	page := "<html><body><script>no</script><p>&lt;The> ferry <b>leaves</b> at nine & at noon " +
		"&amp; & not at five or so.</body></html>"
	for _, test := range []struct {
		contentType, body string
		want              fingerprint.Signature
		media             string // media type in the error
	}{
		{"text/html; charset=utf-8", page, want, ""},
		{"TEXT/HTML", page, want, ""},
		{"application/xhtml+xml", "<?xml version='1.0'?>" + page, want, ""},
		{"", "<!DOCTYPE html>" + page, want, ""},
		{"application/octet-stream", "<?xml version='1.0'?>" + page, want, ""},
		{"text/plain", words, plain, ""},
		{"text/markdown; charset=utf-8", words, plain, ""},
		{"", words, plain, ""},
		// <The> is a tag
		{"text/html", words, s.analyzer.Text(
			"ferry leaves at nine & at noon & & not at five or so."), ""},
		{"text/html", "<script>app()</script><div id=root></div>",
			fingerprint.Signature{Short: true}, ""},
		{"text/plain", "", fingerprint.Signature{Short: true}, ""},
		{"image/png", png, fingerprint.Signature{}, "image/png"},
		{"text/html", png, fingerprint.Signature{}, "image/png"},
		{"text/plain", "%PDF-1.7\n", fingerprint.Signature{}, "application/pdf"},
		{"application/json", "{}", fingerprint.Signature{}, "application/json"},
		{"", png, fingerprint.Signature{}, "image/png"},
	} {
		got, err := s.Sign(test.contentType, []byte(test.body))
		if got != test.want {
			t.Errorf("%s %.30q: %+v, want %+v", test.contentType, test.body, got, test.want)
		}
		if test.media == "" && err != nil || test.media != "" &&
			(!errors.Is(err, ErrNotText) || !strings.HasSuffix(err.Error(), test.media)) {
			t.Errorf("%s %.30q: error %v, want one of %q", test.contentType, test.body,
				err, test.media)
		}
	}
}

func TestKindOfHeaderAlone(t *testing.T) {
	for contentType, want := range map[string]Kind{"text/html": HTML, "text/plain": PlainText,
		"": 0, "*/*": 0, "nonsense": 0} {
		if got, err := KindOf(contentType, nil); got != want || err != nil {
			t.Errorf("%q: %v, %v", contentType, got, err)
		}
	}
	if _, err := KindOf("image/png", nil); !errors.Is(err, ErrNotText) {
		t.Errorf("image/png: %v", err)
	}
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
