package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/view"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

// calls are those of docs/openapi.json.
func (s *Server) table() []call {
	return []call{
		{"POST", "/v1/check", "check", s.check},
		{"POST", "/v1/query", "query", s.query},
		{"GET", "/v1/documents", "get", s.get},
		{"DELETE", "/v1/documents", "delete", s.delete},
		{"GET", "/v1/pairs", "pairs", s.pairs},
		{"GET", "/v1/compare", "compare", s.compare},
		{"GET", "/v1/stats", "stats", s.stats},
		{"POST", "/v1/checkpoint", "checkpoint", s.checkpoint},
		{"GET", "/v1/checkpoint", "checkpointState", s.checkpointState},
		{"POST", "/v1/compact", "compact", s.compact},
		{"GET", "/v1/compact", "compactState", s.compactState},
	}
}

// call is one of the calls. An error that it returns is answered, unless something was written before.
type call struct {
	method, path string
	name         string // in metrics and logs
	do           func(*answer, *http.Request) error
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	paths := make(map[string][]string) // and their methods
	for _, c := range s.table() {
		mux.Handle(c.method+" "+c.path, s.guarded(s.counted(c)))
		paths[c.path] = append(paths[c.path], c.method)
	}
	for path, methods := range paths {
		refuse := failing(&callError{wire.NotAllowed, http.StatusMethodNotAllowed, "want " + strings.Join(methods, " or ")})
		mux.Handle(path, s.guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			refuse.ServeHTTP(w, r)
		})))
	}
	mux.Handle("GET /metrics", s.guarded(s.metrics.handler()))
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	none := s.guarded(failing(&callError{wire.NotFound, http.StatusNotFound, "there is no such call"}))
	mux.Handle("/v1/", none)
	if s.opts.Page != nil {
		mux.Handle("/", s.guarded(s.opts.Page))
	} else {
		mux.Handle("/", none)
	}
	return mux
}

