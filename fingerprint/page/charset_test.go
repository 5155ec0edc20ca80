package page

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// FuzzCharset decodes any bytes with any declared encoding. The result must be UTF-8 of at most 3
// times the size, from an encoding of the standard. Decoding the result again must not change it.
func FuzzCharset(f *testing.F) {
	for _, label := range []string{
		"utf-8", "utf-16le", "utf-16be", "utf-16", "gbk", "gb18030", "big5", "euc-jp", "shift_jis",
		"iso-2022-jp", "euc-kr",
		"windows-1252", "koi8-r", "x-user-defined", "hz-gb-2312", "replacement", "no such",
	} {
		contentType := "text/html; charset=" + label
		f.Add([]byte("caf\xe9 \x1b$B$3\x1b(B \x81\x30\x81\x30 \x82\xa0\xa4\xa2"), contentType)
		f.Add([]byte("<meta charset='"+label+"'>\xc4\xe3\xba\xc3"), "")
		f.Add([]byte("<meta http-equiv=content-type content='text/html;charset= \""+label+
			"\"'>\xe4\xbd\xa0\xe5\xa5\xbd\xff"), "charset charset=")
		f.Add([]byte("\xff\xfe<\x00a\x00>\x00\x00\xd8"), contentType)
		f.Add([]byte("\x00<\x00a\xdc\x00\xd8\x00"), contentType)
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		before := bytes.Clone(body)
		decoded, name := decode(body, contentType)
		if !bytes.Equal(before, body) {
			t.Fatal("decode changed its input")
		}
		if e, canonical := charset.Lookup(name); e == nil || canonical != name {
			t.Fatalf("%q is no name of the Encoding Standard", name)
		}
		if !utf8.Valid(decoded) || len(decoded) > 3*len(body) {
			t.Fatalf("%d bytes of %s decoded to %d, valid %v", len(body), name, len(decoded),
				utf8.Valid(decoded))
		}
		if again, name := decode(decoded, "text/html; charset=utf-8"); countUTF8(decoded,
			minSequences).sequences >= minSequences &&
			!bytes.HasPrefix(decoded, []byte("\ufeff")) &&
			(name != "utf-8" || !bytes.Equal(again, decoded)) {
			t.Fatalf("%q, decoded again, is %q in %s", decoded, again, name)
		}
	})
}

// TestHeaderOfManyCharsets tests that labelIn copies no part of a header. An archive may have a
// header of 16 MiB, and copies would make the time quadratic.
func TestHeaderOfManyCharsets(t *testing.T) {
	header := strings.Repeat("Charset ", 1000)
	if n := testing.AllocsPerRun(1, func() { labelIn(header) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
