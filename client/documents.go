package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/neardup/neardup/internal/wire"
)

// Get returns the document that has a key.
func (c *Client) Get(ctx context.Context, key string) (d Document, found bool, err error) {
	var answer wire.Stored
	err = c.object(ctx, http.MethodGet, "/v1/documents", url.Values{"key": {key}}, "", nil, &answer)
	var said *failure
	if errors.As(err, &said) && said.code == wire.NotFound {
		return d, false, nil
	}
	if err != nil {
		return d, false, err
	}
	return answer.Match().Document, true, nil
}

// Delete removes the documents with these keys, with one call per key, and returns the number
// of removed documents.
func (c *Client) Delete(ctx context.Context, keys ...string) (deleted int, err error) {
	if err := c.usable(ctx); err != nil {
		return 0, err
	}
	for _, key := range keys {
		var answer struct{ Deleted int }
		if err := c.object(ctx, http.MethodDelete, "/v1/documents", url.Values{"key": {key}}, "", nil, &answer); err != nil {
			return deleted, err
		}
		deleted += answer.Deleted
	}
	return deleted, nil
}

// Stats returns what there is to say of the index, as index.Stats has it.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	err = c.object(ctx, http.MethodGet, "/v1/stats", nil, "", nil, &s)
	return s, err
}
