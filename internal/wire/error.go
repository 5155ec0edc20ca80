package wire

import (
	"errors"
	"fmt"

	"github.com/neardup/neardup/client/api"
)

// codes has the code and the HTTP status of each error that callers can distinguish.
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

// Failure is an error that the server sends and the client returns.
type Failure struct {
	Said   api.Error
	Status int // HTTP status
}

// Failuref returns a Failure.
func Failuref(code string, status int, format string, args ...any) *Failure {
	return &Failure{api.Error{Code: code, Message: fmt.Sprintf(format, args...)}, status}
}

// FailureOf returns the Failure in the chain of err, or a new Failure with the code of err.
func FailureOf(err error) *Failure {
	if f, is := errors.AsType[*Failure](err); is {
		return f
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return Failuref(c.code, c.status, "%v", err)
		}
	}
	return Failuref(Internal, 500, "%v", err)
}

func (f *Failure) Error() string { return f.Said.Message }

// Unwrap returns the error with the code of the Failure, or nil.
func (f *Failure) Unwrap() error {
	for _, c := range codes {
		if c.code == f.Said.Code {
			return c.err
		}
	}
	return nil
}
