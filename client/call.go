package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/neardup/neardup/internal/wire"
)

// send sends a call and returns its answer, or the error that it says.
func (c *Client) send(ctx context.Context, method, path string, parameters url.Values, since *uint64, contentType string, body []byte) (*http.Response, error) {
	to := *c.base
	to.Path += path
	to.RawQuery = parameters.Encode()
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.Join(errFinal, err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if c.opts.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	if since != nil {
		r.Header.Set(wire.Since, strconv.FormatUint(*since, 10))
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	said := &Error{Status: response.StatusCode, Text: response.Status}
	var failure wire.Failure
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	switch {
	case err == nil && json.Unmarshal(text, &failure) == nil && failure.Error != "":
		said.Code, said.Text = failure.Code, failure.Error
	case len(text) > 0: // of something between, or that is no neardup
		said.Text += fmt.Sprintf(": %.200q", text)
	}
	return nil, said
}

// object makes a call whose answer is one object.
func (c *Client) object(ctx context.Context, method, path string, parameters url.Values, contentType string, body []byte, answer any) error {
	return c.retry(ctx, func(since *uint64) error {
		response, err := c.send(ctx, method, path, parameters, since, contentType, body)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("%w: the answer is no JSON: %.200q", errFinal, text)
		}
		c.noteNextID(response.Header)
		return nil
	})
}

// linesOf makes a call with lines whose answer has a line for each, and appends those to answers. When it
// fails on its way, those that were read hold, and the others are asked for again.
func linesOf[T any](ctx context.Context, c *Client, path string, lines []*wire.Line, got func(*T)) error {
	encoded := make([][]byte, len(lines))
	for i, l := range lines {
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		encoded[i] = append(line, '\n')
	}
	return c.retry(ctx, func(since *uint64) error {
		body := bytes.Join(encoded, nil)
		response, err := c.send(ctx, http.MethodPost, path, nil, since, wire.JSONLines, body)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		answers := bufio.NewReaderSize(response.Body, 16<<10)
		for len(encoded) > 0 {
			raw, err := answers.ReadSlice('\n')
			if err == bufio.ErrBufferFull {
				var rest []byte
				head := bytes.Clone(raw)
				rest, err = answers.ReadBytes('\n')
				raw = append(head, rest...)
			}
			if err != nil {
				return fmt.Errorf("an answer breaks off: %w", unexpected(err))
			}
			var failure wire.Failure
			if bytes.HasPrefix(raw, []byte(`{"error":`)) {
				if err := json.Unmarshal(raw, &failure); err != nil {
					return err
				}
				return &Error{Status: http.StatusOK, Code: failure.Code, Text: failure.Error}
			}
			var answer T
			if err := json.Unmarshal(raw, &answer); err != nil {
				return fmt.Errorf("%w: a line of the answer: %w", errFinal, err)
			}
			got(&answer)
			encoded = encoded[1:]
		}
		c.noteNextID(response.Header)
		_, err = io.Copy(io.Discard, response.Body) // so that the connection is used again
		return err
	})
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
