package corpus

import "bytes"

// dechunk undoes the chunked transfer encoding, in place. Archives often keep
// the header of a body that the crawler has put together already; so a body
// whose first chunk is not one is left as it is. cut is true for a body
// that ends before its last chunk.
func dechunk(body []byte) (out []byte, cut bool) {
	size, at, ok := chunkHeader(body)
	if !ok || size < len(body)-at && !bytes.HasPrefix(body[at+size:], []byte{'\n'}) && !bytes.HasPrefix(body[at+size:], []byte("\r\n")) {
		return body, false
	}
	out = body[:0]
	for rest := body; ; {
		size, at, ok = chunkHeader(rest)
		if !ok {
			return out, true
		}
		if size == 0 {
			return out, false
		}
		rest = rest[at:]
		if size > len(rest) {
			return append(out, rest...), true
		}
		out = append(out, rest[:size]...)
		rest = bytes.TrimPrefix(rest[size:], []byte{'\r'})
		rest = bytes.TrimPrefix(rest, []byte{'\n'})
	}
}

// chunkHeader reads the line before a chunk: its size in hex, perhaps padded,
// perhaps with an extension. at is where the chunk begins.
func chunkHeader(b []byte) (size, at int, ok bool) {
	end := bytes.IndexByte(b[:min(len(b), 4<<10)], '\n')
	if end < 0 {
		return 0, 0, false
	}
	digits, _, _ := bytes.Cut(b[:end], []byte{';'})
	digits = bytes.TrimLeft(bytes.TrimSpace(digits), "0")
	if len(digits) == 0 {
		return 0, end + 1, bytes.IndexByte(b[:end], '0') >= 0
	}
	if len(digits) > 7 {
		return 0, 0, false
	}
	for _, c := range digits {
		switch {
		case isDigit(c):
			size = size<<4 | int(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			size = size<<4 | int(c|0x20-'a'+10)
		default:
			return 0, 0, false
		}
	}
	return size, end + 1, true
}
