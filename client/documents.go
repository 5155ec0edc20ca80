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
	var said *Error
	if errors.As(err, &said) && said.Code == wire.NotFound {
		return d, false, nil
	}
	if err != nil {
		return d, false, err
	}
	return answer.Match().Document, true, nil
}

// Delete removes the documents that have these keys and returns how many there were, one call
// a key. What is counted is gone.
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

// Pairs returns the documents that match the one that has a key, nearest first; found is false if
// none has it.
func (c *Client) Pairs(ctx context.Context, key string) (matches []Match, found bool, err error) {
	var answer wire.Found
	err = c.object(ctx, http.MethodGet, "/v1/pairs", url.Values{"of": {key}}, "", nil, &answer)
	var said *Error
	if errors.As(err, &said) && said.Code == wire.NotFound {
		return nil, false, nil
	}
	return answer.AsMatches(), err == nil, err
}

// Stats returns what there is to say of the index.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	err = c.object(ctx, http.MethodGet, "/v1/stats", nil, "", nil, &s)
	return s, err
}

// Compact packs the index, while calls go on, and returns when it is done. It is tried again where another
// compaction is under way.
func (c *Client) Compact(ctx context.Context) error {
	var report struct{}
	return c.object(ctx, http.MethodPost, "/v1/compact", nil, "", nil, &report)
}

// Checkpoint makes a copy of the index, of that name in the folder that the server has for checkpoints,
// and returns where it is there.
func (c *Client) Checkpoint(ctx context.Context, name string) (dir string, err error) {
	var answer struct{ Checkpoint string }
	err = c.object(ctx, http.MethodPost, "/v1/checkpoint", url.Values{"name": {name}}, "", nil, &answer)
	return answer.Checkpoint, err
}
