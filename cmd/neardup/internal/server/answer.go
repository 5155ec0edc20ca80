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
	code   string
	status int
	text   string
	line   int // number of a malformed document in the request, from 1
}

func (e *callError) Error() string { return e.text }

func refusal(code string, status int, format string, args ...any) *callError {
	return &callError{code: code, status: status, text: fmt.Sprintf(format, args...)}
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
		return fmt.Errorf("%w: the body has more than %d bytes; send fewer documents per request", index.ErrTooLarge, tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refusal(wire.Timeout, http.StatusRequestTimeout, "the body was sent too slowly; send fewer documents per request")
	}
	return badCall("the body ends early or is malformed: %v", err)
}

// failureOf returns the answer to a call that failed, and its status.
func failureOf(err error) (api.Failure, int) {
	var own *callError
	if errors.As(err, &own) {
		return api.Failure{Error: api.Error{Code: own.code, Message: own.text, Line: own.line}}, own.status
	}
	code, status := wire.CodeOf(err)
	return api.Failure{Error: api.Error{Code: code, Message: err.Error()}}, status
}

func failing(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeFailure(w, err) })
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
	written   int64
	documents int
}

// claim claims n bytes of the memory of all requests. It fails if they are not free.
func (a *answer) claim(n int64) error {
	if !a.server.memory.TryAcquire(n) {
		a.server.metrics.refused.WithLabelValues("memory").Inc()
		return fmt.Errorf("%w: the requests in progress take all of its memory for requests", api.ErrBusy)
	}
	a.claimed += n
	return nil
}

func (a *answer) release(n int64) {
	a.server.memory.Release(n)
	a.claimed -= n
}

// Write sends a part of the answer. length is the length of the whole answer, or -1.
func (a *answer) write(text []byte, length int) error {
	if a.status == 0 {
		if length >= 0 {
			a.Header().Set("Content-Length", strconv.Itoa(length))
		}
		a.status = a.success
		a.WriteHeader(a.status)
	}
	n, err := a.ResponseWriter.Write(text)
	a.written += int64(n)
	return err
}

// json answers with one object.
func (a *answer) json(v any) error {
	text, err := wire.Encode(v)
	if err != nil {
		return err
	}
	if long := int64(len(text)) - callBytes; long > 0 {
		if err := a.claim(long); err != nil {
			return err
		}
	}
	a.Header().Set("Content-Type", "application/json")
	return a.write(text, len(text))
}

// form is how the answers to the documents of a request are written.
type form int

const (
	asLines  form = iota // one object per line
	asArray              // a JSON array
	asObject             // the object of the only document
)

// documentWriter writes the answers to the documents of a request.
type documentWriter struct {
	*answer
	form form
	text []byte // encoded and not sent
	n    int    // answers so far
}

// add adds the answer to a document. A malformed document of several is an answer like others.
func (w *documentWriter) add(v any) error {
	if failed, is := v.(error); is {
		if w.form == asObject {
			return failed
		}
		v, _ = failureOf(failed)
	}
	if w.form == asArray {
		w.text = append(w.text, "[,"[min(w.n, 1)])
	}
	before := len(w.text)
	var err error
	if w.text, err = wire.Append(w.text, v); err != nil {
		return err
	}
	if long := int64(len(w.text) - max(before, callBytes)); long > 0 { // the answer to one query may be long
		if err := w.claim(long); err != nil {
			w.text = w.text[:before]
			return err
		}
		defer w.release(long)
	}
	w.n++
	w.documents++
	if len(w.text) < callBytes {
		return nil
	}
	return w.send(-1)
}

func (w *documentWriter) send(length int) error {
	text := w.text
	w.text = w.text[:0]
	return w.write(text, length)
}

// end sends the rest. If the call has failed after the first answers, the last one is the error.
func (w *documentWriter) end(failed error) error {
	if failed != nil && (w.n == 0 || w.form == asObject) {
		return failed
	}
	if failed != nil {
		if err := w.add(failed); err != nil {
			return errors.Join(failed, err)
		}
	}
	if w.form == asArray {
		w.text = append(w.text, "[]\n"[min(w.n, 1):]...)
	}
	length := len(w.text)
	if w.status != 0 {
		length = -1
	}
	return errors.Join(failed, w.send(length))
}
