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
	"sync"

	"github.com/neardup/neardup/internal/wire"
)

// send sends a call and returns its answer, or the error that it says.
func (c *Client) send(ctx context.Context, method, path string, parameters url.Values, contentType string, body io.Reader) (*http.Response, error) {
	to := *c.base
	to.Path += path
	to.RawQuery = parameters.Encode()
	r, err := http.NewRequestWithContext(ctx, method, to.String(), body)
	if err != nil {
		return nil, errors.Join(errFinal, err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if c.opts.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	said := &failure{status: response.StatusCode, text: response.Status}
	var answer wire.Failure
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	switch {
	case err == nil && json.Unmarshal(text, &answer) == nil && answer.Error != "":
		said.code, said.text = answer.Code, answer.Error
	case len(text) > 0: // of something between, or that is no neardup
		said.text += fmt.Sprintf(": %.200q", text)
	}
	return nil, said
}

// object makes a call whose answer is one object.
func (c *Client) object(ctx context.Context, method, path string, parameters url.Values, contentType string, body []byte, answer any) error {
	return c.retry(ctx, len(body), func(ctx context.Context, _ func()) error {
		response, err := c.send(ctx, method, path, parameters, contentType, bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, int64(maxAnswer)+1))
		if err != nil {
			return err
		}
		if len(text) > maxAnswer {
			return errLongAnswer
		}
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("%w: the answer is no JSON: %.200q", errFinal, text)
		}
		return nil
	})
}

// maxAnswer is how many bytes an answer of one object, or a line of another answer, may have. It is a variable for tests.
var maxAnswer = 64 << 20

var errLongAnswer = fmt.Errorf("%w: an answer has more than %d bytes; give the query a Limit", ErrTooLarge, maxAnswer)

// readLine reads a line of at most maxAnswer bytes, which is valid until the next read.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxAnswer {
			return nil, errLongAnswer
		}
		if line == nil && err == nil {
			return part, nil
		}
		if line = append(line, part...); err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// lines are the body of a call.
type lines struct {
	body   []byte
	starts []int // where each of them begins
}

// newLines makes room for n lines of documents.
func newLines(n int) lines {
	return lines{make([]byte, 0, 160*n), make([]int, 0, n)}
}

func (l *lines) add(line wire.Line) error {
	start := len(l.body)
	var err error
	if l.body, err = wire.Append(l.body, &line); err == nil {
		l.starts = append(l.starts, start)
	}
	return err
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 16<<10) }}

// linesOf makes a call with lines whose answer has a line for each, and gives those to got, which keeps none. When it
// fails on its way, those that were read hold, and the others are asked for again, unless got has failed.
func linesOf[T any](ctx context.Context, c *Client, path string, l lines, got func(*T) error) error {
	answer := new(T)
	return c.retry(ctx, len(l.body), func(ctx context.Context, heard func()) error {
		if len(l.starts) == 0 {
			return nil
		}
		response, err := c.send(ctx, http.MethodPost, path, nil, wire.JSONLines, bytes.NewReader(l.body[l.starts[0]:]))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		answers := readers.Get().(*bufio.Reader)
		defer readers.Put(answers)
		answers.Reset(response.Body)
		for len(l.starts) > 0 {
			raw, err := readLine(answers)
			if err == io.EOF { // which a caller may take for an end
				err = io.ErrUnexpectedEOF
			}
			if err == errLongAnswer {
				return err
			}
			if err != nil {
				return fmt.Errorf("an answer breaks off: %w", err)
			}
			if bytes.HasPrefix(raw, []byte(`{"error":`)) {
				var last wire.Failure
				if err := json.Unmarshal(raw, &last); err != nil {
					return err
				}
				return &failure{status: http.StatusOK, code: last.Code, text: last.Error}
			}
			*answer = *new(T)
			if err := wire.Decode(raw, answer); err != nil {
				return fmt.Errorf("%w: a line of the answer: %w", errFinal, err)
			}
			if err := got(answer); err != nil {
				return err
			}
			heard()
			l.starts = l.starts[1:]
		}
		_, err = io.CopyN(io.Discard, response.Body, 1) // up to its end, so that the connection is used again
		if err == io.EOF {
			err = nil
		}
		return err
	})
}
