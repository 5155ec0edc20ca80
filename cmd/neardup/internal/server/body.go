package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/mediatype"
	"github.com/neardup/neardup/internal/wire"
)

// readBody reads the body of a request. Its memory is claimed as it is sent, so a client that announces
// a long body and sends none takes no memory.
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
		return nil, refusal(wire.ContentType, http.StatusUnsupportedMediaType, "Content-Encoding is %.40q: want gzip or none", coding)
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

// item is a document of a request on its way to its answer.
type item struct {
	number int    // in the request, from 1
	text   []byte // as it was sent

	key       string
	document  index.Document
	reason    string     // why it is skipped
	malformed *callError // answered instead

	maxDistance *int // of a query
	limit       int
}

func (i *item) isCompared() bool { return i.reason == "" && i.malformed == nil }

// window is the number of documents that are answered together.
const window = 256

// each is the work of eachWindow that answers each document alone.
func each(answer func(*item) (any, error)) func([]item) func(*item) (any, error) {
	return func([]item) func(*item) (any, error) { return answer }
}

// eachWindow reads the documents of a request and answers them in order. It calls work with up to 256 of
// them, and the function that work returns for each that is not malformed. stores reports whether the
// documents are stored.
func (s *Server) eachWindow(a *answer, r *http.Request, parameters url.Values, stores bool, work func([]item) func(*item) (any, error)) error {
	media := mediatype.Of(r.Header.Get("Content-Type"))
	isPage := false
	switch media {
	case api.JSONLines, "application/jsonl", "application/json":
		if len(parameters) > 0 {
			return badCall("a body of type %s has no parameters: key and scope are fields of its documents", media)
		}
	case "text/html", "application/xhtml+xml", "text/plain":
		if isPage = parameters.Has("key"); !isPage {
			return badCall("a body of type %s is one page: its URL is missing, as in ?key=https%%3A%%2F%%2Fexample.com%%2F", media)
		}
	default:
		return refusal(wire.ContentType, http.StatusUnsupportedMediaType,
			"Content-Type is %.80q: want %s or application/json for documents, or text/html or text/plain for a page", media, api.JSONLines)
	}
	body, err := a.readBody(r)
	if err != nil {
		return err
	}
	out := &documentWriter{answer: a, form: asLines, text: make([]byte, 0, min(2*len(body)+256, callBytes+4<<10))}
	documents := lines(body)
	switch {
	case isPage:
		out.form, documents = asObject, func(yield func(int, []byte) bool) { yield(1, body) }
	case media == "application/json":
		documents, out.form, err = values(body)
	default:
		err = checkFirst(documents)
	}
	if err != nil {
		return err
	}
	a.Header().Set("Content-Type", "application/json")
	if out.form == asLines {
		a.Header().Set("Content-Type", api.JSONLines)
	}
	fill := func(i *item, d *api.Document) { s.fill(i, d, stores) }
	if isPage {
		fill = func(i *item, _ *api.Document) {
			i.key = parameters.Get("key")
			i.document, i.reason = s.analyze(api.Page{URL: i.key, Scope: parameters.Get("scope"), ContentType: r.Header.Get("Content-Type"), Body: i.text})
		}
	}
	items := make([]item, 0, min(window, bytes.Count(body, []byte{'\n'})+1))
	answerItems := func() error {
		s.analyzeItems(items, fill)
		answer := work(items)
		for n := range items {
			i := &items[n]
			var v any = i.malformed
			var err error
			if i.malformed == nil {
				v, err = answer(i)
			}
			if err == nil {
				err = out.add(v)
			}
			if err != nil {
				return err
			}
		}
		items = items[:0]
		return nil
	}
	for number, text := range documents {
		if items = append(items, item{number: number, text: text}); len(items) == window {
			if err := answerItems(); err != nil {
				return out.end(err)
			}
		}
	}
	return out.end(answerItems())
}

// lines yields the lines of a body that are not blank, with their numbers.
func lines(body []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		number := 0
		for text := range bytes.SplitSeq(bytes.TrimPrefix(body, byteOrderMark), []byte{'\n'}) {
			number++
			if text = bytes.TrimSpace(text); len(text) > 0 && !yield(number, text) {
				return
			}
		}
	}
}

var byteOrderMark = []byte("\ufeff")

// decoder returns a decoder that accepts duplicate names and invalid UTF-8, which wire.Parse refuses with
// the number of the document. It does not copy the text.
func decoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// checkFirst returns an error if the first line does not begin an object, or breaks off within it: then
// the body is in another format.
func checkFirst(lines iter.Seq2[int, []byte]) error {
	for number, text := range lines {
		if text[0] != '{' || errors.Is(decoder(text).SkipValue(), io.ErrUnexpectedEOF) {
			return badCall("line %d is not a JSON object: an array, or an object of several lines, needs Content-Type: application/json, "+
				"and a page needs Content-Type: text/html or text/plain and its URL, as in ?key=https%%3A%%2F%%2Fexample.com%%2F", number)
		}
		break
	}
	return nil
}

// values yields the documents of a JSON array, or the object that is the only one.
func values(body []byte) (documents iter.Seq2[int, []byte], as form, err error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark))
	d := decoder(body)
	kind := d.PeekKind()
	if err = d.SkipValue(); err == nil {
		if _, err = d.ReadToken(); err == nil {
			err = errors.New("there is more after its first value")
		}
	}
	if kind != '[' && kind != '{' || err != io.EOF {
		return nil, 0, badCall("the body is not a JSON object or array: %v; one object per line has the type %s", err, api.JSONLines)
	}
	if kind == '{' {
		return func(yield func(int, []byte) bool) { yield(1, body) }, asObject, nil
	}
	return func(yield func(int, []byte) bool) {
		d := decoder(body)
		d.ReadToken()
		for number := 1; d.PeekKind() != ']'; number++ {
			value, _ := d.ReadValue() // the body is valid
			if end := int(d.InputOffset()); !yield(number, body[end-len(value):end]) {
				return
			}
		}
	}, asArray, nil
}

// analyzeItems analyzes documents by fill, on all cores if they are long. Only as many goroutines as there
// are cores analyze at a time.
func (s *Server) analyzeItems(items []item, fill func(*item, *api.Document)) {
	size := 0
	for n := range items {
		size += len(items[n].text)
	}
	var next atomic.Int64
	analyze := func() {
		s.analysis.Acquire(context.Background(), 1)
		defer s.analysis.Release(1)
		var d api.Document
		for n := int(next.Add(1)); n <= len(items); n = int(next.Add(1)) {
			fill(&items[n-1], &d)
		}
	}
	if size < 64<<10 {
		analyze()
		return
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(items)) {
		wg.Go(analyze)
	}
	wg.Wait()
}

// fill reads a document. One that is stored must have text if the index is one of texts.
func (s *Server) fill(i *item, d *api.Document, stores bool) {
	err := wire.Parse(i.text, d)
	if err == nil && stores && (d.MaxDistance != nil || d.Limit != 0) {
		err = errors.New("maxDistance and limit are fields of a query")
	}
	if err != nil {
		i.malformed = &callError{wire.BadLine, http.StatusBadRequest, err.Error(), i.number}
		return
	}
	i.key, i.maxDistance, i.limit = d.Key, d.MaxDistance, d.Limit
	i.document, i.reason = check.Document(d, stores && s.index.Signer() != nil, s.analyze)
}

func (s *Server) analyze(p neardup.Page) (index.Document, string) {
	return check.Page(s.index.Signer(), s.limits.PageBytes, p)
}
