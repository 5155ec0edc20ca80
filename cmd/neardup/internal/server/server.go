// Package server serves an index over HTTP to crawlers on other processes and machines (docs/api.md,
// "serve").
//
// It guarantees that what was answered holds as Check's verdicts do: a line comes out once what it says is
// durable, in the order of the lines that came in. Whatever clients do, what they take is bounded:
// connections, calls, and the bytes that are read and not answered, and each has its time; what is over a bound
// is refused at once, counted, and nothing of it is done. Nothing waits in a queue without a bound.
package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"golang.org/x/sync/semaphore"
)

// Options of a Server. The zero value serves without a token, with the default limits.
type Options struct {
	Limits

	// Token is what callers must know. "": whoever can connect may call; serve it on loopback only.
	Token string

	// TLS is how callers know the server. nil: connections are not encrypted.
	TLS *tls.Config

	// Checkpoints is the folder that checkpoints are made in. "": none are.
	Checkpoints string

	// CompactionBytes is the memory for sorting that a compaction takes. 0: 1 GiB.
	CompactionBytes int64

	// Rule returns by what compare compares at the time. nil: the rule of the index's analyzer and k.
	Rule func() match.Rule

	// Page shows the index to people, at "/". nil: there is nothing there.
	Page http.Handler

	// AccessLog gets a line for each call. nil: none.
	AccessLog *slog.Logger

	// Failed is told, once, why the index takes no more writes. nil: no one is.
	Failed func(error)
}

// panics is what net/http logs to. Calls that panicked are told with their traces; what clients do wrong is counted.
type panics struct{}

func (panics) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("panic serving")) {
		log.Print(string(text))
	}
	return len(text), nil
}

// Server serves one index.
type Server struct {
	index   *neardup.Index
	opts    Options
	limits  Limits
	handler http.Handler
	http    *http.Server
	metrics *metrics

	calls    *semaphore.Weighted // calls under way
	bytes    *semaphore.Weighted // read and not answered yet, or of queries and not taken yet
	queries  *semaphore.Weighted // that are in the index
	batches  *semaphore.Weighted // that are in the index
	analysis *semaphore.Weighted // pages that are made fingerprints of: one takes several times its size

	compaction    task
	checkpointing task
	tasks         sync.WaitGroup // compactions and checkpoints that are running

	stopping context.Context // done when no more is to be begun
	stop     context.CancelFunc
	cut      atomic.Bool // connections are closed one after the other, whatever is under way
	failed   atomic.Bool // a write has failed, and so will all later ones
}

// New makes a Server of an index, which must stay open until Close has returned.
func New(x *neardup.Index, o Options) *Server {
	l := o.Limits.withDefaults()
	s := &Server{
		index: x, opts: o, limits: l, metrics: newMetrics(x),
		calls:    semaphore.NewWeighted(int64(l.Calls)),
		bytes:    semaphore.NewWeighted(l.Bytes),
		queries:  semaphore.NewWeighted(maxBatches),
		batches:  semaphore.NewWeighted(maxBatches),
		analysis: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.handler = untilLast(s.routes())
	s.http = &http.Server{
		Handler:           s.handler,
		ConnContext:       withConn,
		ReadHeaderTimeout: l.HeaderTime,
		ReadTimeout:       l.BodyTime,
		WriteTimeout:      l.BodyTime + l.WriteTime,
		IdleTimeout:       l.IdleTime,
		MaxHeaderBytes:    l.HeaderBytes,
		ErrorLog:          log.New(panics{}, "", 0),
	}
	return s
}

// Handler returns what answers calls. It leaves the bounds of connections and their times to its server.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on a listener until Shutdown, and returns nil then.
func (s *Server) Serve(l net.Listener) error {
	s.http.ConnState = s.noteState
	serve := s.http.Serve
	if s.opts.TLS != nil {
		s.http.TLSConfig = s.opts.TLS.Clone()
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	err := serve(&boundedListener{Listener: l, server: s, room: make(chan struct{}, s.limits.Connections)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown takes no more calls, and ends when those under way are answered, or ctx does.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.cut.Store(true)
		err = errors.Join(err, s.http.Close())
	}
	return err
}

// Close must follow Shutdown. It ends when nothing uses the index any more.
func (s *Server) Close() {
	s.stop()
	s.cut.Store(true)
	s.http.Close()
	s.calls.Acquire(context.Background(), int64(s.limits.Calls)) // until each handler has returned
	s.tasks.Wait()
}

func (s *Server) isStopping() bool { return s.stopping.Err() != nil }

// noteError remembers that the index takes no more writes, and tells why.
func (s *Server) noteError(err error) {
	if errors.Is(err, index.ErrFailed) && !s.failed.Swap(true) && s.opts.Failed != nil {
		s.opts.Failed(err)
	}
}
