package corpus

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/neardup/neardup/fingerprint"
)

// maxListLine bounds a line of a list of fingerprints: its key is a URL.
const maxListLine = 1 << 20

// fingerprintLines reads lines of fingerprint or fingerprint TAB key, the key as QuoteKey
// writes it.
func (s *source) fingerprintLines() {
	s.lines(maxListLine, func(offset int64, line []byte, size int64) bool {
		if line == nil {
			return s.skip(offset, "", tooLarge(size, maxListLine))
		}
		if offset == 0 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		digits, field, _ := bytes.Cut(line, []byte{'\t'})
		key := UnquoteKey(string(field))
		fp, err := fingerprint.Parse(string(digits[:min(len(digits), 64)]))
		if err != nil {
			return s.skip(offset, key, Skip{Reason: "bad fingerprint", Detail: err.Error(), Document: true, Err: err})
		}
		return s.send(&Record{Offset: offset, Key: key, Kind: Fingerprint, Fingerprint: fp})
	})
}

// fingerprintBytes reads fingerprints of 8 bytes, little-endian.
func (s *source) fingerprintBytes() {
	for {
		b := s.w.peek(8)
		if len(b) < 8 {
			break
		}
		rec := Record{Offset: s.w.pos, Kind: Fingerprint, Fingerprint: fingerprint.Fingerprint(binary.LittleEndian.Uint64(b))}
		s.w.advance(8)
		if !s.send(&rec) {
			return
		}
	}
	if s.w.damage() != nil {
		s.endOfLines(s.w.pos)
		return
	}
	if n := len(s.w.peek(8)); n > 0 {
		s.skip(s.w.pos, "", Skip{Reason: "truncated fingerprint", Detail: fmt.Sprintf("%d bytes at the end: want 8", n), Document: true, Broken: true})
	}
}

func tooLarge(size, limit int64) Skip {
	return Skip{Reason: "too large", Detail: fmt.Sprintf("%d bytes, limit %d", size, limit), Document: true}
}
