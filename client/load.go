package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

// Load stores documents in bulk, analyzed already by the analyzer that Stats names, without a verdict on any: all of them in one step
// once docs has ended, as [compaction.LoadInto] does. Those that have Added keep it, to the second. It tells how many came, and how
// many documents were replaced by a later one with their key.
//
// It is tried once, since docs may not come again. After an error of the server, docs or ctx before docs has ended, none is stored. When the
// connection fails later it is not known; a document with a key may be loaded again then. Errors: ErrBusy while a compaction that was
// called for, or another load, is under way; ErrTooLarge; ErrNoText where documents were left out that have no text, and
// all others are stored.
//
// [compaction.LoadInto]: https://pkg.go.dev/github.com/neardup/neardup/compaction#LoadInto
func (c *Client) Load(ctx context.Context, docs iter.Seq2[Document, error]) (loaded, replaced uint64, err error) {
	if err := c.usable(ctx); err != nil {
		return 0, 0, err
	}
	body, to := io.Pipe()
	var answer struct {
		Loaded, Replaced, Skipped uint64
		FirstSkipped              string
	}
	answered := make(chan error, 1)
	go func() {
		err := c.sendLoad(ctx, body, &answer)
		body.Close() // what is sent after the answer
		answered <- err
	}()
	defer to.CloseWithError(errPanicked) // else the call, and the load of the server, would go on
	broken, unsent := writeDocuments(to, docs)
	to.CloseWithError(errors.Join(broken, unsent)) // of nil: the end
	if err := <-answered; broken != nil || err != nil {
		return 0, 0, cmp.Or(broken, err)
	} else if unsent != nil {
		return 0, 0, unsent
	}
	if answer.Skipped > 0 {
		err = fmt.Errorf("%w: %d of %d documents are left out, the first: %s", ErrNoText, answer.Skipped, answer.Skipped+answer.Loaded, answer.FirstSkipped)
	}
	return answer.Loaded, answer.Replaced, err
}

var errPanicked = errors.New("the documents have panicked")

// sendLoad sends what comes out of a pipe.
func (c *Client) sendLoad(ctx context.Context, body io.Reader, answer any) error {
	response, err := c.send(ctx, http.MethodPost, "/v1/load", nil, "", wire.JSONLines, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(answer)
}

// writeDocuments writes lines of documents, until one is broken or cannot be sent.
func writeDocuments(to io.Writer, docs iter.Seq2[Document, error]) (broken, unsent error) {
	out := bufio.NewWriterSize(to, 64<<10)
	for d, err := range docs {
		if err == nil {
			err = match.Validate(&d)
		}
		if year := d.Added.UTC().Year(); err == nil && (year < 0 || year > 9999) {
			err = fmt.Errorf("the document with the key %.80q was added in the year %d", d.Key, year)
		}
		if err != nil {
			return err, nil
		}
		l := wire.DocumentLine(&d)
		l.Added.Time = d.Added.UTC()
		if _, err := out.Write(l.Append(out.AvailableBuffer())); err != nil {
			return nil, err
		}
	}
	return nil, out.Flush()
}
