package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

// failure is an error that the server has reported.
type failure struct {
	said   api.Error
	status int // of HTTP; 200 for an error within an answer
}

func (f *failure) Error() string { return "server: " + f.said.Message }

// Unwrap returns the error that has the code.
func (f *failure) Unwrap() error { return wire.OfCode(f.said.Code) }

// failureOf returns the error of an answer. An answer that a proxy has sent may be any text.
func failureOf(text []byte, status int, otherwise string) error {
	var answer api.Failure
	if json.Unmarshal(text, &answer) != nil || answer.Error.Code == "" {
		answer.Error = api.Error{Message: fmt.Sprintf("%s: %.200q", otherwise, text)}
	}
	return &failure{answer.Error, status}
}

// errNoAnswer is the error of a JSON object that a neardup server does not send.
var errNoAnswer = errors.New("the answer is incomplete: is it a neardup server?")

// mayPass reports whether a repeated call may succeed.
func mayPass(err error) bool {
	var f *failure
	if errors.As(err, &f) {
		return errors.Is(err, api.ErrBusy) || errors.Is(err, api.ErrClosed) ||
			f.said.Code == wire.Timeout || f.status == http.StatusBadGateway ||
			f.status == http.StatusServiceUnavailable || f.status == http.StatusGatewayTimeout
	}
	var network *net.OpError
	var slow net.Error
	// a network operation that ends in "error" is an alert of TLS
	return errors.As(err, &network) && !strings.HasSuffix(network.Op, "error") ||
		errors.As(err, &slow) && slow.Timeout() || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		// an error of net/http without a type
		strings.Contains(err.Error(), "server closed idle connection")
}

// retry makes a call until it succeeds, fails for good, or RetryFor is over.
func (c *Client) retry(ctx context.Context, call func(context.Context) error) error {
	var last error
	begun := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if c.closed.Load() {
			return api.ErrClosed
		}
		try, cancel := context.WithTimeout(ctx, c.opts.Timeout)
		err := call(try)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // else it is the error of the context
			last = err
			if !mayPass(err) || time.Since(begun)+pause > c.opts.RetryFor {
				return err
			}
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

// maxAnswer is the largest answer, in bytes. It is a variable for tests.
var maxAnswer int64 = 64 << 20

// send makes a call and returns its answer, or the error that the server reports. The answer may
// break off with an error.
func (c *Client) send(
	ctx context.Context, method, path string, parameters url.Values,
	contentType string, body []byte,
) ([]byte, error) {
	to := *c.base
	to.Path += path
	to.RawQuery = parameters.Encode()
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	if c.opts.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return nil, failureOf(text, response.StatusCode, response.Status)
	}
	text := bytes.NewBuffer(
		make([]byte, 0, min(max(response.ContentLength, 0), 64<<10)+bytes.MinRead))
	_, err = text.ReadFrom(http.MaxBytesReader(nil, response.Body, maxAnswer))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		err = fmt.Errorf("%w: the answer has more than %d bytes; give queries a Limit",
			api.ErrTooLarge, maxAnswer)
	}
	return text.Bytes(), err
}

// object makes a call whose body, if there is one, and whose answer are one JSON object each.
func (c *Client) object(
	ctx context.Context, method, path string, parameters url.Values, body, answer any,
) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = wire.Encode(body); err != nil {
			return err
		}
	}
	return c.retry(ctx, func(ctx context.Context) error {
		said, err := c.send(ctx, method, path, parameters, "application/json", text)
		if err == nil && json.Unmarshal(said, answer) != nil {
			err = fmt.Errorf("the answer is not JSON: %.200q", said)
		}
		return err
	})
}

const (
	// maxDocuments and maxBytes bound the documents of one request.
	maxDocuments = 256
	maxBytes     = 4 << 20
)

// check posts n documents in requests of at most maxDocuments, and returns their verdicts. If a
// request fails on its way, the documents that are answered are not sent again. Verdicts that check
// returns with an error hold.
func (c *Client) check(
	ctx context.Context, n int, document func(i int) api.Document,
) ([]Verdict, error) {
	verdicts, body := make([]Verdict, 0, n), make([]byte, 0, 160*min(n, maxDocuments))
	var err error
	for err == nil && len(verdicts) < n {
		err = c.retry(ctx, func(ctx context.Context) (err error) {
			body = body[:0]
			end := len(verdicts)
			var d api.Document
			for ; end < n && end-len(verdicts) < maxDocuments && len(body) < maxBytes; end++ {
				d = document(end)
				if body, err = wire.Append(body, &d); err != nil {
					return err
				}
			}
			text, broken := c.send(ctx, http.MethodPost, "/v1/check", nil, api.JSONLines, body)
			var answer struct {
				api.Checked
				api.Failure
			}
			for lines := jsontext.NewDecoder(bytes.NewBuffer(text)); len(verdicts) < end; {
				answer.Checked = api.Checked{}
				switch err := json.UnmarshalDecode(lines, &answer); {
				case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
					return cmp.Or(broken, fmt.Errorf("the answer breaks off: %w",
						io.ErrUnexpectedEOF))
				case err != nil:
					return fmt.Errorf("an answer is malformed: %w", err)
				case answer.Error.Code != "":
					return &failure{answer.Error, http.StatusOK}
				case answer.Verdict == 0:
					return errNoAnswer
				}
				verdicts = append(verdicts, wire.Verdict(&answer.Checked))
			}
			return nil
		})
	}
	return verdicts, err
}

