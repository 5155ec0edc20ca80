package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/wire"
)

// failure is an error that the server has reported.
type failure struct {
	status int // of HTTP; 200 for an error within an answer
	code   string
	text   string
}

func (f *failure) Error() string { return "server: " + f.text }

// Unwrap returns the error that has the code.
func (f *failure) Unwrap() error { return wire.OfCode(f.code) }

// failureOf returns the error of an answer. An answer that a proxy has sent may be any text.
func failureOf(text []byte, status int, otherwise string) error {
	var answer api.Failure
	if json.Unmarshal(text, &answer) != nil || answer.Error.Code == "" {
		return &failure{status, "", fmt.Sprintf("%s: %.200q", otherwise, text)}
	}
	return &failure{status, answer.Error.Code, answer.Error.Message}
}

// errNoAnswer is the error of a JSON object that a neardup server does not send.
var errNoAnswer = errors.New("the answer lacks what was asked for: is it a neardup server?")

// mayPass reports whether a repeated call may succeed.
func mayPass(err error) bool {
	var said *failure
	if errors.As(err, &said) {
		return errors.Is(err, api.ErrBusy) || errors.Is(err, api.ErrClosed) || said.code == wire.Timeout ||
			said.status == http.StatusBadGateway || said.status == http.StatusServiceUnavailable || said.status == http.StatusGatewayTimeout
	}
	var permanent *backoff.PermanentError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var network *net.OpError
	return !errors.As(err, &permanent) && !errors.Is(err, api.ErrClosed) && !errors.Is(err, context.Canceled) &&
		!errors.As(err, &certificate) && !errors.As(err, &record) && !errors.Is(err, http.ErrSchemeMismatch) &&
		!(errors.As(err, &network) && network.Op == "remote error") && // an alert of TLS
		!strings.Contains(err.Error(), "malformed HTTP response") // an error without a type
}

// retry calls try until it succeeds, fails for good, or RetryFor is over.
func (c *Client) retry(ctx context.Context, try func(context.Context) error) error {
	var last error
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 10*time.Millisecond, time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := c.usable(ctx)
		if err == nil {
			limited, cancel := context.WithTimeout(ctx, c.opts.Timeout)
			defer cancel()
			err = try(limited)
			last = err
		}
		if err != nil && !mayPass(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(max(c.opts.RetryFor, 1)))
	if err != nil && ctx.Err() != nil {
		return errors.Join(ctx.Err(), last)
	}
	return err
}

// usable returns the error of a call that is not sent.
func (c *Client) usable(ctx context.Context) error {
	if c.closed.Load() {
		return api.ErrClosed
	}
	return ctx.Err()
}

// maxAnswer is the largest answer, in bytes. It is a variable for tests.
var maxAnswer int64 = 64 << 20

// send sends a call and passes the body of its answer to read, or returns the error that it reports.
func (c *Client) send(ctx context.Context, method, path string, parameters url.Values, contentType string, body []byte, read func(io.Reader) error) error {
	to := *c.base
	to.Path += path
	to.RawQuery = parameters.Encode()
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if c.opts.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return failureOf(text, response.StatusCode, response.Status)
	}
	limited := http.MaxBytesReader(nil, response.Body, maxAnswer)
	if err = read(limited); err == nil {
		_, err = io.CopyN(io.Discard, limited, 1) // up to its end, so that the connection is used again
	}
	var long *http.MaxBytesError
	switch {
	case err == io.EOF:
		return nil
	case errors.As(err, &long):
		return backoff.Permanent(fmt.Errorf("%w: the answer has more than %d bytes; give queries a Limit", api.ErrTooLarge, maxAnswer))
	}
	return err
}

// object makes a call whose body, if there is one, and whose answer are one JSON object each.
func (c *Client) object(ctx context.Context, method, path string, parameters url.Values, body, answer any) error {
	var text []byte
	contentType := ""
	if body != nil {
		var err error
		if text, err = wire.Encode(body); err != nil {
			return err
		}
		contentType = "application/json"
	}
	return c.retry(ctx, func(ctx context.Context) error {
		return c.send(ctx, method, path, parameters, contentType, text, func(r io.Reader) error {
			said, err := io.ReadAll(r)
			if err == nil && json.Unmarshal(said, answer) != nil {
				err = backoff.Permanent(fmt.Errorf("the answer is not JSON: %.200q", said))
			}
			return err
		})
	})
}