// guarded calls h for callers that know the token or, if there is none, are on this machine. It refuses what a browser
// sends for a page of another site, except GET of the pages for people, which may be linked to.
func (s *Server) guarded(h http.Handler) http.Handler {
	sites := http.NewCrossOriginProtection()
	refuse := failing(&callError{wire.Forbidden, http.StatusForbidden, "cross-origin requests are not allowed"})
	sites.SetDenyHandler(refuse)
	inner := sites.Handler(h)
	h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") && view.IsCrossOrigin(r) { // which may be expensive
			refuse.ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	})
	want := sha256.Sum256([]byte(s.opts.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Token == "" {
			if !isLoopbackHost(r.Host) { // a name of another site may lead here
				writeFailure(w, r, &callError{wire.Forbidden, http.StatusForbidden, "without a token only localhost is served"})
				return
			}
			h.ServeHTTP(w, r)
			return
		}
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			_, given, _ = r.BasicAuth() // of a browser
		}
		if got := sha256.Sum256([]byte(given)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			s.metrics.refused.WithLabelValues("token").Inc()
			w.Header().Set("WWW-Authenticate", `Basic realm="neardup, with the token as the password", charset="UTF-8"`)
			writeFailure(w, r, wire.ErrUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "" || strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback() // HTTP/1.0 may name no host
}

// counted bounds, times and counts the calls.
func (s *Server) counted(c call) http.Handler {
	latency := s.metrics.seconds.WithLabelValues(c.name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		a := &answer{ResponseWriter: w, server: s}
		err := s.bounded(c, a, r)
		if errors.Is(err, context.Canceled) { // the caller is gone, or a read before this call has failed
			err = errGivenUp
		}
		if err != nil {
			s.noteError(err)
			a.fail(r, err)
		}
		latency.Observe(time.Since(begun).Seconds())
		s.metrics.answers.WithLabelValues(c.name, strconv.Itoa(max(a.status, 200))).Inc()
		if log := s.opts.AccessLog; log != nil {
			attrs := []slog.Attr{slog.String("call", c.name), slog.Int("status", max(a.status, 200)), slog.String("from", r.RemoteAddr),
				slog.Int("documents", a.documents), slog.Int64("bytesOut", a.written), slog.Duration("took", time.Since(begun))}
			if err != nil {
				attrs = append(attrs, slog.String("error", err.Error()))
			}
			log.LogAttrs(r.Context(), slog.LevelInfo, "call", attrs...)
		}
	})
}

func (s *Server) bounded(c call, a *answer, r *http.Request) error {
	if s.isStopping() {
		return errStopping
	}
	if !s.calls.TryAcquire(1) {
		s.metrics.refused.WithLabelValues("calls").Inc()
		return wire.ErrBusy
	}
	defer s.calls.Release(1)
	if err := checkLength(r); err != nil {
		return err
	}
	if err := checkEncoding(r); err != nil {
		a.Header().Set("Accept-Encoding", "identity")
		return err
	}
	return c.do(a, r)
}

// checkLength refuses what is posted with HTTP/1.0 and without a length, which net/http takes to be empty.
func checkLength(r *http.Request) error {
	if r.Method == http.MethodPost && !r.ProtoAtLeast(1, 1) && r.Header.Get("Content-Length") == "" {
		return badCall("HTTP/1.0 and no Content-Length: there may be a body, of which nothing was read")
	}
	return nil
}

// checkEncoding refuses a body that is compressed: a page would get the fingerprint of its compressed bytes.
func checkEncoding(r *http.Request) error {
	for _, coding := range strings.Split(strings.Join(r.Header.Values("Content-Encoding"), ","), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") && r.ContentLength != 0 {
			return &callError{wire.ContentEncoding, http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Encoding has %.40q: send the body uncompressed", coding)}
		}
	}
	return nil
}

// errStopping: the server is about to end.
var errStopping = stopping{}

type stopping struct{}

func (stopping) Error() string { return "the server is stopping" }
func (stopping) Unwrap() error { return index.ErrClosed }

// errGivenUp is of a connection on which no more can be read.
var errGivenUp = &callError{"busy", http.StatusServiceUnavailable, "the connection was given up"}

// answer is what a call writes.
type answer struct {
	http.ResponseWriter
	server    *Server
	status    int // 0: nothing was written
	written   int64
	documents int

	accept      bool // the status is 202
	last        bool // what is written now ends the answer, and goes out with it
	multiplexed bool // a stream of HTTP/2, which its write deadline ends though nothing is being written
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(p)
	a.written += int64(n)
	return n, err
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// json answers with one object.
func (a *answer) json(v any) error {
	line, err := wire.Encode(v)
	if err != nil {
		return err
	}
	return a.object(line)
}

// object answers with one that is encoded.
func (a *answer) object(line []byte) error {
	a.Header().Set("Content-Type", "application/json")
	a.Header().Set("Content-Length", strconv.Itoa(len(line)))
	if a.accept {
		a.WriteHeader(http.StatusAccepted)
	}
	_, err := a.Write(line)
	return unread(err)
}

// fail answers with an error; behind lines, it is the last one.
func (a *answer) fail(r *http.Request, err error) {
	if errors.Is(err, errUnread) {
		a.server.metrics.refused.WithLabelValues("unread").Inc()
		return
	}
	http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.server.limits.WriteTime))
	if a.status == 0 {
		a.status = writeFailure(a.ResponseWriter, r, err)
		return
	}
	failure, _ := failureOf(err)
	if line, err := wire.Encode(failure); err == nil {
		a.Write(line)
	}
}

// errUnread: the caller does not take the answer.
var errUnread = errors.New("the answer is not taken")

func unread(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(errUnread, err)
}

func failureOf(err error) (wire.Failure, int) {
	var own *callError
	if errors.As(err, &own) {
		return wire.Failure{Error: own.text, Code: own.code}, own.status
	}
	code, status := wire.CodeOf(err)
	return wire.Failure{Error: err.Error(), Code: code}, status
}

func failing(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeFailure(w, r, err) })
}

// inMidBody has a refusal go out before a stream has ended, and be the last answer on its connection: net/http does not take
// another call after it safely. Else it would wait for more of the body, which a caller who dawdles sends too late.
func inMidBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength < 0 {
		http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Connection", "close")
	}
}

// writeFailure answers with an error, and returns the status. What is left of the body is not read.
func writeFailure(w http.ResponseWriter, r *http.Request, err error) int {
	inMidBody(w, r)
	failure, status := failureOf(err)
	line, _ := json.Marshal(failure)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if status == http.StatusRequestTimeout || errors.Is(err, errStopping) || err == errGivenUp {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(status)
	w.Write(append(line, '\n'))
	return status
}

// healthz says whether a restart would help.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	if s.failed.Load() {
		writeFailure(w, r, index.ErrFailed)
		return
	}
	w.Write([]byte("ok\n"))
}

// readyz says whether calls are taken.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.isStopping() {
		writeFailure(w, r, errStopping)
		return
	}
	s.healthz(w, r)
}
