package wire

import (
	"errors"

	"github.com/neardup/neardup/internal/fault"
)

// Failure is the answer to a call that failed, the last line of the answer to a call that failed on its way, or the
// answer to one malformed line.
type Failure struct {
	Error string `json:"error"`
	Code  string `json:"code"`

	// Of a malformed line (BadLine), after which the answer goes on.
	Line     int    `json:"line,omitempty"` // its number in the request, from 1
	Key      string `json:"key,omitempty"`
	KeyBytes []byte `json:"keyBytes,omitempty"`
}

// Errors of a connection.
var (
	// ErrBusy: the server has as much to do as it takes at once; nothing was done. Try again later.
	ErrBusy = errors.New("server is busy")

	// ErrUnauthorized: the server wants another token.
	ErrUnauthorized = errors.New("token is missing or wrong")
)

// codes are those of errors that callers tell apart, and the status of HTTP that goes with each.
var codes = []struct {
	err    error
	code   string
	status int
}{
	{ErrUnauthorized, "unauthorized", 401},
	{ErrBusy, "busy", 503},
	{fault.ErrClosed, "closed", 503},
	{fault.ErrFailed, "failed", 500},
	{fault.ErrCorrupt, "corrupt", 500},
	{fault.ErrReadOnly, "read_only", 403},
	{fault.ErrMismatch, "mismatch", 409},
	{fault.ErrDistance, "distance", 400},
	{fault.ErrNoText, "no_text", 422},
	{fault.ErrTooLarge, "too_large", 413},
}

// Codes that stand for no error of Go's.
const (
	BadRequest      = "bad_request"      // 400: the call is not as docs/api.md says
	BadLine         = "bad_line"         // 200: one line is malformed; the call goes on
	ContentType     = "content_type"     // 415: the body is of a type that no parser reads
	Forbidden       = "forbidden"        // 403: from a page of another site, or for another host
	NotFound        = "not_found"        // 404
	NotAllowed      = "not_allowed"      // 405: another method
	Exists          = "exists"           // 409: the folder of a checkpoint holds something
	Timeout         = "timeout"          // 408: the sender was too slow
	ContentEncoding = "content_encoding" // 415: the body is compressed
	Internal        = "internal"         // 500: anything else
)

// CodeOf returns the code and the HTTP status of an error.
func CodeOf(err error) (code string, status int) {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code, c.status
		}
	}
	return Internal, 500
}

// OfCode returns the error that callers tell apart by a code, or nil.
func OfCode(code string) error {
	for _, c := range codes {
		if c.code == code {
			return c.err
		}
	}
	return nil
}
