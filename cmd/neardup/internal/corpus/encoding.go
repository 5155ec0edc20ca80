package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// maxEncodings bounds how often a body may be compressed over again.
const maxEncodings = 4

// bodyDecoder undoes the encodings of HTTP bodies. Its zero value is ready.
type bodyDecoder struct {
	gzip gzip.Reader
	zstd *zstd.Decoder // decodes on the caller's goroutine, so there is nothing to close
}

var bodyDecoders = sync.Pool{New: func() any { return new(bodyDecoder) }}

// decode gives the content of a payload, whose body it may change. The headers are
// taken as hints: many archives hold decoded bodies under the headers of
// encoded ones, and some the other way round. A body that is cut short is a
// document as far as it goes, as in a browser.
func (d *bodyDecoder) decode(p payload, limit int64) (content []byte, repaired string, problem *Skip) {
	body := p.body
	encodings := splitList(p.contentEncoding)
	for _, transfer := range splitList(p.transferEncoding) {
		if transfer != "chunked" {
			encodings = append(encodings, transfer)
			continue
		}
		var cut bool
		if body, cut = dechunk(body); cut {
			repaired = "chunked body cut short"
		}
	}
	if len(encodings) == 0 && bytes.HasPrefix(body, gzipMagic) {
		encodings = []string{"gzip"}
	}
	if len(encodings) > maxEncodings {
		return nil, "", &Skip{Reason: "too many content encodings", Detail: fmt.Sprint(len(encodings))}
	}
	for i := len(encodings) - 1; i >= 0; i-- {
		r, problem := d.open(encodings[i], body)
		if problem != nil {
			return nil, "", problem
		}
		if r == nil {
			continue
		}
		var cut bool
		if body, cut, problem = readBody(r, encodings[i], limit); problem != nil {
			return nil, "", problem
		}
		if cut {
			repaired = encodings[i] + " body cut short"
		}
	}
	if int64(len(body)) > limit {
		large := tooLarge(int64(len(body)), limit)
		return nil, "", &large
	}
	return body, repaired, nil
}

// splitList reads the list of a header, lower-case, without the codings that
// change nothing.
func splitList(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "", "identity", "none", "binary", "7bit", "8bit", "utf-8":
		default:
			names = append(names, name)
		}
	}
	return names
}

// open gives a reader of the decoded body; nil for a body that is not encoded
// that way.
func (d *bodyDecoder) open(encoding string, body []byte) (r io.Reader, problem *Skip) {
	var err error
	switch encoding {
	case "gzip", "x-gzip":
		if !bytes.HasPrefix(body, gzipMagic) {
			return nil, nil
		}
		err = d.gzip.Reset(bytes.NewReader(body))
		r = &d.gzip
	case "deflate": // in zlib's wrapping, as the standard has it, or bare
		switch {
		case isZlib(body):
			r, err = zlib.NewReader(bytes.NewReader(body))
		case !looksDecoded(body):
			r = flate.NewReader(bytes.NewReader(body))
		}
	case "zstd":
		if !bytes.HasPrefix(body, zstdMagic) {
			return nil, nil
		}
		if d.zstd == nil {
			d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		}
		if err == nil {
			err = d.zstd.Reset(bytes.NewReader(body))
		}
		r = d.zstd
	default:
		if !looksDecoded(body) {
			return nil, &Skip{Reason: "content encoding " + encodingName(encoding), Detail: "cannot be read"}
		}
	}
	if err != nil {
		return nil, badBody(encoding, err)
	}
	return r, nil
}

// readBody reads all of r, up to limit bytes. cut is true where it ends too
// early.
func readBody(r io.Reader, encoding string, limit int64) (body []byte, cut bool, problem *Skip) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case int64(len(body)) > limit:
		return nil, false, &Skip{Reason: "too large", Detail: fmt.Sprintf("over %d bytes, decoded", limit)}
	case err == nil, len(body) > 0 && errors.Is(err, gzip.ErrHeader): // there is something behind the last member
		return body, false, nil
	case len(body) > 0 && errors.Is(err, io.ErrUnexpectedEOF):
		return body, true, nil
	}
	return nil, false, badBody(encoding, err)
}

func badBody(encoding string, err error) *Skip {
	return &Skip{Reason: "bad " + encoding + " body", Detail: err.Error(), Err: err}
}

// encodingName is what is safe to say of the name of an encoding.
func encodingName(name string) string {
	if len(name) > 20 || !isToken(name) {
		return "unknown"
	}
	return name
}

// looksDecoded says whether a body can be read as it is.
func looksDecoded(body []byte) bool {
	return len(body) == 0 || isText(body) || bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'<'})
}

func isZlib(b []byte) bool {
	return len(b) >= 2 && b[0]&0x0f == 8 && (int(b[0])<<8|int(b[1]))%31 == 0
}
