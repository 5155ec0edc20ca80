// Package client accesses an index on a server ("neardup serve"). Like a local index, a Client has
// the methods of neardup.Checker, and Stats.
//
//	x, err := client.Open(ctx, "http://127.0.0.1:7490", nil) // instead of neardup.Open
//
// Pages, verdicts, documents and queries have the same types as in packages neardup and index.
// Errors have the same values: errors.Is(err, index.ErrFailed) is true for a failed index on
// another machine. Programs that do not link package index find the errors in package [api].
// Package client does not link the store.
//
// If the connection fails, or if the server is busy or about to restart, the client repeats the
// call for up to Options.RetryFor, and then returns the last error. An earlier try may have stored
// a page although its answer was lost. The verdict of the next try is then Unchanged or, for a page
// without a URL, a Duplicate of the page itself. The same is true if the caller checks a page again
// after an error. So save Unchanged pages too, unless you know that they are saved. A repeated
// Delete may return 0 for documents that an earlier try deleted.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/match"
)

// Types of packages neardup and index, which describe their fields: [neardup.Page],
// [neardup.Verdict], [neardup.Status], [index.Document], [index.Match], [index.Query],
// [index.Stats]. An example of a Query:
// client.Query{Signature: fingerprint.Signature{Fingerprint: f}}.
type (
	Page     = api.Page
	Verdict  = api.Verdict
	Status   = api.Status
	Document = match.Document
	Match    = api.Match
	Query    = match.Query
	Stats    = match.Stats
)

// Results of Check for a page, as in package neardup.
const (
	New       = api.New
	Duplicate = api.Duplicate
	Unchanged = api.Unchanged
	Changed   = api.Changed
	Skipped   = api.Skipped
)

// Options configures Open. With nil or the zero value, Open uses the defaults.
type Options struct {
	// Token is the content of the server's --token-file. "": no token.
	Token string

	// TLS is the configuration for an https server. nil: the default configuration, with the
	// certificate authorities of the machine.
	TLS *tls.Config

	// RetryFor is the time for which a failed call is repeated, unless its context ends earlier. 0:
	// 30 s. Below 0: a call is tried once.
	RetryFor time.Duration

	// Timeout is the time for one try, including the wait for a connection. 0: 2 min.
	Timeout time.Duration
}

// Client is a connection to an index on a server. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	opts   Options
	http   *http.Client
	closed atomic.Bool
}

// Open connects to the server at an address such as http://127.0.0.1:7490. Like other calls, Open
// waits for a server that is starting. It fails immediately if the certificate is not valid, or if
// the server is not a neardup server. It returns api.ErrUnauthorized, api.ErrBusy and errors of the
// network.
func Open(ctx context.Context, address string, o *Options) (*Client, error) {
	c := &Client{opts: *cmp.Or(o, &Options{})}
	c.opts.RetryFor = cmp.Or(c.opts.RetryFor, 30*time.Second)
	c.opts.Timeout = cmp.Or(c.opts.Timeout, 2*time.Minute)
	var err error
	if c.base, err = url.Parse(strings.TrimSuffix(address, "/")); err != nil || c.base.Host == "" ||
		c.base.Scheme != "http" && c.base.Scheme != "https" {
		return nil, fmt.Errorf("open %q: want an address such as http://127.0.0.1:7490", address)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // one call per connection; further calls wait
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.opts.TLS,
			MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64, IdleConnTimeout: 2 * time.Minute,
			TLSHandshakeTimeout: 30 * time.Second, WriteBufferSize: 64 << 10,
			DisableCompression: true, Protocols: protocols,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       c.opts.Timeout,
	}
	stats, err := c.Stats(ctx)
	if err == nil && stats.Tables == 0 {
		err = errNoAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", c.base.Redacted(), err)
	}
	return c, nil
}

// Close closes the connections. The index stays open on the server. Later calls return
// api.ErrClosed.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return api.ErrClosed
	}
	c.http.CloseIdleConnections()
	return nil
}
