package page

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// FuzzScanner compares the scanner with the tokenizer of golang.org/x/net/html.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		"", "a<b>c</b>", "<a b=c d='e>' f=\"g\" / h = i/>x", "<svg/>", "<svg a=/>", "<svg a a=/>",
		"<p a/>", "</p a='>'>x", "<!-->x-->", "<!--->x-->",
		"<!--a--!>b", "<!--a--!-->b", "<!----!>x", "<!-x>y", "<?x>y", "</ x>y", "</>y", "</", "<",
		"x<", "<a", "<a b", "<a b='", "<!", "<!-", "<!--", "<!--a-",
		"<script>a</script >b", "<script><!--<script></script></script>x",
		"<script><!-- < <script></script>x", "<script><!--<scr<script>-->x</script>y",
		"<script><!--<script>--></script>x", "<title>a&amp;\x00</title>\x00",
		"<textarea></textarea>x", "<xmp><b></xmp>", "<plaintext></plaintext>",
		"<noscript/><p></noscript>x", "<style></styl</style>x", "<![CDATA[a>b]]>c",
		"<A\x00 HIDDEN=1 hidden=2 STYLE=3 style=4>", "<div =a=b>", "<blockquoteblockquote>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) { sameTokens(t, doc) })
}

// TestScannerOnRandomMarkup compares the scanner with the same tokenizer on random markup.
func TestScannerOnRandomMarkup(t *testing.T) {
	parts := []string{
		"<", ">", "/", "!", "-", "--", "<!--", "-->", "--!>", "=", "'", "\"", " ", "\n", "a", "b",
		"class", "hidden", "style", "id", "role", "open",
		"<p", "<svg", "</", "<script", "</script", "<title>", "</title>", "<textarea",
		"</textarea>", "<style>", "</style>", "<noscript>", "</noscript>",
		"<div class=x>", "</div>", "<SCRIPT>", "</ScRiPt>", "&amp;", "\x00", "<?", "<![CDATA[",
		"]]>", "<plaintext>", "é", "<figcaption>",
	}
	rng := rand.New(rand.NewPCG(5, 1))
	n := 20_000
	if testing.Short() {
		n = 4_000
	}
	for range n {
		var b strings.Builder
		for range 1 + rng.IntN(25) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		if !sameTokens(t, []byte(b.String())) {
			return
		}
	}
}

func sameTokens(t *testing.T, doc []byte) bool {
	t.Helper()
	s := scanner{doc: doc}
	z := html.NewTokenizer(bytes.NewReader(doc))
	for n := 0; ; n++ {
		want := z.Next()
		for want == html.CommentToken || want == html.DoctypeToken {
			want = z.Next()
		}
		got := s.next()
		same := false
		switch want {
		case html.ErrorToken:
			same = got == eofToken
		case html.TextToken:
			var text textWriter
			text.whole(&s)
			same = got == textToken && collapse(z.Text()) == collapse([]byte(text.text))
		case html.StartTagToken, html.SelfClosingTagToken:
			same = got == startTagToken && sameStart(&s, z, want == html.SelfClosingTagToken)
		case html.EndTagToken:
			name, _ := z.TagName()
			same = got == endTagToken && sameElement(s.tag, name)
		}
		if !same {
			t.Errorf("token %d of %.200q is %v, %+v, want %v %.200q", n, doc, got,
				s.tag, want, z.Raw())
			return false
		}
		if got == eofToken {
			return true
		}
	}
}

func sameElement(e element, name []byte) bool {
	key := uint64(0)
	for _, c := range name {
		key = nextKey(key, c)
	}
	return e == elementOf(key, name) || bytes.Contains(name, []byte("\uFFFD"))
}

func sameStart(s *scanner, z *html.Tokenizer, selfClosing bool) bool {
	name, more := z.TagName()
	if !sameElement(s.tag, name) {
		return false
	}
	want := attributes{}
	seen := map[string][]byte{}
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		seen[string(key)] = append([]byte{}, value...)
	}
	for key, kept := range map[string]*[]byte{"class": &want.class, "id": &want.id,
		"role": &want.role, "style": &want.style, "href": &want.href} {
		if value, ok := seen[key]; ok {
			*kept = value
		}
	}
	_, want.hidden = seen["hidden"]
	_, want.open = seen["open"]
	got := s.attributes
	same := got.hidden == want.hidden && got.open == want.open
	for _, pair := range [][2][]byte{{got.class, want.class}, {got.id, want.id},
		{got.role, want.role}, {got.style, want.style}, {got.href, want.href}} {
		if (pair[0] == nil) != (pair[1] == nil) {
			same = false
		}
		// Values are compared only if they have nothing to decode.
		if !bytes.ContainsAny(pair[0], "&\r\x00") && !bytes.Equal(pair[0], pair[1]) {
			same = false
		}
	}
	if selfClosing && slashInValue.Match(z.Raw()) {
		selfClosing = s.selfClosing
	}
	return same && s.selfClosing == selfClosing
}

// slashInValue matches a slash at the end of a tag that may belong to an unquoted value. The
// tokenizer looks for it in the last attribute that it kept. If that name occurred before, it
// treats the tag as self-closing.
var slashInValue = regexp.MustCompile(`=\s*[^\s>]*/>$`)

func TestSlashInValue(t *testing.T) {
	for doc, want := range map[string]bool{
		"<a h=/>": false, "<a h h=/>": false, "<a h h=b/>": false, "<a h=b h= c/>": false,
		"<a/>": true, "<a h h/>": true, "<a h=b h='c'/>": true, "<a h h=b />": true,
	} {
		s := scanner{doc: []byte(doc)}
		if s.next() != startTagToken || s.selfClosing != want {
			t.Errorf("%s: self-closing %v, want %v", doc, s.selfClosing, want)
		}
	}
}
