package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/wire"
)

// item is a line on its way to its answer.
type item struct {
	key      string
	document index.Document
	reason   string // why it is skipped
	claim    *claim

	maxDistance *int // of a query
	limit       int
}

// fill makes an item of a line, which is read into l. What is stored must have text, where the index is of texts.
func (s *Server) fill(i *item, l *wire.Line, raw []byte, stores bool) {
	err := l.Parse(raw)
	i.key, i.maxDistance, i.limit = l.Name(), l.MaxDistance, l.Limit
	if err != nil {
		i.reason = err.Error()
		return
	}
	if l.Limit < 0 {
		i.reason = fmt.Sprintf("limit is %d, want 0 or more", l.Limit)
		return
	}
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
	var raw []byte
	var line wire.Line
	for body = bytes.TrimSpace(body); len(body) > 0; {
		items := make([]*item, 0, min(window, 1+bytes.Count(body, []byte{'\n'})))
		for len(items) < window && len(body) > 0 {
			if raw, body, _ = bytes.Cut(body, []byte{'\n'}); len(bytes.TrimSpace(raw)) > 0 {
				i := &item{claim: c}
				s.fill(i, &line, raw, stores)
				items = append(items, i)
			}
		}
		a.last = len(body) == 0
		if err := work(items); err != nil {
			return err
		}
	}
	return nil
}

// forEachStreamed is forEachWindow of a body that may go on for ever.
func (s *Server) forEachStreamed(a *answer, r *http.Request, stores bool, work func([]*item) error) error {
	if !a.multiplexed {
		http.NewResponseController(a.ResponseWriter).EnableFullDuplex() // else the first line out would end what comes in
	}
	lines := s.newLineReader(a.ResponseWriter, r)
	// A read that fails, as at the end of its time, ends the context of the call; what was read before is answered.
	pipe := ordered.New(context.WithoutCancel(r.Context()), runtime.GOMAXPROCS(0), window, func(p *ordered.Pipe[*item]) error {
		for {
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
				err = p.Go(func(int) (*item, error) {
					s.fill(i, new(wire.Line), raw, stores)
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
