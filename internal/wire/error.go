package wire

import (
	"errors"

	"github.com/neardup/neardup/client/api"
)

// codes are the codes of the errors that callers tell apart, each with its HTTP status.
var codes = []struct {
	err    error
	code   string
	status int
}{
	{api.ErrUnauthorized, "unauthorized", 401},
	{api.ErrBusy, "busy", 503},
	{api.ErrClosed, "closed", 503},
	{api.ErrFailed, "failed", 500},
	{api.ErrCorrupt, "corrupt", 500},
	{api.ErrReadOnly, "read_only", 403},
	{api.ErrMismatch, "mismatch", 409},
	{api.ErrDistance, "distance", 400},
	{api.ErrNoText, "no_text", 422},
	{api.ErrTooLarge, "too_large", 413},
}

// Codes that have no Go error.
const (
	BadRequest = "bad_request" // 400: the request does not follow docs/reference/http.md
	// 400, or 200 for one of several documents: a document is malformed
	BadLine     = "bad_line"
	Forbidden   = "forbidden"    // 403: a request of another site or for another host
	NotFound    = "not_found"    // 404: no such path, or no document has the key
	NotAllowed  = "not_allowed"  // 405: the path has other methods
	Timeout     = "timeout"      // 408: the body was sent too slowly
	Exists      = "exists"       // 409: a checkpoint of that name exists
	ContentType = "content_type" // 415: no parser reads the Content-Type or the Content-Encoding
	Internal    = "internal"     // 500: any other error
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

// OfCode returns the error that has a code, or nil.
func OfCode(code string) error {
	for _, c := range codes {
		if c.code == code {
			return c.err
		}
	}
	return nil
}
