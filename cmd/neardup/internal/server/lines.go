package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/wire"
)

// item is a document of a call on its way to its answer.
type item struct {
	key       string
	document  index.Document
	reason    string        // why it is skipped
	malformed *wire.Failure // answered instead
	claim     *claim

	maxDistance *int // of a query
	limit       int
}

func (i *item) isCompared() bool { return i.reason == "" && i.malformed == nil }

// fail makes the answer to an item an error of its line.
func (i *item) fail(number int, key, text string) {
	i.malformed = &wire.Failure{Error: fmt.Sprintf("line %d: %s", number, text), Code: wire.BadLine, Line: number}
	i.malformed.Key, i.malformed.KeyBytes = wire.Split(key)
}

// fill reads line number n into l and i. A document that is stored must have text if the index is one of texts.
func (s *Server) fill(i *item, l *wire.Line, n int, raw []byte, stores bool) {
	err := l.Parse(raw)
	if err == nil && stores && (l.MaxDistance != nil || l.Limit != 0) {
		err = errors.New("maxDistance and limit are fields of a query")
	}
	if err != nil {
		i.fail(n, l.Key, err.Error())
		return
	}
	i.key, i.maxDistance, i.limit = l.Key, l.MaxDistance, l.Limit
	i.document, i.reason = check.Line(l, stores && s.index.Signer() != nil, s.analyze)
}

// analyze makes a document of a page. As many are made at once as there are processors, since a page
// takes several times its size meanwhile.
func (s *Server) analyze(p neardup.Page) (d index.Document, reason string) {
	s.analysis.Acquire(context.Background(), 1)
	defer s.analysis.Release(1)
	return check.Page(s.index.Signer(), s.limits.PageBytes, p)
}

const (
	// window is how many lines are answered together, and windowBytes how much they may have.
	window      = 256
	windowBytes = 4 << 20
)

// smallBody is how long a body may be that is read before its lines are looked at.
const smallBody = 256 << 10

// forEachWindow reads the lines of a call and gives them to work, in order, as many at once as are there.
func (s *Server) forEachWindow(a *answer, r *http.Request, stores bool, work func([]*item) error) error {
	a.Header().Set("Content-Type", wire.JSONLines)
	if r.ProtoMajor > 1 {
		a.multiplexed = true
		http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Time{})
	}
	if 0 <= r.ContentLength && r.ContentLength <= smallBody {
		return s.forEachOf(a, r, stores, work)
	}
	return s.forEachStreamed(a, r, stores, work)
}

// forEachOf is forEachWindow of a body that is short.
func (s *Server) forEachOf(a *answer, r *http.Request, stores bool, work func([]*item) error) error {
	c := &claim{server: s}
	defer c.release()
	body, err := readBody(r, c, smallBody)
	if err != nil {
		return err
	}
	var lines []numbered
	n := 0
	for raw := range bytes.SplitSeq(body, []byte{'\n'}) {
		n++
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		if len(lines) == 0 {
			if err := checkFirst(n, raw); err != nil {
				return err
			}
		}
		lines = append(lines, numbered{n, raw})
	}
	return s.forEachRaw(a, c, lines, stores, work)
}

// numbered is a document as it came, with its place in the request from 1.
type numbered struct {
	n   int
	raw []byte
}

// forEachRaw calls work with the documents of a body that is in memory.
func (s *Server) forEachRaw(a *answer, c *claim, raws []numbered, stores bool, work func([]*item) error) error {
	var line wire.Line
	for part := range slices.Chunk(raws, window) {
		items := make([]*item, len(part))
		for at, raw := range part {
			items[at] = &item{claim: c}
			s.fill(items[at], &line, raw.n, raw.raw, stores)
		}
		raws = raws[len(part):]
		a.last = len(raws) == 0
		if err := work(items); err != nil {
			return err
		}
	}
	return nil
}