// Check stores a page unless another stored page matches, or there is nothing to compare, as
// [neardup.Index.Check] does. It returns when the result is durable on the server.
//
// [neardup.Index.Check]: https://pkg.go.dev/github.com/neardup/neardup#Index.Check
func (c *Client) Check(ctx context.Context, p Page) (Verdict, error) {
	verdicts, err := c.CheckBatch(ctx, []Page{p})
	if err != nil {
		return Verdict{}, err
	}
	return verdicts[0], nil
}

// maxBody is the largest body of a page, in bytes: the limit of the server.
const maxBody = 16 << 20

// CheckBatch calls Check for each page in order, with few requests. If it fails partway, it returns
// the error and the verdicts on the pages before the failure. These verdicts are valid.
func (c *Client) CheckBatch(ctx context.Context, pages []Page) ([]Verdict, error) {
	verdicts, err := c.check(ctx, len(pages), func(i int) api.Document {
		p := pages[i]
		if len(p.Body) > maxBody {
			p.Body = nil // the server skips the page for another reason
		}
		return wire.OfPage(&p)
	})
	for i := range verdicts {
		if n := len(pages[i].Body); n > maxBody {
			verdicts[i] = Verdict{Status: Skipped, Reason: fmt.Sprintf(
				"too large: %d bytes, limit %d", n, maxBody)}
		}
	}
	return verdicts, err
}

// CheckDocuments is CheckBatch for pages that are already analyzed, by the analyzer that Stats
// names. It also returns ErrTooLarge and ErrNoText.
func (c *Client) CheckDocuments(ctx context.Context, docs []Document) ([]Verdict, error) {
	for i := range docs {
		if err := match.Validate(&docs[i]); err != nil {
			return nil, err
		}
	}
	verdicts, err := c.check(ctx, len(docs), func(i int) api.Document {
		return wire.OfDocument(&docs[i])
	})
	if i := slices.IndexFunc(verdicts, func(v Verdict) bool {
		return v.Status == Skipped
	}); i >= 0 {
		return verdicts[:i], fmt.Errorf("%w: document %d of %d, key %.80q: %s", api.ErrNoText, i+1,
			len(docs), docs[i].Key, verdicts[i].Reason)
	}
	return verdicts, err
}

// Query returns the stored documents that match q, ordered by Distance, then ID. If q has no Limit
// and more than 10,000 documents match, Query returns ErrTooLarge. It also returns ErrDistance.
func (c *Client) Query(ctx context.Context, q Query) (matches []Match, err error) {
	var answer api.Found
	if err := c.object(ctx, http.MethodPost, "/v1/query", nil, wire.OfQuery(&q),
		&answer); err != nil {
		return nil, err
	}
	if answer.Matches == nil {
		return nil, errNoAnswer
	}
	if answer.More {
		return nil, fmt.Errorf("%w: the query has more than 10,000 matches; give it a Limit",
			api.ErrTooLarge)
	}
	for n := range answer.Matches {
		matches = append(matches, wire.Match(&answer.Matches[n]))
	}
	return matches, nil
}

// Get returns the document that has a key.
func (c *Client) Get(ctx context.Context, key string) (d Document, found bool, err error) {
	var answer api.Stored
	err = c.object(ctx, http.MethodGet, "/v1/document", url.Values{"key": {key}}, nil, &answer)
	var f *failure
	if errors.As(err, &f) && f.said.Code == wire.NotFound {
		return d, false, nil
	}
	return wire.Match(&answer).Document, err == nil, err
}

// Delete removes the documents with the given keys, and returns the number of removed documents. It
// sends requests of at most 256 keys. 256 keys of the largest length fit in a request.
func (c *Client) Delete(ctx context.Context, keys ...string) (deleted int, err error) {
	for part := range slices.Chunk(keys, 256) {
		var body api.Deletion
		for _, key := range part {
			body.KeyBytes = append(body.KeyBytes, []byte(key))
		}
		var answer api.Deleted
		if err := c.object(ctx, http.MethodPost, "/v1/documents/delete", nil, &body,
			&answer); err != nil {
			return deleted, err
		}
		deleted += answer.Deleted
	}
	return deleted, nil
}

// Stats returns the statistics of the index, as index.Index.Stats does.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	err = c.object(ctx, http.MethodGet, "/v1/stats", nil, nil, &s)
	return s, err
}
