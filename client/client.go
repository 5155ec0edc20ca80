// Package client asks an index that "neardup serve" serves, as package neardup asks one of its own.
//
//	x, err := client.Open("http://127.0.0.1:7490", nil) // where neardup.Open("pages.neardup", nil) stood
//
// Pages, verdicts, documents and queries are the same types, and errors the same values: errors.Is(err,
// index.ErrFailed) is true of a failed index on another machine. It links no store.
//
// A call that fails on its way, or because the server is busy or about to start again, is tried again until
// Options.RetryFor is over. If an earlier try stored a page and its answer was lost, the verdict of the next try is
// Unchanged, or Duplicate of itself for a page without a URL. The same holds for a page that is checked again after a call that
// ended with an error, including the error of its context. So save pages that are Unchanged too, unless they are known to
// be saved. A Delete that is tried again may return 0 for documents that an earlier try deleted.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
	"golang.org/x/net/http/httpguts"
)

// What an index is asked and says. These are types of packages neardup and index, which say what their fields are:
// [neardup.Page], [neardup.Verdict], [neardup.Status], [index.Document], [index.Match], [index.Query], [index.Stats].
// A Query, for instance, is made as client.Query{Signature: fingerprint.Signature{Fingerprint: f}}.
type (
	Page     = wire.Page
	Verdict  = wire.Verdict
	Status   = wire.Status
	Document = match.Document
	Match    = match.Match
	Query    = match.Query
	Stats    = match.Stats
)

// What Check found out about a page, as in package neardup.
const (
	New       = wire.New
	Duplicate = wire.Duplicate
	Unchanged = wire.Unchanged
	Changed   = wire.Changed
	Skipped   = wire.Skipped
)

// Errors. Except for the first two, they are the errors of package index.
var (
	// ErrBusy: the server had too much to do until RetryFor was over. Nothing was done.
	ErrBusy = wire.ErrBusy
	// ErrUnauthorized: the server wants another token.
	ErrUnauthorized = wire.ErrUnauthorized

	ErrClosed   = fault.ErrClosed
	ErrCorrupt  = fault.ErrCorrupt
	ErrDistance = fault.ErrDistance
	ErrFailed   = fault.ErrFailed
	ErrMismatch = fault.ErrMismatch
	ErrNoText   = fault.ErrNoText
	ErrReadOnly = fault.ErrReadOnly
	ErrTooLarge = fault.ErrTooLarge
)

// Options of Open. The zero value is ready to use.
type Options struct {
	// Token is the content of the server's --token-file. "": no token.
	Token string

	// TLS is how an https server is known. nil: by the machine's certificates.
	TLS *tls.Config

	// RetryFor is how long a call is tried again, if its context does not end before. 0: 30 s.
	// Below 0: it is tried once. A try has failed where nothing of its answer comes within two
	// minutes, and a second for each 64 KiB that it sends.
	RetryFor time.Duration

	// Connections is how many there are at most; further calls wait. 0: 64.
	Connections int

	// MaxBody is how many bytes a page may have; a larger one is Skipped, without sending it. 0: 16 MiB, as
	// the server has it.
	MaxBody int
}

// Client asks a served index. Its methods may be called from any goroutine.
type Client struct {
	base   *url.URL
	opts   Options
	http   *http.Client
	closed atomic.Bool
}

var _ wire.Checker = (*Client)(nil)

// Open connects to the server at an address such as http://127.0.0.1:7490. Like calls, it waits for a server that
// is starting. It fails at once if the certificate is not valid, or if the server is no neardup server. Errors:
// ErrUnauthorized, ErrBusy, and the errors of the network.
func Open(address string, o *Options) (*Client, error) {
	c := new(Client)
	if o != nil {
		c.opts = *o
	}
	setDefault(&c.opts.RetryFor, 30*time.Second)
	setDefault(&c.opts.Connections, 64)
	setDefault(&c.opts.MaxBody, 16<<20)
	var err error
	if c.base, err = url.Parse(strings.TrimSuffix(address, "/")); err != nil || c.base.Host == "" || c.base.Scheme != "http" && c.base.Scheme != "https" {
		return nil, fmt.Errorf("open %q: want an address such as http://127.0.0.1:7490", address)
	}
	if !httpguts.ValidHeaderFieldValue(c.opts.Token) {
		return nil, fmt.Errorf("open %s: the token has characters that no header can have", c.base.Redacted())
	}
	if c.opts.Connections < 0 || c.opts.MaxBody < 0 {
		return nil, fmt.Errorf("open %s: Connections %d and MaxBody %d: want 0 for the default, or more", c.base.Redacted(), c.opts.Connections, c.opts.MaxBody)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // a call a connection, so that Connections is what it says
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.opts.TLS, MaxConnsPerHost: c.opts.Connections, MaxIdleConnsPerHost: c.opts.Connections,
			IdleConnTimeout: 2 * time.Minute, TLSHandshakeTimeout: 30 * time.Second, DisableCompression: true, Protocols: protocols,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	stats, err := c.Stats(context.Background())
	if err == nil && stats.Tables == 0 {
		err = errNoAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", c.base.Redacted(), err)
	}
	return c, nil
}

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Close ends the connections. The index stays open at the server. Calls made after it return ErrClosed.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return ErrClosed
	}
	c.http.CloseIdleConnections()
	return nil
}

// failure is what the server said of a call that failed.
type failure struct {
	status int    // of HTTP; 200: it failed on its way
	code   string // as docs/api.md lists them
	text   string
}

func (f *failure) Error() string { return "server: " + f.text }

// Unwrap returns the error that the code stands for.
func (f *failure) Unwrap() error { return wire.OfCode(f.code) }

// again reports whether a call that failed so may succeed a little later.
func again(err error) bool {
	var said *failure
	if errors.As(err, &said) {
		return errors.Is(err, ErrBusy) || errors.Is(err, ErrClosed) || said.code == wire.Timeout || said.status == http.StatusBadGateway ||
			said.status == http.StatusServiceUnavailable || said.status == http.StatusGatewayTimeout
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errFinal) && !errors.Is(err, errLongAnswer) && !isStranger(err)
}

// isStranger reports whether who answers is not the server that is meant, or speaks no HTTP.
func isStranger(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var network *net.OpError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &network) && network.Op == "remote error" || // an alert of TLS
		strings.Contains(err.Error(), "malformed HTTP response") // which has no type
}

// errFinal is of what is not tried again.
var errFinal = errors.New("it is not tried again")

// retry calls do, which sends the given number of bytes, until it succeeds, fails for good, or RetryFor is over. do calls
// heard for each line of the answer.
func (c *Client) retry(ctx context.Context, bytes int, do func(ctx context.Context, heard func()) error) error {
	begun := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if c.closed.Load() {
			return ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := try(ctx, bytes, do)
		if err == nil || !again(err) || time.Since(begun) > c.opts.RetryFor {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// tryTime is how long a try that has a connection waits for the next line of its answer, besides the time that what it sends
// takes at slowBytes a second. One to a process that is stopped, or to a machine that is gone, would have no end.
var tryTime = 2 * time.Minute

const slowBytes = 64 << 10

var errSilent = errors.New("the server takes the call and does not answer")

func try(ctx context.Context, bytes int, do func(ctx context.Context, heard func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(math.MaxInt64, func() { cancel(errSilent) })
	defer late.Stop()
	heard := func() { late.Reset(tryTime + time.Duration(bytes/slowBytes)*time.Second) }
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { heard() }}
	err := do(httptrace.WithClientTrace(ctx, trace), heard)
	if err != nil && context.Cause(ctx) == errSilent {
		return errSilent
	}
	return err
}
