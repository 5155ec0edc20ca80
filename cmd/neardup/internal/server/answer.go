package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

// callError is an error that has a code and no Go error for callers.
type callError struct {
	failure api.Error
	status  int
}

func (e *callError) Error() string { return e.failure.Message }

func refusal(code string, status int, format string, args ...any) *callError {
	return &callError{api.Error{Code: code, Message: fmt.Sprintf(format, args...)}, status}
}

func badCall(format string, args ...any) error {
	return refusal(wire.BadRequest, http.StatusBadRequest, format, args...)
}

// errStopping is the error of a server that is about to end.
var errStopping = fmt.Errorf("the server is stopping: %w", index.ErrClosed)

// readError returns the error of a body that could not be read.
func readError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return fmt.Errorf("%w: the body has more than %d bytes; send fewer documents per request",
			index.ErrTooLarge, tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refusal(wire.Timeout, http.StatusRequestTimeout,
			"the body was sent too slowly; send fewer documents per request")
	}
	return badCall("the body ends early or is malformed: %v", err)
}

// failureOf returns the answer to a call that failed, and its status.
func failureOf(err error) (api.Failure, int) {
	var own *callError
	if errors.As(err, &own) {
		return api.Failure{Error: own.failure}, own.status
	}
	code, status := wire.CodeOf(err)
	return api.Failure{Error: api.Error{Code: code, Message: err.Error()}}, status
}

// writeFailure answers with an error, and returns the status.
func writeFailure(w http.ResponseWriter, err error) int {
	failure, status := failureOf(err)
	text, _ := json.Marshal(failure)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if status == http.StatusRequestTimeout || errors.Is(err, errStopping) {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
	return status
}

// answer is the answer to a call.
type answer struct {
	http.ResponseWriter
	server    *Server
	success   int   // status of a successful answer
	status    int   // 0: nothing is written yet
	claimed   int64 // bytes of memory
	documents int   // of the request or the answer, for the access log

	several bool   // several objects, one per line
	array   bool   // the objects are a JSON array
	text    []byte // encoded and not written
	n       int    // objects so far
}

// claim claims n bytes of the memory of all requests. It fails if they are not free.
func (a *answer) claim(n int64) error {
	if !a.server.memory.TryAcquire(n) {
		a.server.metrics.refused.WithLabelValues("memory").Inc()
		return fmt.Errorf(
			"%w: the requests in progress take all of its memory for requests", api.ErrBusy)
	}
	a.claimed += n
	return nil
}

func (a *answer) release(n int64) {
	a.server.memory.Release(n)
	a.claimed -= n
}

// json answers with one object, or returns the error of making it.
func (a *answer) json(v any, err error) error {
	if err == nil {
		err = a.add(v)
	}
	if err != nil {
		return err
	}
	return a.end(nil)
}

// add adds an object to the answer. An error is an object like others, if there may be several.
func (a *answer) add(v any) error {
	if failed, is := v.(error); is {
		if !a.several {
			return failed
		}
		v, _ = failureOf(failed)
	}
	text := a.text
	if a.array {
		text = append(text, "[,"[min(a.n, 1)])
	}
	text, err := wire.Append(text, v)
	if err != nil {
		return err
	}
	// the answer to one query may be long
	if long := int64(len(text) - max(len(a.text), callBytes)); long > 0 {
		if err := a.claim(long); err != nil {
			return err
		}
		defer a.release(long)
	}
	a.text = text
	if a.n++; len(a.text) < callBytes {
		return nil
	}
	return a.write(-1)
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
		a.text = append(a.text, "[]\n"[min(a.n, 1):]...)
	}
	return errors.Join(failed, a.write(len(a.text)))
}

// write writes the text so far. length is the length of the answer if this is all of it, or -1.
func (a *answer) write(length int) error {
	if a.status == 0 {
		media := "application/json"
		if a.several && !a.array {
			media = api.JSONLines
		}
		a.Header().Set("Content-Type", media)
		if length >= 0 {
			a.Header().Set("Content-Length", strconv.Itoa(length))
		}
		a.status = a.success
		a.WriteHeader(a.status)
	}
	_, err := a.ResponseWriter.Write(a.text)
	a.text = a.text[:0]
	return err
}
