package page

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// hostilePages are pages that are costly to read. Pages with markup end in a word.
var hostilePages = []struct{ name, head, fill, tail string }{
	{"one attribute", `<p a="`, "x", `">text`},
	{"one style", `<p style="`, "x:y;", `">text`},
	{"many attributes", "<p", " a", ">text"},
	{"a class of quotes", `<p class='`, `"`, `'>text`},
	{"a style of references", `<p style='`, "&amp;", `'>text`},
	{"a charset of many bytes", `<meta charset='`, "x", "'>text\xff"},
	{"a declaration of many bytes", `<meta http-equiv=content-type content='`,
		"a=b ", "'>text\xff"},
	{"references that are not valid", "<p>",
		"&#x10FFFF;&#0;&#55555555555555555555;&notit;&;&#;&#x;", " text"},
	{"one tag name", "<", "x", ">text"},
	{"comment without end", "text<!--", "x", ""},
	{"script without end", "text<script>", "x", ""},
	{"script of script tags", "text<script><!--", "<script>", ""},
	{"entities", "", "&nGt;", "text"},
	{"ampersands", "", "&", "text"},
	{"less-than signs", "", "<", " text"},
	{"open tags", "", "<b>", "text"},
	{"open hidden", "", "<i hidden>", "text"},
	{"open blocks", "", "<div>", "text"},
	{"blocks", "", "<div>a</div>", "text"},
	{"hinted blocks", "", "<p class=nav>a", "text"},
	{"open list items", "", "<ul><li>a", "text"},
	{"cells", "", "<table><td>a", "text"},
	{"end tags", strings.Repeat("<table><td>", 300) + "<div><p>", "</div></li></td>", "<div>text"},
	{"class of many words", `<div class="`, "nav ", `">text</div>`},
	{"open svg", "", "<svg>", "<p>text"},
	{"meta without charset", "", "<meta x=y>", "text\xff"},
	{"windows-1252", "", "\x80", "text"},
	{"not UTF-8", "é", "\xff", "é text"},

	// The following texts have long tokens or long normal forms.
	{"one word", "<p>", "x", " text"},
	{"words of one letter", "<p>", "x ", " text"},
	{"18 letters in four words", "<p>", "\ufdfa", " text"},
	{"8 letters in two words", "<p>", "\ufdfb", " text"},
	{"four letters", "<p>", "\ufdf2", " text"},
	{"six kana", "<p>", "\u3316", " text"},
	{"kana and their signs", "<p>", "か\u3099", " text"},
	{"half width", "<p>", "\uff76\uff9e", " text"},
	{"marks", "<p>a", "\u0301", " text"},
	{"marks without a letter", "<p>", "\u0301", " text"},
	{"marks out of order", "<p>a", "\u0301\u0327", " text"},
	{"marks of two", "<p>a", "\u0344", " text"},
	{"letters with marks", "<p>", "e\u0301", " text"},
	{"iota subscript", "<p>a", "\u0345", " text"},
	{"vowels of Hangul", "<p>\u1100", "\u1161", " text"},
	{"syllables in jamo", "<p>", "\u1100\u1161\u11a8", " text"},
	{"conjoined letters", "<p>", "\u1780\u17d2", " text"},
	{"ideographs", "<p>", "中", " text"},
	{"letters of four bytes", "<p>", "\U0001d400", " text"},
	{"joiners", "<p>a", "\u200d", " text"},
	{"not assigned", "<p>", "\u0378", " text"},
	{"windows-1252 letters", "<p>", "\xdf", " text"},
}

// TestHostilePages tests that time and memory are linear in the size of a costly page, from the
// bytes to the signature.
func TestHostilePages(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short")
	}
	size := testenv.Number(1<<19, 1<<19, 1<<20, 1<<20)
	for _, test := range hostilePages {
		body := []byte(test.head + strings.Repeat(test.fill, size/len(test.fill)) + test.tail)
		for _, mode := range []TextMode{Visible, Main} {
			t.Run(test.name+"/"+mode.name(), func(t *testing.T) {
				signer := newSigner(t, mode, fingerprint.Options{})
				var got fingerprint.Signature
				start := time.Now()
				has := false
				peak := uint64(math.MaxUint64)
				// garbage counts until it is collected, which may be late on a busy machine
				for try := 0; try < 3 && peak > 24*uint64(size); try++ {
					peak = min(peak, testenv.PeakHeap(func() {
						signer.withText(HTML, "", body, func(found []byte) {
							got = signer.analyzer.Bytes(found)
							has = bytes.Contains(found, []byte("text"))
						})
					}))
				}
				if got.Tokens == 0 || !has {
					t.Errorf("the text was not found: %+v", got)
				}
				t.Logf("%.1f times the page, %v", float64(peak)/float64(size), time.Since(start))
				if peak > 24*uint64(size) {
					t.Errorf("%d bytes for a page of %d", peak, size)
				}
			})
		}
	}
}
