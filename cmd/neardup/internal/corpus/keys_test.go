package corpus

import (
	"strings"
	"testing"
	"unicode"
)

// QuoteKey returns one line without control characters, and UnquoteKey reverses it.
func FuzzQuoteKey(f *testing.F) {
	for _, key := range []string{"http://a.example/", "", "a\nffffffffffffffff\tevil",
		"\x1b[31m\x00", `"quoted"`, `"`, `c:\new`, "\xff\xfe", "a\r", "\u009b2J",
		"\u202e", "é 漢 😀"} {
		f.Add(key, "")
		f.Add(key, "\t12")
	}
	f.Fuzz(func(t *testing.T, key, columns string) {
		quoted := QuoteKey(key)
		if i := strings.IndexFunc(quoted, unicode.IsControl); i >= 0 {
			t.Fatalf("%q is written with a control character at %d: %q", key, i, quoted)
		}
		if got := UnquoteKey(quoted); got != key {
			t.Fatalf("%q is written as %s and read as %q", key, quoted, got)
		}
		if columns == "" || columns[0] != '\t' {
			return
		}
		if got := UnquoteKey(quoted + columns); got != key+columns {
			t.Fatalf("%q with columns %q is read as %q", key, columns, got)
		}
	})
}

func TestUnquoteKeyOfOtherKeys(t *testing.T) {
	for _, field := range []string{"", `plain`, `"`, `"no end`, `"a"b`, `"bad \q escape"`,
		`back\slash`, `'a'`, "`a`"} {
		if got := UnquoteKey(field); got != field {
			t.Errorf("%s is read as %q", field, got)
		}
	}
	if got := QuoteKey("http://a.example/é?x=漢#\\ '"); got != "http://a.example/é?x=漢#\\ '" {
		t.Errorf("a plain key is written as %s", got)
	}
}
