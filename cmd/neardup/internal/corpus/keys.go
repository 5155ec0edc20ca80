package corpus

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// QuoteKey returns a key as it is written in lists, for lines and for terminals: as it is,
// or, where it begins with a double quote or has anything that is not printable, such
// as a line break, a tab or an escape character, as a string in double quotes with the
// escapes of Go and C: \n, \t, \", \\, \xHH for a byte, \uHHHH for a character.
func QuoteKey(key string) string {
	if isPrintable(key) && !strings.HasPrefix(key, `"`) {
		return key
	}
	return strconv.Quote(key)
}

// UnquoteKey undoes QuoteKey. Columns may follow a quoted key, each behind a tab; they stay
// as they are. What is not well quoted is a key as it stands.
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

// Escape returns a diagnostic with what is not printable in it escaped, so that no key or
// file name acts on a terminal.
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

// Host is the host of a key that is a URL: lower-case, without user, port or
// final dot; empty where the key has none. It never fails: URLs of a crawl are
// often not valid ones.
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
