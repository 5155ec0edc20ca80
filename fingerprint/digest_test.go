package fingerprint

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// Texts with equal tokens have equal Signatures, and a Digest that does not depend on the options.
func TestDigestOfEqualTexts(t *testing.T) {
	text := strings.Repeat("Caf\u00e9 한국어 \u1ec7 \u05d0\u05bc ガギ "+
		"漢字 word ", 300)
	texts := map[string]string{
		"NFD": norm.NFD.String(text), "NFKD": norm.NFKD.String(text),
		"full width": width.Widen.String(text), "upper case": strings.ToUpper(text),
		"white space": strings.ReplaceAll(text, " ", "\t\u3000\n"),
		"punctuation": strings.ReplaceAll(text, " ", " \u2014 "),
	}
	digest := newAnalyzer(t, Options{}).Text(text).Digest
	for _, o := range []Options{{}, {Seed: 9}, {Method: MethodSimhash},
		{Method: MethodSimhash, Window: 3}} {
		a := newAnalyzer(t, o)
		want := a.Text(text)
		for what, text := range texts {
			if got := a.Text(text); got != want || got.Digest != digest {
				t.Errorf("%s, %s: %+v, want %+v with digest %v", a.Name(), what, got, want, digest)
			}
		}
	}
}
