// Package server serves an index over HTTP to crawlers in other processes and on other machines
// (docs/reference/http.md).
//
// A request is read completely. Then its documents are answered in order. Each answer is sent after
// its verdict is durable. The memory of all requests together is bounded.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"golang.org/x/sync/semaphore"
)

// Options configures a Server. The zero value means no token and the default limits.
type Options struct {
	Limits

	// Token is the token that clients must send. If it is empty, each client that can connect may
	// call, so listen on a loopback address only.
	Token string

	// TLS is the configuration of encrypted connections. nil: connections are not encrypted.
	TLS *tls.Config

	// Checkpoints is the directory for checkpoints. If it is empty, clients cannot create any.
	Checkpoints string

	// Rule is the rule of comparisons. nil: the default rule for the k of the index.
	Rule *match.Rule

	// Page serves the web pages, at view.Patterns. nil: no web pages.
	Page http.Handler

	// Log receives the errors of connections. nil: they are discarded.
	Log *slog.Logger

	// AccessLog adds a record for each call to Log.
	AccessLog bool

	// Failed is called once, with the first write error after which the index accepts no writes.
	Failed func(error)
}

// Limits bounds the resources that clients take. A limit of 0 means its default.
type Limits struct {
	// body of a request, inflated; default 32 MiB, at least one document of PageBytes
	RequestBytes int64
	// bodies and long answers of all requests; default 256 MiB, at least twice RequestBytes
	MemoryBytes int64
	PageBytes   int // page, larger ones are skipped; default neardup.DefaultMaxBody

	ReadTimeout  time.Duration // to send a request; default 1 min
	WriteTimeout time.Duration // to read the answer, and between two requests; default 5 min
}

func (l Limits) withDefaults() Limits {
	l.PageBytes = cmp.Or(l.PageBytes, neardup.DefaultMaxBody)
	line := int64(l.PageBytes)/3*4 + 4*(match.MaxKeyBytes+match.MaxScopeBytes) // a page in base64
	l.RequestBytes = max(cmp.Or(l.RequestBytes, 32<<20), line)
	l.MemoryBytes = max(cmp.Or(l.MemoryBytes, 256<<20), 2*l.RequestBytes)
	l.ReadTimeout = cmp.Or(l.ReadTimeout, time.Minute)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 5*time.Minute)
	return l
}

// Server serves one index.
type Server struct {
	index   *neardup.Index
	opts    Options
	limits  Limits
	http    *http.Server
	metrics *metrics

	memory  *semaphore.Weighted // bytes of requests
	queries *semaphore.Weighted // queries for many matches
	// goroutines that analyze pages: a page takes several times its size
	analysis *semaphore.Weighted

	compaction    task
	checkpointing task
	running       sync.WaitGroup // calls and tasks

	// The garbage collector runs when the heap has doubled, which takes only a few requests if the
	// heap is small. The ballast counts as heap, but takes no memory, since it is never touched.
	ballast []byte

	stopping context.Context // done when Shutdown begins
	stop     context.CancelFunc
	failed   atomic.Bool // the index accepts no writes after a failed write
}

// New returns a Server of an index, which must stay open until Shutdown has returned.
func New(x *neardup.Index, o Options) *Server {
	l := o.Limits.withDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Rule == nil {
		o.Rule = new(match.Default(x.Plan().MaxDistance))
	}
	s := &Server{
		index: x, opts: o, limits: l, metrics: newMetrics(x),
		memory:   semaphore.NewWeighted(l.MemoryBytes),
		queries:  semaphore.NewWeighted(32),
		analysis: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))),
		ballast:  make([]byte, 32<<20),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:        s.routes(),
		TLSConfig:      o.TLS.Clone(),
		ConnState:      s.metrics.connState,
		ReadTimeout:    l.ReadTimeout,
		WriteTimeout:   l.WriteTimeout,
		IdleTimeout:    l.WriteTimeout,
		MaxHeaderBytes: 256 << 10, // a URL can have a key of 64 KiB, percent-encoded
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers the connections of a listener until Shutdown, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	serve := s.http.Serve
	if s.opts.TLS != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown cancels compactions and checkpoints, refuses new calls, and waits for calls in progress.
// When ctx is done, it closes their connections. Afterwards the server does not use the index.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.running.Wait()
	return err
}

// noteError checks whether err means that the index accepts no more writes, and reports it once.
func (s *Server) noteError(err error) {
	if errors.Is(err, index.ErrFailed) && !s.failed.Swap(true) && s.opts.Failed != nil {
		s.opts.Failed(err)
	}
}
