package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/mediatype"
	"github.com/neardup/neardup/internal/wire"
)

// readBody reads the body of a request. It claims memory as data arrives, so a client that
// announces a long body and does not send it takes no memory.
func (a *answer) readBody(r *http.Request) ([]byte, error) {
	limit := a.server.limits.RequestBytes
	var from io.Reader = http.MaxBytesReader(a.ResponseWriter, r.Body, limit)
	switch coding := r.Header.Get("Content-Encoding"); strings.ToLower(coding) {
	case "", "identity":
	case "gzip":
		inflated, err := gzip.NewReader(from)
		if err != nil {
			return nil, readError(err)
		}
		from = http.MaxBytesReader(nil, inflated, limit)
	default:
		return nil, wire.Failuref(wire.ContentType, http.StatusUnsupportedMediaType,
			"Content-Encoding is %.40q: want gzip or none", coding)
	}
	for body := make([]byte, 0, min(max(r.ContentLength+1, 512), callBytes)); ; {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, readError(err)
		}
		if len(body) == cap(body) {
			grown := min(2*int64(cap(body)), limit+1)
			if err := a.claim(grown - int64(cap(body))); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, grown), body...)
		}
	}
}

// item is a document of a request.
type item struct {
	number int    // in the request, from 1
	text   []byte // as it was sent

	key         string
	malformed   *wire.Failure // the answer, if it is malformed
	maxDistance *int          // of a query
	limit       int
}

// window is a sequence of documents of a request that are answered together.
type window struct {
	parse  func(text []byte, d *api.Document) error
	store  func(*window) // stores the documents; nil for a call that stores nothing
	query  bool          // a document may have maxDistance and limit
	answer func(w *window, n int) (any, error)

	items   []item
	docs    []index.Document
	reasons []string // per document, why it is skipped or malformed
}

// windowLimit is the largest number of documents of a window.
const windowLimit = 256

// eachWindow reads the documents of a request and answers them in order, up to windowLimit at a
// time, in the window w. It calls w.answer for each document that is not malformed.
func (s *Server) eachWindow(
	a *answer, r *http.Request, parameters url.Values, w *window,
) error {
	w.parse = wire.Parse
	media := mediatype.Of(r.Header.Get("Content-Type"))
	isJSON := media == "application/json"
	switch media {
	case api.JSONLines, "application/jsonl", "application/json":
		if len(parameters) > 0 {
			return badCall("a body of type %s has no parameters: key and scope are fields of its "+
				"documents", media)
		}
		a.several = !isJSON
	case "text/html", "application/xhtml+xml", "text/plain":
		if !parameters.Has("key") {
			return badCall("a body of type %s is one page and requires its URL, as in "+
				"?key=https%%3A%%2F%%2Fexample.com%%2F", media)
		}
		w.parse = func(text []byte, d *api.Document) error {
			*d = api.Document{Key: parameters.Get("key"), Scope: parameters.Get("scope"),
				ContentType: r.Header.Get("Content-Type"), Body: text}
			return nil
		}
	default:
		return wire.Failuref(wire.ContentType, http.StatusUnsupportedMediaType,
			"Content-Type is %.80q: want %s or application/json for documents, or text/html or "+
				"text/plain for a page", media, api.JSONLines)
	}
	body, err := a.readBody(r)
	if err != nil {
		return err
	}
	a.out = bufio.NewWriterSize(a, min(2*len(body)+256, callBytes/2))
	text := bytes.TrimPrefix(body, []byte("\ufeff"))
	var documents iter.Seq2[int, []byte]
	switch {
	case a.several:
		documents = lines(text)
	case isJSON && bytes.HasPrefix(bytes.TrimSpace(text), []byte{'['}):
		if !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true)) {
			return badCall(
				"the body is not a JSON array; send one object per line as %s", api.JSONLines)
		}
		a.several, a.array, documents = true, true, values(text)
	default:
		documents = func(yield func(int, []byte) bool) { yield(1, body) }
	}
	for number, text := range documents {
		if a.several && !a.array && a.n == 0 && len(w.items) == 0 &&
			(text[0] != '{' || text[len(text)-1] != '}') {
			return badCall("line %d is not a JSON object: send one object per line, or an object "+
				"or array as application/json, "+
				"or a page as text/html or text/plain with its URL, as in "+
				"?key=https%%3A%%2F%%2Fexample.com%%2F", number)
		}
		if len(w.items) == windowLimit {
			if err := s.answer(a, w); err != nil {
				return a.end(err)
			}
		}
		w.items = append(w.items, item{number: number, text: text})
	}
	return a.end(s.answer(a, w))
}

// lines yields the lines of a body that are not blank, with their numbers.
func lines(body []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		number := 0
		for text := range bytes.SplitSeq(body, []byte{'\n'}) {
			number++
			if text = bytes.TrimSpace(text); len(text) > 0 && !yield(number, text) {
				return
			}
		}
	}
}

// values yields the values of a valid JSON array, with their numbers.
func values(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		d := jsontext.NewDecoder(bytes.NewBuffer(array), jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true))
		_, _ = d.ReadToken()
		for number := 1; d.PeekKind() != ']'; number++ {
			value, _ := d.ReadValue()
			if end := int(d.InputOffset()); !yield(number, array[end-len(value):end]) {
				return
			}
		}
	}
}

// answer answers the documents of a window, and empties it.
func (s *Server) answer(a *answer, w *window) error {
	w.docs, w.reasons = make([]index.Document, len(w.items)), make([]string, len(w.items))
	check.Parallel(len(w.items), func(n int) { s.analyze(w, n) })
	if w.store != nil {
		w.store(w)
	}
	a.documents += len(w.items)
	for n := range w.items {
		var v any = w.items[n].malformed
		var err error
		if w.items[n].malformed == nil {
			v, err = w.answer(w, n)
		}
		if err == nil {
			err = a.add(v)
		}
		if err != nil {
			return err
		}
	}
	w.items = w.items[:0]
	return nil
}

// analyze parses and analyzes document n. An index of pages stores no document without text.
func (s *Server) analyze(w *window, n int) {
	i := &w.items[n]
	var d api.Document
	err := w.parse(i.text, &d)
	if err == nil && !w.query && (d.MaxDistance != nil || d.Limit != 0) {
		err = errors.New("maxDistance and limit are fields of a query")
	}
	if err != nil {
		w.reasons[n] = err.Error()
		i.malformed = wire.Failuref(wire.BadLine, http.StatusBadRequest, "%v", err)
		i.malformed.Said.Line = i.number
		return
	}
	i.key, i.maxDistance, i.limit = d.Key, d.MaxDistance, d.Limit
	w.docs[n], w.reasons[n] = check.Document(&d, w.store != nil &&
		s.index.Signer() != nil, func(p neardup.Page) (index.Document, string) {
		s.analysis.Acquire(context.Background(), 1)
		defer s.analysis.Release(1)
		return check.Page(s.index.Signer(), s.limits.PageBytes, p)
	})
}
