package page

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

func encode(t *testing.T, s, label string) string {
	t.Helper()
	e, _ := charset.Lookup(label)
	out, err := e.NewEncoder().String(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecode(t *testing.T) {
	const (
		french   = "Été à la plage, où l'on s'amuse"
		chinese  = "网页查重系统的一个例子"
		russian  = "Съешь ещё этих мягких французских булок"
		japanese = "これは日本語の文書です"
	)
	late := strings.Repeat("<link rel=x>", 300)
	for _, test := range []struct{ name, body, header, text, charset string }{
		{"nothing", "", "", "", "utf-8"},
		{"ascii", "abc", "text/html; charset=iso-8859-1", "abc", "utf-8"},
		{"utf-8 undeclared", french, "", french, "utf-8"},
		{"utf-8 declared latin-1", french, "text/html; charset=ISO-8859-1", french, "utf-8"},
		{"utf-8 declared gbk", chinese, "text/html; charset=gbk", chinese, "utf-8"},
		{"utf-8 cut inside a character", chinese[:len(chinese)-1], "",
			chinese[:len(chinese)-3] + "\uFFFD", "utf-8"},
		{"utf-8 mark", "\xef\xbb\xbf" + french, "text/html; charset=latin1", french, "utf-8"},
		{"utf-8 mark, broken text", "\xef\xbb\xbfa\xff\xfeb", "", "a\uFFFDb", "utf-8"},
		{"utf-8 with few bad bytes", french + "\xff", "text/html; charset=utf-8",
			french + "\uFFFD", "utf-8"},
		{"latin-1 declared utf-8", encode(t, french, "latin1"), "text/html; charset=utf-8", french,
			"windows-1252"},
		{"latin-1 undeclared", encode(t, french, "latin1"), "", french, "windows-1252"},
		{"one GBK word that is valid UTF-8", "\xc1\xaa\xcd\xa8",
			"text/html; charset=gbk", "联通", "gbk"},
		{"two bytes that are valid UTF-8 too", "\xc4\xa3", "text/html; charset=gbk", "模", "gbk"},
		{"gbk by header", encode(t, chinese, "gbk"), "text/html; charset=GB2312", chinese, "gbk"},
		{"quoted", encode(t, chinese, "gbk"), `text/html; charset="gb2312"; x`, chinese, "gbk"},
		{"malformed header", encode(t, russian, "koi8-r"), `text/html; charset = koi8-r;;charset=x`,
			russian, "koi8-r"},
		{"a header that is no ASCII", encode(t, russian, "koi8-r"),
			"text/html; \u212a\u212a\u212a\u212a\u212aCharset=koi8-r", russian, "koi8-r"},
		{"shift_jis by meta", "<meta charset=Shift_JIS>" +
			encode(t, japanese, "shift_jis"), "text/html",
			"<meta charset=Shift_JIS>" + japanese, "shift_jis"},
		{"iso-2022-jp", encode(t, japanese, "iso-2022-jp"), "text/html; charset=iso-2022-jp",
			japanese, "iso-2022-jp"},
		{"pragma", `<META http-equiv=content-type content="text/html; charset=windows-1251">` +
			encode(t, russian, "windows-1251"), "",
			`<META http-equiv=content-type content="text/html; charset=windows-1251">` + russian,
			"windows-1251"},
		{"late meta", late + "<meta charset=windows-1251>" + encode(t, russian, "windows-1251"), "",
			late + "<meta charset=windows-1251>" + russian, "windows-1251"},
		{"meta in a comment", "<!--<meta charset=koi8-r>--><meta charset=windows-1251>" +
			encode(t, russian, "windows-1251"), "",
			"<!--<meta charset=koi8-r>--><meta charset=windows-1251>" + russian, "windows-1251"},
		{"header before meta", "<meta charset=koi8-r>" + encode(t, russian, "windows-1251"),
			"text/html; charset=windows-1251",
			"<meta charset=koi8-r>" + russian, "windows-1251"},
		{"unbelievable header, then meta", "<meta charset=windows-1251>" +
			encode(t, russian, "windows-1251"), "text/html; charset=utf-8",
			"<meta charset=windows-1251>" + russian, "windows-1251"},
		{"unknown label", encode(t, french, "latin1"), "text/html; charset=klingon", french,
			"windows-1252"},
		{"replacement label", french, "text/html; charset=hz-gb-2312", french, "utf-8"},
		{"utf-16 mark", "\xff\xfe" + encode(t, "<p>"+french, "utf-16le"),
			"text/html; charset=utf-8", "<p>" + french, "utf-16le"},
		{"utf-16 big mark", "\xfe\xff" + encode(t, "<p>"+french, "utf-16be"), "",
			"<p>" + french, "utf-16be"},
		{"utf-16 bare", encode(t, "<p>"+french, "utf-16le"), "", "<p>" + french, "utf-16le"},
		{"utf-16 big bare", encode(t, "<p>"+french, "utf-16be"), "", "<p>" + french, "utf-16be"},
		{"utf-16 by header", encode(t, french, "utf-16be"), "text/html; charset=utf-16be",
			french, "utf-16be"},
		{"utf-16 declared, ascii sent", "<p>abc", "text/html; charset=utf-16", "<p>abc", "utf-8"},
		{"utf-16 declared by meta", "<meta charset=utf-16><p>é", "",
			"<meta charset=utf-16><p>é", "utf-8"},
		{"xml declaration", `<?xml version="1.0" encoding = 'koi8-r'?>` +
			encode(t, russian, "koi8-r"), "", `<?xml version="1.0" encoding = 'koi8-r'?>` +
			russian, "koi8-r"},
		{"xml declaration without an encoding", "<?xml version='1.0'?>" +
			encode(t, french, "latin1"), "", "<?xml version='1.0'?>" + french, "windows-1252"},
		{"iso-2022-jp undeclared", "<p>" + encode(t, japanese, "iso-2022-jp"), "text/html",
			"<p>" + japanese, "iso-2022-jp"},
		{"escape bytes in ascii", "a\x1b[1mb\x1b(B", "", "a\x1b[1mb\x1b(B", "utf-8"},
		{"odd utf-16", "\xff\xfea\x00b", "", "a\uFFFD", "utf-16le"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, name := decode([]byte(test.body), test.header)
			if string(got) != test.text || name != test.charset {
				t.Errorf("got %q in %s, want %q in %s", got, name, test.text, test.charset)
			}
		})
	}
}

// TestHeaderOfManyCharsets tests that the time for a header of 16 MiB, as an archive may hold, is
// linear. No part of the header is copied.
func TestHeaderOfManyCharsets(t *testing.T) {
	header := strings.Repeat("Charset ", 1000)
	if n := testing.AllocsPerRun(1, func() { labelIn(header) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDecodeSize tests, for every declarable encoding, that one byte becomes at most three bytes.
func TestDecodeSize(t *testing.T) {
	var every []byte
	for i := range 1 << 16 {
		every = append(every, byte(i>>8), byte(i))
	}
	for i := range 256 {
		every = append(every, byte(i))
	}
	for _, label := range []string{
		"windows-1252", "windows-1250", "windows-1251", "windows-1256", "windows-874", "ibm866",
		"koi8-u", "macintosh",
		"x-user-defined", "gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr", "iso-2022-jp",
		"utf-16le", "utf-16be", "iso-8859-8-i",
	} {
		got, name := decode(every, "text/html; charset="+label)
		if name != label && label != "iso-8859-8-i" {
			t.Errorf("%s decoded as %s", label, name)
		}
		if len(got) > 3*len(every) || !utf8.Valid(got) {
			t.Errorf("%s: %d bytes became %d, valid: %v", label, len(every), len(got),
				utf8.Valid(got))
		}
	}
}
