package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/wire"
)

// item is a line on its way to its answer.
type item struct {
	line     *wire.Line // nil: it could not be parsed
	key      string
	document index.Document
	reason   string // why it is skipped
	claim    *claim
}

// fill makes an item of a line. What is stored must have text, where the index is of texts.
func (s *Server) fill(i *item, raw []byte, stores bool) {
	var err error
	if i.line, err = wire.ParseLine(raw); err != nil {
		i.reason = err.Error()
		return
	}
	i.key = i.line.Name()
	if i.line.Limit < 0 {
		i.reason = fmt.Sprintf("limit is %d, want 0 or more", i.line.Limit)
		return
	}
	if i.line.Fingerprint != nil {
		i.document = i.line.Document()
		if err := index.Validate(&i.document); err != nil {
			i.reason = err.Error()
		} else if stores && s.index.Signer() != nil && i.document.Signature() == (index.Query{}).Signature {
			i.reason = neardup.NoText
		}
		return
	}
	p, err := i.line.Page()
	if err != nil {
		i.reason = err.Error()
		return
	}
	i.line.HTML, i.line.Text, i.line.Body = nil, nil, nil
	i.document, i.reason = s.analyze(p)
}

// analyze makes a document of a page. As many are made at once as there are processors, since a page
// takes several times its size meanwhile.
func (s *Server) analyze(p neardup.Page) (d index.Document, reason string) {
	if len(p.Body) > s.limits.PageBytes {
		return d, fmt.Sprintf("too large: %d bytes, limit %d", len(p.Body), s.limits.PageBytes)
	}
	signer := s.index.Signer()
	if signer == nil {
		return d, "the index is of fingerprints, and takes no pages"
	}
	s.analysis.Acquire(context.Background(), 1)
	defer s.analysis.Release(1)
	return neardup.Analyze(signer, p)
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
	if 0 <= r.ContentLength && r.ContentLength <= smallBody {
		return s.forEachOf(r, stores, work)
	}
	return s.forEachStreamed(a, r, stores, work)
}

// forEachOf is forEachWindow of a body that is short.
func (s *Server) forEachOf(r *http.Request, stores bool, work func([]*item) error) error {
	c := &claim{server: s}
	defer c.release()
	body, err := readBody(r, c, smallBody)
	if err != nil {
		return err
	}
	var raw [][]byte
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) > 0 {
			raw = append(raw, line)
		}
	}
	for part := range slices.Chunk(raw, window) {
		items := make([]*item, len(part))
		fill := func(from, to int) {
			for n := from; n < to; n++ {
				items[n] = &item{claim: c}
				s.fill(items[n], part[n], stores)
			}
		}
		const share = 16 // lines that are worth a goroutine
		var others sync.WaitGroup
		for from := share; from < len(part); from += share {
			others.Go(func() { fill(from, min(from+share, len(part))) })
		}
		fill(0, min(share, len(part)))
		others.Wait()
		if err := work(items); err != nil {
			return err
		}
	}
	return nil
}

// forEachStreamed is forEachWindow of a body that may go on for ever.
func (s *Server) forEachStreamed(a *answer, r *http.Request, stores bool, work func([]*item) error) error {
	if conn := http.NewResponseController(a.ResponseWriter); r.ProtoMajor == 1 {
		conn.EnableFullDuplex() // else the first line out would end what comes in
	} else {
		a.multiplexed = true
		conn.SetWriteDeadline(time.Time{})
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
					s.fill(i, raw, stores)
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

// lineWriter writes lines of an answer.
type lineWriter struct {
	*answer
	out     *bytes.Buffer
	encoder *json.Encoder // into out
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (a *answer) lines() *lineWriter {
	out := buffers.Get().(*bytes.Buffer)
	out.Reset()
	l := &lineWriter{a, out, json.NewEncoder(out)}
	l.encoder.SetEscapeHTML(false)
	return l
}

func (l *lineWriter) add(v any) error {
	start := l.out.Len()
	err := l.encoder.Encode(v)
	line := l.out.Bytes()[start:]
	if escaped := corpus.EscapeControls(line); len(escaped) != len(line) {
		l.out.Truncate(start)
		l.out.Write(escaped)
	}
	return err
}

// flush sends what was added, the last time.
func (l *lineWriter) flush() error {
	defer buffers.Put(l.out)
	return l.send()
}

// send sends what was added. A caller who does not take it in time ends the call.
func (l *lineWriter) send() error {
	defer l.out.Reset()
	conn := http.NewResponseController(l.ResponseWriter)
	conn.SetWriteDeadline(time.Now().Add(l.server.limits.WriteTime))
	if _, err := l.Write(l.out.Bytes()); err != nil {
		return unread(err)
	}
	err := conn.Flush()
	if l.multiplexed {
		conn.SetWriteDeadline(time.Time{})
	}
	return unread(err)
}

// encode returns a value as a line of JSON that is safe on a terminal.
func encode(v any) ([]byte, error) {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return corpus.EscapeControls(line.Bytes()), nil
}
