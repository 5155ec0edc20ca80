package corpus

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/neardup/neardup/fingerprint"
)

// layout says where the fingerprint stands in the lines of a list, and its key. The zero
// value is a fingerprint and, behind a tab, all else. The first line that has a fingerprint
// tells the layout of all.
type layout struct {
	separator byte // 0 is a tab
	last      bool // the fingerprint is the last column, else the first one
	decimal   bool // 16 digits are no hex ones, unless the first is 0
	known     bool // a line was seen that has it
}

// layoutLines is how many lines are looked at for the layout.
const layoutLines = 1000

// layoutOf finds the layout of a line. distinct says whether its fingerprint hardly is anything
// else.
func layoutOf(line string) (l layout, distinct bool) {
	for _, last := range []bool{false, true} { // a number may well stand before a fingerprint
		for _, separator := range []byte{0, ',', ';'} {
			candidate := layout{separator: separator, last: last, known: true}
			digits, _, ok := candidate.split(line)
			_, err := parseFingerprint(digits)
			sure := len(digits) >= 16 || strings.HasPrefix(digits, "0x")
			if ok && err == nil && (!l.known || sure && !distinct) {
				l, distinct = candidate, sure
				l.decimal = len(digits) > 16 && strings.Trim(strings.TrimPrefix(digits, "-"), "0123456789") == ""
			}
		}
	}
	return l, distinct
}

// areFingerprints says whether lines, the first of which may name the columns, are fingerprints
// in a form that other text hardly has.
func areFingerprints(lines []string) bool {
	if len(lines) > 1 && namesColumns(lines[0]) {
		lines = lines[1:]
	}
	for _, line := range lines {
		if l, distinct := layoutOf(line); !distinct || l.separator != 0 && len(lines) == 1 {
			return false
		}
	}
	return len(lines) > 0
}

// areMostlyFingerprints says whether more than half of lines, and two or more, are fingerprints.
func areMostlyFingerprints(lines []string) bool {
	n := 0
	for _, line := range lines {
		if _, distinct := layoutOf(line); distinct {
			n++
		}
	}
	return n > 1 && n > len(lines)/2
}

// namesColumns says whether a line names the columns of a table.
func namesColumns(line string) bool {
	columns := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(",;\t", r) })
	return len(columns) > 1 && all(columns, func(name string) bool { return columnName.MatchString(strings.Trim(name, `"`)) })
}

// split takes a line apart. It is false where the layout has a separator and the line has none.
func (l layout) split(line string) (digits, key string, ok bool) {
	switch {
	case l.separator == 0 && !l.last:
		digits, key, _ = strings.Cut(line, "\t")
		return digits, key, true
	case l.separator == 0:
		tab := strings.LastIndexByte(line, '\t')
		return line[tab+1:], line[:max(tab, 0)], tab >= 0
	}
	r := csv.NewReader(strings.NewReader(line))
	r.Comma, r.LazyQuotes = rune(l.separator), true
	columns, err := r.Read()
	if err != nil || len(columns) < 2 {
		return "", "", false
	}
	if l.last {
		return strings.TrimSpace(columns[len(columns)-1]), columns[0], true
	}
	return strings.TrimSpace(columns[0]), columns[1], true
}

// parse reads a line that has the layout. The key is quoted.
func (l layout) parse(line string) (fp fingerprint.Fingerprint, key string, err error) {
	digits, key, ok := l.split(line)
	switch {
	case !ok:
		return 0, "", fmt.Errorf("%w: %.40q has no column of one", fingerprint.ErrSyntax, line)
	case l.separator != 0:
		key = QuoteKey(key)
	}
	if l.decimal && len(digits) == 16 && digits[0] != '0' {
		if fp, err = parseDecimal(digits); err == nil {
			return fp, key, nil
		}
	}
	fp, err = parseFingerprint(digits)
	return fp, key, err
}

// parseFingerprint reads what fingerprint.Parse does, negative numbers in two's complement, 64
// binary digits, and hex digits behind a letter and a colon, which says which kind of hash
// of an image it is.
func parseFingerprint(s string) (fingerprint.Fingerprint, error) {
	switch {
	case strings.HasPrefix(s, "-"):
		return parseDecimal(s)
	case len(s) == 64 && strings.Trim(s, "01") == "":
		n, err := strconv.ParseUint(s, 2, 64)
		return fingerprint.Fingerprint(n), err
	case len(s) == 18 && s[1] == ':':
		return fingerprint.Parse(s[2:])
	}
	return fingerprint.Parse(s)
}

// parseDecimal reads the number that a line begins with, signed or not. What stands behind it,
// after a space or a tab, does not count.
func parseDecimal(line string) (fingerprint.Fingerprint, error) {
	line = strings.TrimSpace(line)
	if end := strings.IndexAny(line, " \t"); end > 0 {
		line = line[:end]
	}
	n, err := strconv.ParseUint(line, 10, 64)
	if signed, bad := strconv.ParseInt(line, 10, 64); err != nil && bad == nil {
		n, err = uint64(signed), nil // two's complement, as databases have it
	}
	if err != nil {
		return 0, fmt.Errorf("%.40q is no decimal number from -2^63 to 2^64-1", line)
	}
	return fingerprint.Fingerprint(n), nil
}

// firstLines are whole lines that a list begins with, without blank ones.
func firstLines(text string, whole bool) (lines []string) {
	text = strings.TrimPrefix(text, byteOrderMark)
	if end := strings.LastIndexByte(text, '\n'); end >= 0 && !whole {
		text = text[:end]
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) != "" && len(lines) < 100 {
			lines = append(lines, line)
		}
	}
	return lines
}
