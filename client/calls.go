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
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

// failed returns the error that the server reports, with the HTTP status of the answer.
func failed(said api.Error, status int) error {
	said.Message = "server: " + said.Message
	return &wire.Failure{Said: said, Status: status}
}

// errNoAnswer is the error of a JSON object that a neardup server does not send.
var errNoAnswer = errors.New("the answer is incomplete: is it a neardup server?")

// mayPass reports whether a repeated call may succeed.
func mayPass(err error) bool {
	if f, is := errors.AsType[*wire.Failure](err); is {
		return errors.Is(f, api.ErrBusy) || errors.Is(f, api.ErrClosed) ||
			slices.Contains([]int{408, 502, 503, 504}, f.Status)
	}
	network, is := errors.AsType[*net.OpError](err)
	slow, mayBeSlow := errors.AsType[net.Error](err)
	// A network operation whose name ends in "error" is a TLS alert.
	return is && !strings.HasSuffix(network.Op, "error") || mayBeSlow && slow.Timeout() ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "server closed idle connection") // an untyped error
}

// retry repeats a call until it succeeds, until a repetition is useless, or until RetryFor is over.
func (c *Client) retry(ctx context.Context, call func() error) error {
	var last error
	begun := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if c.closed.Load() {
			return api.ErrClosed
		}
		err := call()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // otherwise, err is the error of the context
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

// send posts a body, or sends a GET request if body is nil. It returns the body of the answer, or
// the error that the server reports. It returns an incomplete body with an error.
func (c *Client) send(
	ctx context.Context, path, contentType string, body []byte,
) ([]byte, error) {
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, bytes.NewReader(body))
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
	text, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxAnswer))
	if response.StatusCode != http.StatusOK {
		var answer api.Failure
		if json.Unmarshal(text, &answer) != nil || answer.Error.Code == "" { // from a proxy
			answer.Error = api.Error{Message: fmt.Sprintf("%s: %.200q", response.Status, text)}
		}
		return nil, failed(answer.Error, response.StatusCode)
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		err = fmt.Errorf("%w: the answer has more than %d bytes; set the Limit of queries",
			api.ErrTooLarge, maxAnswer)
	}
	return text, err
}

// object posts a JSON object, or sends a GET request if body is nil. It parses the JSON of the
// answer into answer.
func (c *Client) object(ctx context.Context, path string, body, answer any) (err error) {
	var text []byte
	if body != nil {
		if text, err = wire.Encode(body); err != nil {
			return err
		}
	}
	return c.retry(ctx, func() error {
		said, err := c.send(ctx, path, "application/json", text)
		if err == nil && json.Unmarshal(said, answer) != nil {
			err = fmt.Errorf("the answer is not JSON: %.200q", said)
		}
		return err
	})
}

// check posts documents in requests of bounded size, and returns their verdicts. If a request fails
// partway, only the documents without a verdict are sent again. Verdicts that check returns with an
// error are valid.
func (c *Client) check(ctx context.Context, docs []api.Document) (verdicts []Verdict, err error) {
	const maxDocuments, maxBytes = 256, 4 << 20 // of a request
	for err == nil && len(verdicts) < len(docs) {
		err = c.retry(ctx, func() (err error) {
			end := len(verdicts)
			most := min(len(docs), end+maxDocuments)
			body := make([]byte, 0, 160*(most-end))
			for ; end < most && len(body) < maxBytes; end++ {
				if body, err = wire.Append(body, &docs[end]); err != nil {
					return err
				}
			}
			text, broken := c.send(ctx, "/v1/check", api.JSONLines, body)
			for len(verdicts) < end {
				var line []byte
				line, text, _ = bytes.Cut(text, []byte{'\n'})
				var answer struct {
					api.Checked
					api.Failure
				}
				switch err := json.Unmarshal(line, &answer); {
				case err != nil:
					return cmp.Or(broken, fmt.Errorf("incomplete or malformed answer: %w", err))
				case answer.Error.Code != "":
					return failed(answer.Error, http.StatusOK)
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
// neardup.Index.Check does. It returns when the result is durable on the server.
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
	docs := make([]api.Document, len(pages))
	for i, p := range pages {
		if len(p.Body) > maxBody {
			p.Body = nil // the server skips the page; its Reason is replaced below
		}
		docs[i] = wire.OfPage(&p)
	}
	verdicts, err := c.check(ctx, docs)
	for i := range verdicts {
		if n := len(pages[i].Body); n > maxBody {
			verdicts[i] = Verdict{Status: Skipped, Reason: fmt.Sprintf(
				"too large: %d bytes, limit %d", n, maxBody)}
		}
	}
	return verdicts, err
}

// CheckDocuments is CheckBatch for pages that are already analyzed, by the analyzer in Stats. It
// also returns ErrTooLarge and ErrNoText.
func (c *Client) CheckDocuments(ctx context.Context, docs []Document) ([]Verdict, error) {
	analyzed := make([]api.Document, len(docs))
	for i := range docs {
		if err := match.Validate(&docs[i]); err != nil {
			return nil, err
		}
		analyzed[i] = wire.OfDocument(&docs[i])
	}
	verdicts, err := c.check(ctx, analyzed)
	if i := slices.IndexFunc(verdicts, func(v Verdict) bool {
		return v.Status == Skipped
	}); i >= 0 {
		return verdicts[:i], fmt.Errorf("%w: document %d of %d, key %.80q: %s", api.ErrNoText, i+1,
			len(docs), docs[i].Key, verdicts[i].Reason)
	}
	return verdicts, err
}

// Query returns the stored documents that match q, ordered by Distance, then ID. If more than
// 10,000 documents match, and q has no Limit or a Limit above 10,000, Query returns ErrTooLarge. It
// also returns ErrDistance.
func (c *Client) Query(ctx context.Context, q Query) (matches []Match, err error) {
	var answer api.Found
	if err := c.object(ctx, "/v1/query", wire.OfQuery(&q), &answer); err != nil {
		return nil, err
	}
	if answer.Matches == nil {
		return nil, errNoAnswer
	}
	if answer.More {
		return nil, fmt.Errorf("%w: the query has more than 10,000 matches; give it a Limit of "+
			"at most 10,000", api.ErrTooLarge)
	}
	for n := range answer.Matches {
		matches = append(matches, wire.Match(&answer.Matches[n]))
	}
	return matches, nil
}

// Get returns the document that has a key.
func (c *Client) Get(ctx context.Context, key string) (d Document, found bool, err error) {
	var answer api.Stored
	err = c.object(ctx, "/v1/document?key="+url.QueryEscape(key), nil, &answer)
	if f, is := errors.AsType[*wire.Failure](err); is && f.Said.Code == wire.NotFound {
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
		if err := c.object(ctx, "/v1/documents/delete", &body, &answer); err != nil {
			return deleted, err
		}
		deleted += answer.Deleted
	}
	return deleted, nil
}

// Stats returns the statistics of the index, as index.Index.Stats does.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	err = c.object(ctx, "/v1/stats", nil, &s)
	return s, err
}
