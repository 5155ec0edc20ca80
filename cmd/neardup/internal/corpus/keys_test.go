package corpus

import (
	"strings"
	"testing"
	"unicode"
)

// UnquoteKey undoes QuoteKey, which returns one line without control characters.
func FuzzQuoteKey(f *testing.F) {
	for _, key := range []string{"http://a.example/", "", "a\nffffffffffffffff\tevil", "\x1b[31m\x00", `"quoted"`, `"`, `c:\new`, "\xff\xfe", "a\r", "\u009b2J", "\u202e", "é 漢 😀"} {
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

func TestUnquoteKeyLeavesOthers(t *testing.T) {
	for _, field := range []string{"", `plain`, `"`, `"no end`, `"a"b`, `"bad \q escape"`, `back\slash`, `'a'`, "`a`"} {
		if got := UnquoteKey(field); got != field {
			t.Errorf("%s is read as %q", field, got)
		}
	}
	if got := QuoteKey("http://a.example/é?x=漢#\\ '"); got != "http://a.example/é?x=漢#\\ '" {
		t.Errorf("a plain key is written as %s", got)
	}
}

func TestHost(t *testing.T) {
	for key, want := range map[string]string{
		"http://Example.COM/a":                     "example.com",
		"https://user:pass@example.com:8080?q=://": "example.com",
		"http://example.com.":                      "example.com",
		"http://example.com#x@y":                   "example.com",
		"http://example.com\\@evil":                "example.com",
		"http://[2001:DB8::1]:80/":                 "[2001:db8::1]",
		"http://[2001:db8::1":                      "",
		"http://a b/%zz":                           "a b",
		"http://":                                  "",
		"http:///path":                             "",
		"dns:example.com":                          "",
		"a/path.html":                              "",
		"a/b?u=http://example.com/":                "",
		"":                                         "",
	} {
		if got := Host(key); got != want {
			t.Errorf("Host(%q) = %q, want %q", key, got, want)
		}
	}
}
