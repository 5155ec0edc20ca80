package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
	"golang.org/x/net/http/httpguts"
)

const (
	// maxLines is how many pages go in one call, and maxBytes how much they have.
	maxLines = 256
	maxBytes = 4 << 20

	// longURL is from when on a page does not go as the body of a call with its key in the URL.
	longURL = 4 << 10
)

// Check stores a page unless another page that matches it is stored, or there is nothing to
// compare, as [neardup.Index.Check] does. It returns when that is durable at the server.
//
// [neardup.Index.Check]: https://pkg.go.dev/github.com/neardup/neardup#Index.Check
func (c *Client) Check(ctx context.Context, p Page) (Verdict, error) {
	if reason := c.skip(&p); reason != "" || len(p.URL)+len(p.Scope) > longURL || !httpguts.ValidHeaderFieldValue(p.ContentType) {
		verdicts, err := c.CheckBatch(ctx, []Page{p})
		if err != nil {
			return Verdict{}, err
		}
		return verdicts[0], nil
	}
	parameters := url.Values{"key": {p.URL}}
	if p.Scope != "" {
		parameters.Set("scope", p.Scope)
	}
	if p.Kind != 0 {
		parameters.Set("kind", wire.KindName(p.Kind))
	}
	var answer wire.Checked
	if err := c.object(ctx, http.MethodPost, "/v1/check", parameters, p.ContentType, p.Body, &answer); err != nil {
		return Verdict{}, err
	}
	return verdictOf(&answer)
}

// errNoAnswer is of an object of JSON that no neardup has sent.
var errNoAnswer = fmt.Errorf("%w: the answer does not have what was asked for: is it a neardup server?", errFinal)

func verdictOf(answer *wire.Checked) (Verdict, error) {
	if answer.Verdict == 0 {
		return Verdict{}, errNoAnswer
	}
	return answer.AsVerdict(), nil
}

// addVerdict adds that of a line of an answer.
func addVerdict(to *[]Verdict) func(*wire.Checked) error {
	return func(answer *wire.Checked) error {
		v, err := verdictOf(answer)
		if err == nil {
			*to = append(*to, v)
		}
		return err
	}
}

// skip says why a page need not be sent.
func (c *Client) skip(p *Page) (reason string) {
	if len(p.Body) > c.opts.MaxBody {
		return fmt.Sprintf("too large: %d bytes, limit %d", len(p.Body), c.opts.MaxBody)
	}
	d := Document{Key: p.URL, Scope: p.Scope}
	if match.Validate(&d) != nil {
		return fmt.Sprintf("too large: URL of %d bytes, scope of %d", len(p.URL), len(p.Scope))
	}
	return ""
}

// CheckBatch does what Check would do for each page in turn, in few calls. When it fails part of the
// way, the verdicts on the pages before come with the error, and hold.
func (c *Client) CheckBatch(ctx context.Context, pages []Page) ([]Verdict, error) {
	verdicts := make([]Verdict, 0, len(pages))
	if err := c.usable(ctx); err != nil {
		return verdicts, err
	}
	for len(verdicts) < len(pages) {
		var l lines
		size := 0
		for i := len(verdicts); i < len(pages) && len(l.starts) < maxLines && size < maxBytes; i++ {
			p := &pages[i]
			if reason := c.skip(p); reason != "" {
				if len(l.starts) > 0 {
					break
				}
				verdicts = append(verdicts, Verdict{Status: Skipped, Reason: reason})
				continue
			}
			if err := l.add(wire.PageLine(p)); err != nil {
				return verdicts, err
			}
			size += len(p.Body)
		}
		err := linesOf(ctx, c, "/v1/check", l, addVerdict(&verdicts))
		if err != nil {
			return verdicts, err
		}
	}
	return verdicts, nil
}

// usable fails where no call would be made.
func (c *Client) usable(ctx context.Context) error {
	if c.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// CheckDocuments is CheckBatch of pages that are analyzed already, by the analyzer that Stats names.
// Errors: ErrTooLarge, ErrNoText besides.
func (c *Client) CheckDocuments(ctx context.Context, docs []Document) ([]Verdict, error) {
	verdicts := make([]Verdict, 0, len(docs))
	if err := c.usable(ctx); err != nil {
		return verdicts, err
	}
	for i := range docs {
		if err := match.Validate(&docs[i]); err != nil {
			return verdicts, err
		}
	}
	for len(verdicts) < len(docs) {
		before := len(verdicts)
		part := docs[before:min(before+maxLines, len(docs))]
		l := newLines(len(part))
		for i := range part {
			if err := l.add(wire.DocumentLine(&part[i])); err != nil {
				return verdicts, err
			}
		}
		err := linesOf(ctx, c, "/v1/check", l, addVerdict(&verdicts))
		for i := before; i < len(verdicts); i++ {
			if v := &verdicts[i]; v.Status == Skipped {
				return verdicts[:i], fmt.Errorf("%w: document %d of %d, key %.80q: %s", ErrNoText, i+1, len(docs), docs[i].Key, v.Reason)
			}
		}
		if err != nil {
			return verdicts, err
		}
	}
	return verdicts, nil
}

// Query returns the stored documents that match q, by (Distance, ID). Without a Limit there may
// be 10,000 of them; more are ErrTooLarge. Errors: ErrDistance besides.
func (c *Client) Query(ctx context.Context, q Query) ([]Match, error) {
	all, err := c.QueryBatch(ctx, []Query{q})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// QueryBatch answers many queries in few calls.
func (c *Client) QueryBatch(ctx context.Context, queries []Query) ([][]Match, error) {
	answers := make([][]Match, 0, len(queries))
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	for len(answers) < len(queries) {
		part := queries[len(answers):min(len(answers)+maxLines, len(queries))]
		l := newLines(len(part))
		for i := range part {
			if part[i].Limit < 0 {
				return nil, fmt.Errorf("query limit %d is negative", part[i].Limit)
			}
			if err := l.add(wire.QueryLine(&part[i])); err != nil {
				return nil, err
			}
		}
		more := false
		err := linesOf(ctx, c, "/v1/query", l, func(answer *wire.Found) error {
			if answer.Matches == nil {
				return errNoAnswer
			}
			more = more || answer.More
			answers = append(answers, answer.AsMatches())
			return nil
		})
		if err != nil {
			return nil, err
		}
		if more {
			return nil, fmt.Errorf("%w: a query has more matches than an answer has room for; give it a Limit", ErrTooLarge)
		}
	}
	return answers, nil
}
