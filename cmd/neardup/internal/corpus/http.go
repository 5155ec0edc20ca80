package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/neardup/neardup/internal/mediatype"
)

// payload is what a record holds for a reader of it.
type payload struct {
	status      int // 0 where it did not come by HTTP
	contentType string
	encodings   []string // of the body, in the order in which they were applied
	chunked     bool     // behind these
	body        []byte
}

// isHTTP says whether a block is an HTTP message.
func isHTTP(h recordHeader, block []byte) bool {
	return mediatype.Of(h.contentType) == "application/http" ||
		h.kind == "response" && h.contentType == "" && bytes.HasPrefix(block, []byte("HTTP/"))
}

// parseHTTP reads an HTTP response as browsers do, not as net/http does, which
// refuses much that crawls are full of: lines that end with LF only, header
// lines without a colon, "ICY 200 OK", "HTTP/2 200", no reason, interim
// responses in front.
func parseHTTP(block []byte) (payload, *Skip) {
	status, header, body := cutResponse(block)
	if header == nil {
		line, _, _ := bytes.Cut(body[:min(len(body), 60)], []byte{'\n'})
		return payload{}, &Skip{Reason: "bad http", Detail: "no status line: " + strconv.Quote(string(line)), Document: true}
	}
	fields := headerFields(header, "Content-Type", "Content-Encoding", "Transfer-Encoding")
	p := payload{status: status, body: body, encodings: codings(fields["Content-Encoding"])}
	if types := fields["Content-Type"]; len(types) > 0 {
		p.contentType = types[len(types)-1] // the last one counts, as in browsers
	}
	for _, coding := range codings(fields["Transfer-Encoding"]) {
		if p.chunked = p.chunked || coding == "chunked"; coding != "chunked" {
			p.encodings = append(p.encodings, coding)
		}
	}
	return p, nil
}

// cutResponse parts a message behind its interim responses. Without a status line there is no header.
func cutResponse(block []byte) (status int, header, body []byte) {
	for {
		status, ok := parseStatus(block)
		if !ok {
			return 0, nil, block
		}
		header, body = cutHeader(block)
		if status >= 200 || !bytes.HasPrefix(body, []byte("HTTP/")) {
			return status, header, body
		}
		block = body
	}
}

// codings reads lists of codings, lower-case, without those that change nothing, and no more than it takes to know
// that they are too many.
func codings(lists []string) (names []string) {
	for name := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "", "identity", "none", "binary", "7bit", "8bit", "utf-8":
		default:
			if names = append(names, name); len(names) > maxEncodings {
				return names
			}
		}
	}
	return names
}

// parseStatus reads the status of a status line.
func parseStatus(block []byte) (int, bool) {
	line, _, _ := bytes.Cut(block[:min(len(block), 200)], []byte{'\n'})
	protocol, rest, _ := bytes.Cut(line, []byte{' '})
	if !bytes.HasPrefix(protocol, []byte("HTTP")) && !bytes.Equal(protocol, []byte("ICY")) {
		return 0, false
	}
	digits, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte{' '})
	code, err := strconv.ParseUint(string(digits), 10, 16)
	return int(code), err == nil && len(digits) == 3 && code >= 100
}

// cutHeader parts a message behind its first empty line.
func cutHeader(block []byte) (header, body []byte) {
	for off := 0; ; {
		end := bytes.IndexByte(block[off:], '\n')
		if end < 0 {
			return block, nil
		}
		if end == 0 || end == 1 && block[off] == '\r' {
			return block[:off+end+1], block[off+end+1:]
		}
		off += end + 1
	}
}

