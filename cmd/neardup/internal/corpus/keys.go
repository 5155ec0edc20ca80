package corpus

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// QuoteKey returns a key as lists contain it. Some keys become a string in double quotes with the
// escapes of Go. These are keys that begin with a double quote, and keys with characters that are
// not printable, such as line breaks and tabs.
func QuoteKey(key string) string {
	if isPrintable(key) && !strings.HasPrefix(key, `"`) {
		return key
	}
	return strconv.Quote(key)
}

// KeyBytes returns a key that is not valid UTF-8, and nil for other keys. In JSON strings, U+FFFD
// replaces invalid bytes.
func KeyBytes(key string) []byte {
	if utf8.ValidString(key) {
		return nil
	}
	return []byte(key)
}

// UnquoteKey undoes QuoteKey. Columns may follow a quoted key, each after a tab. They do not
// change. A field that is not quoted correctly is returned as it is.
func UnquoteKey(field string) string {
	if !strings.HasPrefix(field, `"`) {
		return field
	}
	quoted, err := strconv.QuotedPrefix(field)
	if err != nil {
		return field
	}
	columns := field[len(quoted):]
	if columns != "" && columns[0] != '\t' {
		return field
	}
	key, err := strconv.Unquote(quoted)
	if err != nil {
		return field
	}
	return key + columns
}

// Escape returns a message with escaped control characters, so that a key or a file name cannot
// control a terminal.
func Escape(message string) string {
	if isPrintable(message) {
		return message
	}
	quoted := strconv.Quote(message)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

func isPrintable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
}

// Host returns the host of a key that is a URL, in lower case and without user, port and final dot.
// It returns "" if the key has no host. net/url refuses many URLs of crawls.
func Host(key string) string {
	scheme, rest, ok := strings.Cut(key, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		rest = rest[:end]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	if strings.HasPrefix(rest, "[") { // an IPv6 address
		address, _, ok := strings.Cut(rest, "]")
		if !ok {
			return ""
		}
		return strings.ToLower(address) + "]"
	}
	rest, _, _ = strings.Cut(rest, ":")
	return strings.ToLower(strings.TrimSuffix(rest, "."))
}
