package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

func badCall(format string, args ...any) error {
	return wire.Failuref(wire.BadRequest, http.StatusBadRequest, format, args...)
}

// errStopping is the error of a server that is about to end.
var errStopping = fmt.Errorf("the server is stopping: %w", index.ErrClosed)

// readError converts the error of reading a body to the error of the answer.
func readError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return fmt.Errorf("%w: the body has more than %d bytes; send fewer documents per request",
			index.ErrTooLarge, tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return wire.Failuref(wire.Timeout, http.StatusRequestTimeout,
			"the body was sent too slowly; send fewer documents per request")
	}
	return badCall("the body ends early or is malformed: %v", err)
}

// writeFailure answers with an error, and returns the status.
func writeFailure(w http.ResponseWriter, err error) int {
	failure := wire.FailureOf(err)
	text, _ := json.Marshal(api.Failure{Error: failure.Said})
	w.Header().Set("Content-Type", "application/json")
	if failure.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if failure.Status == http.StatusRequestTimeout || errors.Is(err, errStopping) {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(failure.Status)
	w.Write(append(text, '\n'))
	return failure.Status
}

// answer is the answer to a call.
type answer struct {
	http.ResponseWriter
	server    *Server
	success   int   // status of a successful answer
	status    int   // 0: the header is not written yet
	claimed   int64 // bytes of memory
	documents int   // of the request or the answer, for the access log

	several bool // the answer can have several objects, one per line
	array   bool // the objects are a JSON array
	out     *bufio.Writer
	line    []byte // the last object
	n       int    // objects so far
}

// claim reserves n bytes of the memory for all requests. If they are not free, it returns ErrBusy.
func (a *answer) claim(n int64) error {
	if !a.server.memory.TryAcquire(n) {
		a.server.metrics.refused.WithLabelValues("memory").Inc()
		return fmt.Errorf(
			"%w: the requests in progress use all memory for requests", api.ErrBusy)
	}
	a.claimed += n
	return nil
}

func (a *answer) release(n int64) {
	a.server.memory.Release(n)
	a.claimed -= n
}

// json answers with the object v. If err is not nil, it returns err instead.
func (a *answer) json(v any, err error) error {
	if err == nil {
		a.out = bufio.NewWriterSize(a, 512)
		err = a.add(v)
	}
	if err != nil {
		return err
	}
	return a.end(nil)
}

// add adds an object. An error becomes an object of an answer with several; else add returns it.
func (a *answer) add(v any) (err error) {
	if failed, is := v.(error); is {
		if !a.several {
			return failed
		}
		v = api.Failure{Error: wire.FailureOf(failed).Said}
	}
	if a.line, err = wire.Append(a.line[:0], v); err != nil {
		return err
	}
	// The answer to one query can be long. Half of callBytes is for out, and half for line.
	if long := int64(len(a.line) - callBytes/2); long > 0 {
		defer func() { a.line = nil }()
		if err := a.claim(long); err != nil {
			return err
		}
		defer a.release(long)
	}
	if a.array {
		a.out.WriteByte("[,"[min(a.n, 1)]) // Flush returns its errors
	}
	a.n++
	_, err = a.out.Write(a.line)
	return err
}

// end writes the rest of the answer. A failure after the first objects becomes the last object.
func (a *answer) end(failed error) error {
	if failed != nil && a.n == 0 {
		return failed
	}
	if failed != nil {
		if err := a.add(failed); err != nil {
			return errors.Join(failed, err)
		}
	}
	if a.array {
		a.out.WriteString("[]\n"[min(a.n, 1):])
	}
	_, err := a.Write(nil) // writes the header, also of an answer without objects
	return errors.Join(failed, err, a.out.Flush())
}

// Write writes a part of the answer, after the header.
func (a *answer) Write(part []byte) (int, error) {
	if a.status == 0 {
		media := "application/json"
		if a.several && !a.array {
			media = api.JSONLines
		}
		a.Header().Set("Content-Type", media)
		a.status = a.success
		a.WriteHeader(a.status)
	}
	return a.ResponseWriter.Write(part)
}
