package corpus

import (
	"bytes"
	"strconv"
	"strings"
)

// maxRecordHeader bounds the header of a WARC record: its URL may be a data
// URL.
const maxRecordHeader = 1 << 20

// recordHeader is what is read of the header of a WARC record.
type recordHeader struct {
	kind        string // WARC-Type, lower-case
	uri         string
	contentType string
	segment     string
	length      int64 // -1 where Content-Length is missing or no number
}

// recordStart says whether b begins with the version line of a WARC record.
func recordStart(b []byte) bool {
	version, ok := bytes.CutPrefix(b, []byte("WARC/"))
	if !ok || len(version) < 4 || !isDigit(version[0]) || version[1] != '.' || !isDigit(version[2]) {
		return false
	}
	i := 3
	for i < len(version) && i < 6 && isDigit(version[i]) {
		i++
	}
	return i < len(version) && (version[i] == '\r' || version[i] == '\n')
}

// startBytes is enough for recordStart and recordStartAnywhere.
const startBytes = 32

// recordStartAnywhere is recordStart for a place inside a line, where a writer
// may have been cut off before it went on: there a field has to follow.
func recordStartAnywhere(b []byte) bool {
	if !recordStart(b) {
		return false
	}
	_, next, _ := bytes.Cut(b[:min(len(b), startBytes)], []byte{'\n'})
	return bytes.HasPrefix(next, []byte("WARC-")) || bytes.HasPrefix(next, []byte("Content-"))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// findRecordStart is the index of the first record that begins in b, behind
// its first byte; -1 for none.
func findRecordStart(b []byte) int {
	for off := 1; off < len(b); off++ {
		i := bytes.Index(b[off:], []byte("WARC/"))
		if i < 0 {
			break
		}
		off += i
		if start := b[off:min(len(b), off+startBytes)]; b[off-1] == '\n' && recordStart(start) || recordStartAnywhere(start) {
			return off
		}
	}
	return -1
}

// parseRecordHeader reads header lines as they are found in the wild: lines
// that end with LF only, names in any case, folded lines, lines without a
// colon (passed over), a URL in angle brackets (wget 1.x). Of a name given
// twice the first counts.
func parseRecordHeader(b []byte) recordHeader {
	h := recordHeader{length: -1}
	var length string
	for name, value := range headerFields(b) {
		var field *string
		switch strings.ToLower(string(name)) {
		case "warc-type":
			field = &h.kind
		case "warc-target-uri":
			field = &h.uri
		case "content-type":
			field = &h.contentType
		case "content-length":
			field = &length
		case "warc-segment-number":
			field = &h.segment
		}
		if field != nil && *field == "" {
			*field = string(value)
		}
	}
	h.kind = strings.ToLower(h.kind)
	h.uri = strings.TrimSuffix(strings.TrimPrefix(h.uri, "<"), ">")
	if n, err := strconv.ParseInt(length, 10, 64); err == nil && n >= 0 {
		h.length = n
	}
	return h
}

// headerFields gives the fields of a header block, behind its first line.
func headerFields(b []byte) func(yield func(name, value []byte) bool) {
	return func(yield func(name, value []byte) bool) {
		_, b, _ = bytes.Cut(b, []byte{'\n'})
		for len(b) > 0 {
			var line []byte
			line, b, _ = bytes.Cut(b, []byte{'\n'})
			for folded := false; len(b) > 0 && (b[0] == ' ' || b[0] == '\t'); folded = true {
				var more []byte
				more, b, _ = bytes.Cut(b, []byte{'\n'})
				if !folded {
					line = bytes.Clone(bytes.TrimRight(line, "\r"))
				}
				line = append(append(line, ' '), bytes.TrimSpace(more)...)
			}
			name, value, ok := bytes.Cut(line, []byte{':'})
			if ok && !yield(bytes.TrimSpace(name), bytes.TrimSpace(value)) {
				return
			}
		}
	}
}