// forEachValue is forEachWindow of a body of type application/json: an array of documents, or one or several of them. A body
// that is not JSON is refused as a whole.
func (s *Server) forEachValue(a *answer, r *http.Request, stores bool, work func([]*item) error) error {
	c := &claim{server: s}
	defer c.release()
	body, err := readBody(r, c, int64(s.limits.lineBytes()))
	if errors.Is(err, errOver) {
		return fmt.Errorf("%w: application/json may have %d bytes; send more documents as lines, of type %s", index.ErrTooLarge, s.limits.lineBytes(), wire.JSONLines)
	}
	if err != nil {
		return err
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	// Duplicate names and invalid UTF-8 are accepted here, because Parse refuses them with the number of the document.
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var values []numbered
	for {
		if kind := d.PeekKind(); kind == '[' && d.StackDepth() == 0 || kind == ']' {
			_, err = d.ReadToken()
		} else {
			var value jsontext.Value
			if value, err = d.ReadValue(); err == nil {
				end := int(d.InputOffset())
				values = append(values, numbered{len(values) + 1, body[end-len(value) : end]})
			}
		}
		if err == io.EOF {
			a.Header().Set("Content-Type", wire.JSONLines)
			return s.forEachRaw(a, c, values, stores, work)
		}
		if err != nil {
			return badCall("the body is not JSON: %v; lines of JSON have the type %s", err, wire.JSONLines)
		}
	}
}

// checkFirst refuses a body whose first line, of number n, shows that it is not lines of JSON objects.
func checkFirst(n int, raw []byte) error {
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := d.SkipValue(); bytes.HasPrefix(raw, []byte{'{'}) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // what else is wrong with it is an error of the line
	}
	return badCall("line %d is not an object of JSON, one per line: a JSON array or an object of several lines needs Content-Type: application/json, "+
		"and a page needs Content-Type: text/html or text/plain and its URL, as in ?key=https%%3A%%2F%%2Fexample.com%%2F", n)
}

// forEachStreamed is forEachWindow of a body that may go on for ever.
func (s *Server) forEachStreamed(a *answer, r *http.Request, stores bool, work func([]*item) error) error {
	if !a.multiplexed {
		http.NewResponseController(a.ResponseWriter).EnableFullDuplex() // else the first line out would end what comes in
	}
	lines := s.newLineReader(a.ResponseWriter, r)
	// A read that fails, as at the end of its time, ends the context of the call; what was read before is answered.
	pipe := ordered.New(context.WithoutCancel(r.Context()), runtime.GOMAXPROCS(0), window, func(p *ordered.Pipe[*item]) error {
		first := true
		for n := 1; ; n++ {
			raw, claim, err := lines.next(p.Context())
			if err == io.EOF {
				return nil
			}
			i := &item{claim: claim}
			switch {
			case errors.Is(err, errOver):
				i.reason = fmt.Sprintf("too large: a line of more than %d bytes", s.limits.lineBytes())
				err = p.Send(i)
			case err == nil && len(bytes.TrimSpace(raw)) == 0:
				claim.release()
			case err == nil:
				if first {
					if err := checkFirst(n, raw); err != nil {
						return err
					}
				}
				first = false
				err = p.Go(func(int) (*item, error) {
					s.fill(i, new(wire.Line), n, raw, stores)
					return i, nil
				})
			}
			if err != nil {
				return err
			}
		}
	})
	awake := context.AfterFunc(s.stopping, lines.interrupt)
	defer awake()
	var held []*item
	defer func() {
		lines.interrupt() // whoever reads ends
		pipe.Stop(errUnread)
		lines.close()
		if !lines.whole.Load() {
			lastOf(r)
			r.Body.Close() // closed behind the call, the end of what is read ahead would make net/http read twice at once
		}
	}()
	for {
		i, ok, err := pipe.Next()
		if ok {
			held = append(held, i)
		}
		if len(held) > 0 && (!ok || len(held) == window || heldBytes(held) > windowBytes || !pipe.Ready()) {
			if failed := work(held); failed != nil {
				return failed
			}
			for _, i := range held {
				i.claim.release()
			}
			held = held[:0]
		}
		if !ok {
			return err
		}
	}
}

func heldBytes(held []*item) (n int64) {
	for _, i := range held {
		n += i.claim.n
	}
	return n
}

// lineWriter writes lines of an answer, one a document.
type lineWriter struct {
	*answer
	text *bytes.Buffer
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (a *answer) lines() *lineWriter {
	text := buffers.Get().(*bytes.Buffer)
	text.Reset()
	return &lineWriter{a, text}
}

func (l *lineWriter) add(line any) error {
	text, err := wire.Append(l.text.AvailableBuffer(), line)
	if err == nil {
		l.text.Write(text)
		l.documents++
	}
	return err
}

// end sends what was added, the last time, and returns why there is no more of it.
func (l *lineWriter) end(failed error) error {
	defer buffers.Put(l.text)
	if l.text.Len() == 0 {
		return failed
	}
	if err := l.send(); err != nil {
		return err
	}
	return failed
}

// send sends what was added. A caller who does not take it in time ends the call.
func (l *lineWriter) send() error {
	defer l.text.Reset()
	conn := http.NewResponseController(l.ResponseWriter)
	conn.SetWriteDeadline(time.Now().Add(l.server.limits.WriteTime))
	_, err := l.Write(l.text.Bytes())
	if err == nil && !l.last {
		err = conn.Flush()
	}
	if l.multiplexed && !l.last {
		conn.SetWriteDeadline(time.Time{})
	}
	return unread(err)
}