// dechunk undoes the chunked transfer encoding, in place. Archives often keep
// the header of a body that the crawler has put together already; so a body
// whose first chunk is not one is left as it is. A body that ends before its last
// chunk is given as far as it goes.
func dechunk(body []byte) (out []byte) {
	size, at, ok := chunkHeader(body)
	if !ok || size < len(body)-at && !bytes.HasPrefix(body[at+size:], []byte{'\n'}) && !bytes.HasPrefix(body[at+size:], []byte("\r\n")) {
		return body
	}
	out = body[:0]
	for rest := body; ; {
		size, at, ok = chunkHeader(rest)
		if !ok || size == 0 {
			return out
		}
		rest = rest[at:]
		if size > len(rest) {
			return append(out, rest...)
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
	n, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 28)
	return int(n), end + 1, err == nil
}

// maxEncodings bounds how often a body may be compressed over again.
const maxEncodings = 4

// decode gives the content of a payload, whose body it may change. The headers are
// taken as hints: many archives hold decoded bodies under the headers of
// encoded ones, and some the other way round. A body that is cut short is a
// document as far as it goes, as in a browser.
func (p *payload) decode(limit int64) (content []byte, problem *Skip) {
	body, encodings := p.body, p.encodings
	if p.chunked {
		body = dechunk(body)
	}
	if len(encodings) == 0 && bytes.HasPrefix(body, gzipMagic) {
		encodings = []string{"gzip"}
	}
	if len(encodings) > maxEncodings {
		return nil, &Skip{Reason: "too many content encodings", Detail: fmt.Sprintf("over %d", maxEncodings)}
	}
	for _, name := range slices.Backward(encodings) {
		open, known := decoders[name]
		if !known {
			if looksDecoded(body) {
				continue
			}
			if len(name) > 20 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" { // the input chose it
				name = "unknown"
			}
			return nil, &Skip{Reason: "content encoding " + name, Detail: "cannot be read"}
		}
		r, err := open(body)
		if err == nil && r == nil {
			continue
		}
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(r, limit+1))
			if len(body) > 0 && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrHeader)) {
				err = nil // it is cut short, or there is something behind the last member
			}
		}
		switch {
		case err != nil:
			return nil, &Skip{Reason: "bad " + name + " body", Detail: err.Error(), Err: err}
		case int64(len(body)) > limit:
			return nil, &Skip{Reason: "too large", Detail: fmt.Sprintf("over %d bytes, decoded", limit)}
		}
	}
	if int64(len(body)) > limit {
		return nil, tooLarge(int64(len(body)), limit)
	}
	return body, nil
}

// decoders open a body that has a content encoding. They give nil for one that is not
// encoded that way.
var decoders = map[string]func(body []byte) (io.Reader, error){
	"gzip": openGzip, "x-gzip": openGzip, "deflate": openDeflate, "zstd": openZstd, "br": openBrotli,
}

// openBrotli opens a body of which nothing tells that it is compressed but that it can be
// decompressed.
func openBrotli(body []byte) (io.Reader, error) {
	_, err := io.ReadFull(brotli.NewReader(bytes.NewReader(body)), make([]byte, 1))
	if err != nil && looksDecoded(body) {
		return nil, nil
	}
	return brotli.NewReader(bytes.NewReader(body)), nil
}

func openGzip(body []byte) (io.Reader, error) {
	if !bytes.HasPrefix(body, gzipMagic) {
		return nil, nil
	}
	return gzip.NewReader(bytes.NewReader(body))
}

// openDeflate opens a body in zlib's wrapping, as the standard has it, or a bare one.
func openDeflate(body []byte) (io.Reader, error) {
	switch {
	case len(body) >= 2 && body[0]&0x0f == 8 && (int(body[0])<<8|int(body[1]))%31 == 0:
		return zlib.NewReader(bytes.NewReader(body))
	case looksDecoded(body):
		return nil, nil
	}
	return flate.NewReader(bytes.NewReader(body)), nil
}

func openZstd(body []byte) (io.Reader, error) {
	if !bytes.HasPrefix(body, zstdMagic) {
		return nil, nil
	}
	return zstd.NewReader(bytes.NewReader(body), zstdOptions...) // on this goroutine alone: there is nothing to close
}

// looksDecoded says whether a body can be read as it is.
func looksDecoded(body []byte) bool {
	return len(body) == 0 || mediatype.IsText(body) || bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'<'})
}
