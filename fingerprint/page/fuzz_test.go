package page

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
)

func FuzzExtract(f *testing.F) {
	for _, seed := range []string{
		"", "<title>a</title><p>b&nGt;", "<svg><p hidden>x", "<li hidden>a<li>b<ul></ul></ul>",
		"<script><!--<script></script>x</script>y", "\xff\xfea\x00", "<meta charset=gbk>\xc4\xe3", "<a b='", "<!--",
		"<textarea>&amp</textarea>", "<plaintext><b>", "<main><p>a</main><div class=nav>b", "<ul><li class=menu>a<li>b<table><td></ul></table>", "<td hidden><table></td></table>x",
	} {
		f.Add([]byte(seed), "text/html; charset=shift_jis")
		f.Add([]byte(seed), "")
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		before := bytes.Clone(body)
		decoded, name := decode(body, contentType)
		if name == "" || !utf8.Valid(decoded) || len(decoded) > 3*len(body) {
			t.Fatalf("%d bytes decoded to %d as %q, valid %v", len(body), len(decoded), name, utf8.Valid(decoded))
		}
		got, err := Extract(body, contentType, Visible)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, body) {
			t.Fatal("Extract changed its input")
		}
		if !utf8.ValidString(got.Text) || !utf8.ValidString(got.Title) {
			t.Fatalf("not UTF-8: %q, %q", got.Title, got.Text)
		}
		if len(got.Text)+len(got.Title) > 3*len(body) {
			t.Fatalf("%d bytes of text from %d", len(got.Text)+len(got.Title), len(body))
		}
		for line := range strings.SplitSeq(got.Text, "\n") {
			if line != strings.Join(strings.FieldsFunc(line, isSpace), " ") {
				t.Fatalf("white space is left in %q", line)
			}
		}
		main, err := Extract(body, contentType, Main)
		if err != nil {
			t.Fatal(err)
		}
		rest := strings.Split(got.Text, "\n")
		for line := range strings.SplitSeq(lessTitle(main.Text, got.Text, got.Title), "\n") {
			at := slices.Index(rest, line)
			if at < 0 {
				t.Fatalf("%q of the main text is not in the visible text %q, or not in that place", line, got.Text)
			}
			rest = rest[at+1:]
		}
		if all := allText(decoded); !subsequence(got.Text, all) {
			t.Fatalf("%q is not in the text %q of the page", got.Text, all)
		}
	})
}

// allText is every text token of a page, hidden or not.
func allText(doc []byte) string {
	var b strings.Builder
	z := html.NewTokenizer(bytes.NewReader(doc))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			b.Write(z.Text())
		}
	}
}

// subsequence says whether all of s but its white space is found in order.
func subsequence(s, in string) bool {
	for word := range strings.FieldsFuncSeq(s, isSpace) {
		for _, r := range word {
			i := strings.IndexRune(in, r)
			if i < 0 {
				return false
			}
			in = in[i+utf8.RuneLen(r):]
		}
	}
	return true
}
