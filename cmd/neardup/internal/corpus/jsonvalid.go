package corpus

import (
	"bytes"
	"encoding/json"
)

// validJSON is json.Valid. That takes about twice as long for what lines of pages are
// made of, long strings; here it is asked about the rest only, with "" for each string.
func validJSON(b []byte) bool {
	rest := make([]byte, 0, 256)
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return json.Valid(append(rest, b...))
		}
		rest = append(append(rest, b[:i]...), '"', '"')
		size := validString(b[i+1:])
		if size < 0 {
			return false
		}
		b = b[i+1+size:]
	}
}

// validString returns the length of the string that b begins with, behind its first
// quote and with its last one; -1 if it is none.
func validString(b []byte) int {
	for i := 0; i < len(b); i++ {
		for i < len(b) && !jsonSpecial[b[i]] {
			i++
		}
		switch {
		case i == len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		}
		size := escapeSize(b[i+1:])
		if size == 0 {
			return -1
		}
		i += size
	}
	return -1
}

// escapeSize returns the length of an escape behind its backslash, 0 if it is none.
func escapeSize(b []byte) int {
	switch {
	case len(b) == 0:
		return 0
	case b[0] != 'u':
		return min(1, 1+bytes.IndexByte([]byte(`"\/bfnrt`), b[0]))
	case len(b) < 5:
		return 0
	}
	for _, c := range b[1:5] {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0
		}
	}
	return 5
}

// jsonSpecial are the bytes that do not stand for themselves in a string.
var jsonSpecial = func() (special [256]bool) {
	for c := range ' ' {
		special[c] = true
	}
	special['"'], special['\\'] = true, true
	return special
}()
