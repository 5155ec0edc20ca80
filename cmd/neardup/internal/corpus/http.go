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
	chunked     bool     // after these
	body        []byte
	name        string // URL
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
	fields := headerFields(header)
	p := payload{status: status, body: body, encodings: codings(fields["content-encoding"])}
	if types := fields["content-type"]; len(types) > 0 {
		p.contentType = types[len(types)-1] // the last one counts, as in browsers
	}
	for _, coding := range codings(fields["transfer-encoding"]) {
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

// dechunk removes the chunked transfer encoding. Archives often keep the header of a body whose chunks
// the crawler has joined already, and the first line of such a body may be a number. Therefore, a body
// is chunked only if all of it is chunks, up to the last chunk or to the end of a truncated body. A body
// that is truncated in its first chunk is chunked if it is binary otherwise.
func dechunk(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for rest := body; len(rest) > 0; {
		line, data, hasEnd := bytes.Cut(rest, []byte{'\n'})
		digits, _, _ := bytes.Cut(line[:min(len(line), 1<<10)], []byte{';'}) // an extension follows it
		size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 28)
		switch {
		case err != nil || !hasEnd:
			return body
		case size == 0 && len(out) == 0 && len(bytes.TrimSpace(data)) > 0:
			return body // the number 0, and text
		case size == 0:
			return out
		case int(size) > len(data) && len(out) == 0 && looksDecoded(data):
			return body
		case int(size) > len(data):
			return append(out, data...)
		}
		out, data = append(out, data[:size]...), data[size:]
		rest = bytes.TrimPrefix(bytes.TrimPrefix(data, []byte{'\r'}), []byte{'\n'})
		if len(rest) == len(data) && len(rest) > 0 {
			return body // no line end follows the chunk
		}
	}
	return out
}

// maxEncodings bounds how often a body may be compressed over again.
const maxEncodings = 4

// decode returns the content of a payload, whose body it may change. The headers are taken as hints: many
// archives hold decoded bodies under the headers of encoded ones, and servers confuse gzip and deflate. A
// body that is cut short is decoded as far as it goes, as in a browser.
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
			return nil, tooLarge(limit)
		}
	}
	if int64(len(body)) > limit {
		return nil, tooLarge(limit)
	}
	return body, nil
}

// decoders open a body by the name of its content encoding. They return nil for a body that is not encoded.
var decoders = map[string]func(body []byte) (io.Reader, error){
	"gzip": openBody, "x-gzip": openBody, "deflate": openBody, "x-deflate": openBody, "zstd": openBody, "br": openBrotli,
}

// openBody opens a body by its first bytes, whatever its content encoding is called. Bytes that begin
// like no other encoding are deflate without a header.
func openBody(body []byte) (io.Reader, error) {
	r := bytes.NewReader(body)
	switch {
	case bytes.HasPrefix(body, gzipMagic):
		return gzip.NewReader(r)
	case bytes.HasPrefix(body, zstdMagic):
		return zstd.NewReader(r, zstdOptions...) // on this goroutine: there is nothing to close
	case looksDecoded(body):
		return nil, nil
	case len(body) >= 2 && body[0]&0x0f == 8 && (int(body[0])<<8|int(body[1]))%31 == 0:
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// openBrotli opens a body, which only decompressing tells from one that is not compressed.
func openBrotli(body []byte) (io.Reader, error) {
	if _, err := io.ReadFull(brotli.NewReader(bytes.NewReader(body)), make([]byte, 1)); err != nil {
		return openBody(body)
	}
	if r := brotli.NewReader(bytes.NewReader(body)); !bytes.HasPrefix(body, gzipMagic) && !bytes.HasPrefix(body, zstdMagic) {
		return r, nil
	}
	return openBody(body)
}

// looksDecoded reports whether a body can be read as it is.
func looksDecoded(body []byte) bool {
	return len(body) == 0 || mediatype.IsText(body) || bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'<'})
}
