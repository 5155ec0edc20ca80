package corpus

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
)

// notation is how a list writes its fingerprints. One notation applies to the whole list, because
// the same digits are different fingerprints in different notations: 16 decimal digits are also 16
// hexadecimal digits, and programs that print without leading zeros write some with fewer digits.
type notation uint8

const (
	unknownNotation notation = iota // no line so far has digits
	hexNotation
	decimalNotation
	binaryNotation
)

// notationLines is the number of lines that decide the notation of a list, if they are in its first
// chunk.
const notationLines = 1000

// notationOf returns the notation of a list that begins with the given lines, and whether no other
// lines could change it. The first line that is possible in only one notation decides:
//
//   - hexadecimal, if it has digits that only this notation has, or a prefix;
//   - decimal, if it has a minus sign, or more than 16 digits that are not all 0 or 1;
//   - binary, if it has more than 20 digits, all 0 or 1.
//
// Without such a line, a list is hexadecimal if all its fingerprints have 16 digits, or else
// decimal. Lines without digits of any notation do not count.
func notationOf(lines []string) (n notation, sure bool) {
	for _, line := range lines {
		digits, _, _ := strings.Cut(line, "\t")
		digits = strings.TrimSpace(digits)
		isBinary := consistsOf(digits, "01")
		switch {
		case hasHexPrefix(digits):
			return hexNotation, true
		case isBinary && len(digits) > 20:
			return binaryNotation, true
		case !consistsOf(strings.TrimPrefix(digits, "-"), "0123456789"):
			if len(digits) <= 16 && consistsOf(digits, "0123456789abcdefABCDEF") {
				return hexNotation, true
			}
		case digits[0] == '-', len(digits) > 16 && !isBinary:
			return decimalNotation, true
		case len(digits) == 16 && n != decimalNotation:
			n = hexNotation
		default:
			n = decimalNotation
		}
	}
	return n, false
}

// hasHexPrefix reports whether digits begin with 0x, or with the letter and colon that stand for
// the kind of an image hash.
func hasHexPrefix(digits string) bool {
	return strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") ||
		len(digits) == 18 && digits[1] == ':'
}

func consistsOf(s, set string) bool { return s != "" && strings.Trim(s, set) == "" }

// parse reads digits in the notation of their list.
func (n notation) parse(digits string) (fingerprint.Fingerprint, error) {
	digits = strings.TrimSpace(digits)
	if n == hexNotation && len(digits) == 16 { // most lists; faster than ParseUint
		var word [8]byte
		if _, err := hex.Decode(word[:], []byte(digits)); err == nil {
			return fingerprint.Fingerprint(binary.BigEndian.Uint64(word[:])), nil
		}
	}
	base := 16
	switch {
	case hasHexPrefix(digits):
		digits = digits[2:]
	case n == decimalNotation, len(digits) > 16 && n == hexNotation &&
		consistsOf(digits, "0123456789"):
		return parseDecimal(digits)
	case n == binaryNotation:
		base = 2
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, fmt.Errorf(
			"%w: %.40q; each line is a fingerprint in the notation of the first lines, "+
				"optionally followed by a tab and a key", fingerprint.ErrSyntax, digits)
	}
	return fingerprint.Fingerprint(v), nil
}

// parseFingerprint reads a fingerprint that is not in a list. It accepts what fingerprint.Parse
// accepts, negative numbers in two's complement, 64 binary digits, and hexadecimal digits after the
// kind of an image hash.
func parseFingerprint(s string) (fingerprint.Fingerprint, error) {
	switch {
	case strings.HasPrefix(s, "-"):
		return parseDecimal(s)
	case len(s) == 64 && consistsOf(s, "01"):
		n, err := strconv.ParseUint(s, 2, 64)
		return fingerprint.Fingerprint(n), err
	case len(s) == 18 && s[1] == ':':
		s = s[2:]
	}
	return fingerprint.Parse(s)
}

// parseDecimal reads the signed or unsigned number at the start of a line. It ignores the rest of
// the line after a space or a tab.
func parseDecimal(line string) (fingerprint.Fingerprint, error) {
	line = strings.TrimSpace(line)
	if end := strings.IndexAny(line, " \t"); end > 0 {
		line = line[:end]
	}
	n, err := strconv.ParseUint(line, 10, 64)
	if signed, bad := strconv.ParseInt(line, 10, 64); err != nil && bad == nil {
		n, err = uint64(signed), nil // two's complement, as in a bigint column of a database
	}
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a decimal number from -2^63 to 2^64-1", line)
	}
	return fingerprint.Fingerprint(n), nil
}

// isFingerprintList reports whether more than half of the lines are fingerprints, with or without a
// key, in a form that is rare in other text.
func isFingerprintList(lines []string) bool {
	n := 0
	for _, line := range lines {
		digits, _, _ := strings.Cut(line, "\t")
		if _, err := parseFingerprint(digits); err == nil &&
			(len(digits) >= 16 || hasHexPrefix(digits)) {
			n++
		}
	}
	return n > len(lines)/2
}

// firstLines returns the whole lines at the start of text, at most limit, without blank lines. The
// last line is whole if nothing follows text.
func firstLines(text string, limit int, nothingFollows bool) (lines []string) {
	text = strings.TrimPrefix(text, byteOrderMark)
	if end := strings.LastIndexByte(text, '\n'); end >= 0 && !nothingFollows {
		text = text[:end]
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len(lines) == limit {
			break
		}
		if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

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

// UnquoteKey reverses QuoteKey. Columns may follow a quoted key, each after a tab. They do not
// change. A field that is not quoted correctly is returned unchanged.
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
	return utf8.ValidString(s) &&
		strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
}
