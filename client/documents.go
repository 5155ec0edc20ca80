package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"github.com/cenkalti/backoff/v5"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

const (
	// maxDocuments and maxBytes bound the documents of one request.
	maxDocuments = 256
	maxBytes     = 4 << 20
)

// check posts n documents in requests of at most maxDocuments, and returns their verdicts. If a request
// fails on its way, the documents that are answered are not sent again. Verdicts that check returns
// with an error hold.
func (c *Client) check(ctx context.Context, n int, document func(i int) api.Document) (verdicts []Verdict, err error) {
	var body []byte
	for err = c.usable(ctx); err == nil && len(verdicts) < n; {
		err = c.retry(ctx, func(ctx context.Context) (err error) {
			body = body[:0]
			end := len(verdicts)
			for ; end < n && end-len(verdicts) < maxDocuments && len(body) < maxBytes; end++ {
				d := document(end)
				if body, err = wire.Append(body, &d); err != nil {
					return backoff.Permanent(err)
				}
			}
			return c.send(ctx, http.MethodPost, "/v1/check", nil, api.JSONLines, body, func(r io.Reader) error {
				for lines := bufio.NewReader(r); len(verdicts) < end; {
					text, err := lines.ReadBytes('\n')
					if err == io.EOF {
						err = io.ErrUnexpectedEOF
					}
					if err != nil {
						return fmt.Errorf("the answer breaks off: %w", err)
					}
					if bytes.HasPrefix(text, []byte(`{"error":`)) {
						return failureOf(text, http.StatusOK, "malformed error")
					}
					var answer api.Checked
					if err := wire.Decode(text, &answer); err != nil {
						return backoff.Permanent(fmt.Errorf("an answer is malformed: %w", err))
					}
					if answer.Verdict == 0 {
						return backoff.Permanent(errNoAnswer)
					}
					verdicts = append(verdicts, wire.Verdict(&answer))
				}
				return nil
			})
		})
	}
	return verdicts, err
}

// Check stores a page unless another stored page matches, or there is nothing to compare, as
// [neardup.Index.Check] does. It returns when that is durable at the server.
//
// [neardup.Index.Check]: https://pkg.go.dev/github.com/neardup/neardup#Index.Check
func (c *Client) Check(ctx context.Context, p Page) (Verdict, error) {
	verdicts, err := c.CheckBatch(ctx, []Page{p})
	if err != nil {
		return Verdict{}, err
	}
	return verdicts[0], nil
}

// CheckBatch does what Check does for each page in turn, in few requests. If it fails part of the way,
// it returns the verdicts of the pages before the failure together with the error, and they hold.
func (c *Client) CheckBatch(ctx context.Context, pages []Page) ([]Verdict, error) {
	all := make([]Verdict, len(pages))
	var sent []int
	for i := range pages {
		p := &pages[i]
		switch d := (Document{Key: p.URL, Scope: p.Scope}); {
		case len(p.Body) > c.opts.MaxBody:
			all[i] = Verdict{Status: Skipped, Reason: fmt.Sprintf("too large: %d bytes, limit %d", len(p.Body), c.opts.MaxBody)}
		case match.Validate(&d) != nil:
			all[i] = Verdict{Status: Skipped, Reason: fmt.Sprintf("too large: URL of %d bytes, scope of %d", len(p.URL), len(p.Scope))}
		default:
			sent = append(sent, i)
		}
	}
	verdicts, err := c.check(ctx, len(sent), func(i int) api.Document { return wire.OfPage(&pages[sent[i]]) })
	for i := range verdicts {
		all[sent[i]] = verdicts[i]
	}
	if err != nil && len(verdicts) < len(sent) {
		return all[:sent[len(verdicts)]], err
	}
	return all, err
}

// CheckDocuments is CheckBatch for pages that are already analyzed, by the analyzer that Stats names. It
// also returns ErrTooLarge and ErrNoText.
func (c *Client) CheckDocuments(ctx context.Context, docs []Document) ([]Verdict, error) {
	for i := range docs {
		if err := match.Validate(&docs[i]); err != nil {
			return nil, err
		}
	}
	verdicts, err := c.check(ctx, len(docs), func(i int) api.Document { return wire.OfDocument(&docs[i]) })
	if i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Status == Skipped }); i >= 0 {
		return verdicts[:i], fmt.Errorf("%w: document %d of %d, key %.80q: %s", api.ErrNoText, i+1, len(docs), docs[i].Key, verdicts[i].Reason)
	}
	return verdicts, err
}

// Query returns the stored documents that match q, by (Distance, ID). Without a Limit, more than 10,000
// of them are ErrTooLarge. It also returns ErrDistance.
func (c *Client) Query(ctx context.Context, q Query) (matches []Match, err error) {
	if q.Limit < 0 {
		return nil, fmt.Errorf("query limit %d is negative", q.Limit)
	}
	var answer api.Found
	if err := c.object(ctx, http.MethodPost, "/v1/query", nil, wire.OfQuery(&q), &answer); err != nil {
		return nil, err
	}
	switch {
	case answer.Matches == nil:
		return nil, errNoAnswer
	case answer.More:
		return nil, fmt.Errorf("%w: the query has more matches than an answer may have; give it a Limit", api.ErrTooLarge)
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
	var said *failure
	if errors.As(err, &said) && said.code == wire.NotFound {
		return d, false, nil
	}
	return wire.Match(&answer).Document, err == nil, err
}

// Delete removes the documents with these keys, in requests of at most 1,000 keys, and returns the number
// of removed documents.
func (c *Client) Delete(ctx context.Context, keys ...string) (deleted int, err error) {
	if err := c.usable(ctx); err != nil {
		return 0, err
	}
	for part := range slices.Chunk(keys, 1000) {
		var body api.Deletion
		for _, key := range part {
			body.KeyBytes = append(body.KeyBytes, []byte(key))
		}
		var answer api.Deleted
		if err := c.object(ctx, http.MethodPost, "/v1/documents/delete", nil, &body, &answer); err != nil {
			return deleted, err
		}
		deleted += answer.Deleted
	}
	return deleted, nil
}

// Documents yields every document that has a record, by ID. It reads them in parts, so documents that are
// stored or deleted meanwhile may be missing or included. It stops at the first error, which it yields.
func (c *Client) Documents(ctx context.Context) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		parameters := make(url.Values)
		for next := "0"; next != ""; {
			parameters.Set("after", next)
			var part api.List
			if err := c.object(ctx, http.MethodGet, "/v1/documents", parameters, nil, &part); err != nil {
				yield(Document{}, err)
				return
			}
			for i := range part.Documents {
				if !yield(wire.Match(&part.Documents[i]).Document, nil) {
					return
				}
			}
			next = part.Next
		}
	}
}

// Stats returns the statistics of the index, as index.Index.Stats does.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	err = c.object(ctx, http.MethodGet, "/v1/stats", nil, nil, &s)
	return s, err
}
