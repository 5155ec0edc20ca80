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

// payload is the content of a record before it is decoded.
type payload struct {
	status      int // 0 if it is not an HTTP response
	contentType string
	encodings   []string // of the body, in the order in which they were applied
	chunked     bool     // the encoded body is chunked
	body        []byte
	name        string // URL
}

// isHTTP reports whether a block is an HTTP message.
func isHTTP(h recordHeader, block []byte) bool {
	return mediatype.Of(h.contentType) == "application/http" ||
		h.kind == "response" && h.contentType == "" && bytes.HasPrefix(block, []byte("HTTP/"))
}

// parseHTTP parses an HTTP response as browsers do. Crawls contain responses that net/http rejects:
// lines that end with LF, header lines without a colon, "ICY 200 OK", "HTTP/2 200", no reason, and
// interim responses before the response.
func parseHTTP(block []byte) (payload, *Skip) {
	status, ok := parseStatus(block)
	header, body := cutHeader(block)
	for ok && status < 200 && bytes.HasPrefix(body, []byte("HTTP/")) {
		block = body
		status, ok = parseStatus(block)
		header, body = cutHeader(block)
	}
	if !ok {
		line, _, _ := bytes.Cut(block[:min(len(block), 60)], []byte{'\n'})
		return payload{},
			&Skip{Reason: "bad http", Detail: "no status line: " + strconv.Quote(string(line)),
				Document: true}
	}
	fields := headerFields(header)
	p := payload{status: status, body: body, encodings: codings(fields["content-encoding"])}
	if types := fields["content-type"]; len(types) > 0 {
		p.contentType = types[len(types)-1] // the last one counts, as in browsers
	}
	for _, coding := range codings(fields["transfer-encoding"]) {
		if coding == "chunked" {
			p.chunked = true
		} else {
			p.encodings = append(p.encodings, coding)
		}
	}
	return p, nil
}

// parseStatus parses the status of a status line.
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

// cutHeader cuts a message after its first empty line.
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

// codings returns the codings of lists in lower case, without codings that do not change the body.
// It returns at most one more than maxEncodings.
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

// dechunk removes the chunked transfer encoding. Archives often have the header of a chunked body
// although the crawler joined the chunks, and the first line of such a body may be a number.
// Therefore, a body is chunked only if it consists of chunks, up to the last chunk or to the end of
// a truncated body. A body that ends in its first chunk is chunked unless looksDecoded accepts it.
func dechunk(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for rest := body; len(rest) > 0; {
		line, data, hasEnd := bytes.Cut(rest, []byte{'\n'})
		// an extension may follow the size
		digits, _, _ := bytes.Cut(line[:min(len(line), 1<<10)], []byte{';'})
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

// maxEncodings bounds the number of encodings of a body.
const maxEncodings = 4

// decode returns the content of a payload. The header is only a hint: many archives contain decoded
// bodies with the header of encoded bodies, and servers confuse gzip and deflate. A truncated body
// is decoded up to its end, as in a browser.
func (p *payload) decode(limit int64) (content []byte, problem *Skip) {
	body, encodings := p.body, p.encodings
	if p.chunked {
		body = dechunk(body)
	}
	if len(encodings) == 0 && bytes.HasPrefix(body, gzipMagic) {
		encodings = []string{"gzip"}
	}
	if len(encodings) > maxEncodings {
		return nil, &Skip{Reason: "too many content encodings",
			Detail: fmt.Sprintf("more than %d", maxEncodings)}
	}
	for _, name := range slices.Backward(encodings) {
		r, err := openBody(name, body)
		if err == nil && r == nil {
			continue
		}
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(r, limit+1))
			if len(body) > 0 && (errors.Is(err, io.ErrUnexpectedEOF) ||
				errors.Is(err, gzip.ErrHeader)) {
				err = nil // the body is truncated, or other data follows the last member
			}
		}
		switch {
		case errors.Is(err, errEncoding):
			return nil, &Skip{Reason: errEncoding.Error(), Detail: fmt.Sprintf("%.40q", name)}
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

var errEncoding = errors.New("unknown content encoding")

// openBody returns a reader that decodes a body, or nil if the body is not encoded. The first bytes
// of the body take precedence over the name of the encoding. Brotli and deflate have no such bytes.
func openBody(name string, body []byte) (io.Reader, error) {
	known := slices.Contains([]string{"gzip", "x-gzip", "deflate", "x-deflate", "zstd", "br"}, name)
	r := bytes.NewReader(body)
	switch {
	case known && bytes.HasPrefix(body, gzipMagic):
		return gzip.NewReader(r)
	case known && bytes.HasPrefix(body, zstdMagic):
		return zstd.NewReader(r, zstdOptions...) // on this goroutine, so it need not be closed
	case name == "br" && isBrotli(body):
		return brotli.NewReader(r), nil
	case looksDecoded(body):
		return nil, nil
	case !known:
		return nil, errEncoding
	case len(body) >= 2 && body[0]&0x0f == 8 && (int(body[0])<<8|int(body[1]))%31 == 0:
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// isBrotli reports whether at least one byte can be decompressed.
func isBrotli(body []byte) bool {
	_, err := io.ReadFull(brotli.NewReader(bytes.NewReader(body)), make([]byte, 1))
	return err == nil
}

// looksDecoded reports whether a body can be read as it is.
func looksDecoded(body []byte) bool {
	return len(body) == 0 || mediatype.IsText(body) ||
		bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'<'})
}
