package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/process"
	"github.com/neardup/neardup/internal/wire"
)

// Limits are what clients may take. A limit of 0 is its default.
type Limits struct {
	Connections int   // open at once; default 4096
	Calls       int   // under way at once; default 1024
	Bytes       int64 // read and not answered yet, or of queries and not taken yet; at least LeastBytes; default 256 MiB
	HeaderBytes int   // of a call's head; default 256 KiB, which a key of 64 KiB in a URL takes
	PageBytes   int   // of a page; larger ones are skipped; default neardup.DefaultMaxBody

	HeaderTime time.Duration // to send a head; default 10 s
	BodyTime   time.Duration // to send a body that is a page, and a line from its first byte to its last; default 60 s
	WriteTime  time.Duration // to take an answer; default 30 s
	IdleTime   time.Duration // between two calls, or two lines; default 5 min
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.Connections, 4096)
	setDefault(&l.Calls, 1024)
	setDefault(&l.Bytes, 256<<20)
	setDefault(&l.HeaderBytes, 256<<10)
	setDefault(&l.PageBytes, neardup.DefaultMaxBody)
	setDefault(&l.HeaderTime, 10*time.Second)
	setDefault(&l.BodyTime, time.Minute)
	setDefault(&l.WriteTime, 30*time.Second)
	setDefault(&l.IdleTime, 5*time.Minute)
	return l
}

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// lineBytes is what a line may have: a page in base64, and the longest key and scope.
func (l *Limits) lineBytes() int {
	return l.PageBytes/3*4 + 4*(match.MaxKeyBytes+match.MaxScopeBytes)
}

// LeastBytes is what Bytes must be so that one document has room, if no other call is under way.
func (l Limits) LeastBytes() int64 {
	l = l.withDefaults()
	return int64(max(l.PageBytes+1, l.lineBytes()))
}

// MostConnections is how many leave the index the files that it may have open (docs/limits.md): a log or table that
// cannot be made for want of one stops its writes until it is opened again.
func MostConnections() int { return mostConnections(process.OpenFilesLimit()) }

func mostConnections(openFiles uint64) int {
	return int(min(process.HostFiles(openFiles), math.MaxInt32))
}

// boundedListener refuses connections over the bound at once: one that waited would look like a server
// that hangs.
type boundedListener struct {
	net.Listener
	server *Server
	room   chan struct{}
}

const refusedBody = `{"error":"server is busy: too many connections","code":"busy"}` + "\n"

var refusal = fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
	len(refusedBody), refusedBody)

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.room <- struct{}{}:
			return &boundedConn{Conn: conn, server: l.server, leave: sync.OnceFunc(func() { <-l.room })}, nil
		default:
		}
		l.server.metrics.refused.WithLabelValues("connections").Inc()
		if l.server.opts.TLS == nil {
			conn.SetWriteDeadline(time.Now().Add(time.Millisecond)) // it fits into the socket's buffer
			io.WriteString(conn, refusal)
		}
		conn.Close()
	}
}

type boundedConn struct {
	net.Conn
	server *Server
	leave  func()
	active atomic.Bool // a call is under way, or was the last one, and its answer is taken
	late   atomic.Bool // a head did not come in time, or not whole: there is no call to answer
	ended  atomic.Bool // nothing more is read
	closed atomic.Bool
}

// noteState is told by net/http what a connection does.
func (s *Server) noteState(c net.Conn, now http.ConnState) {
	if bounded := boundedOf(c); bounded != nil {
		bounded.active.Store(now == http.StateActive && !bounded.late.Load())
	}
	s.metrics.connState(c, now)
}

// Close closes a connection. The second time, as of a server that is cut off, it waits for nobody.
func (c *boundedConn) Close() error {
	defer c.leave()
	if !c.closed.Swap(true) && c.active.Load() {
		c.linger()
	}
	return c.Conn.Close()
}

// lingerTime is how long a caller may be silent after the last answer before the connection is closed.
const lingerTime = 5 * time.Second

// linger drops what the caller still sends behind the last answer, within the time of a page: what comes in after the
// close would reset the connection, and the answer be lost.
func (c *boundedConn) linger() {
	tcp, is := c.Conn.(*net.TCPConn)
	if !is || c.server.cut.Load() || tcp.CloseWrite() != nil {
		return
	}
	end := time.Now().Add(c.server.limits.BodyTime)
	dropped := make([]byte, 4<<10)
	for err := error(nil); err == nil && !c.server.cut.Load(); _, err = tcp.Read(dropped) {
		next := time.Now().Add(lingerTime)
		if end.Before(next) {
			next = end
		}
		tcp.SetReadDeadline(next)
	}
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.ended.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if err != nil && !c.active.Load() {
		c.late.Store(true)
	}
	return n, err
}

func (c *boundedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.active.Store(false)
	}
	return n, err
}

// connKey is that of a connection in the context of its calls.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, boundedOf(c))
}

// boundedOf returns the connection that TLS may be around; nil: it is of another listener.
func boundedOf(c net.Conn) *boundedConn {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	bounded, _ := c.(*boundedConn)
	return bounded
}

// connOf returns the connection of a call that may be the last one on it; nil: it may not.
func connOf(r *http.Request) *boundedConn {
	c, _ := r.Context().Value(connKey{}).(*boundedConn)
	if r.ProtoMajor > 1 {
		return nil
	}
	return c
}

// lastOf makes a call the last one on its connection: its body was not read to its end, so what comes after it is no
// head of another one. net/http sees to that itself, but not of a call that is answered while its body is read.
func lastOf(r *http.Request) {
	if c := connOf(r); c != nil {
		c.ended.Store(true)
	}
}

// untilLast ends a connection with its last call, whatever of the body was read ahead.
func untilLast(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := connOf(r); c != nil && c.ended.Load() {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	})
}

// claim is what a call has of the bytes that may be in memory.
type claim struct {
	server *Server
	lines  *lineReader // that it is a line of; nil: of none
	n      int64
}

// take claims n bytes more, or fails where there is no room.
func (c *claim) take(n int64) error {
	if !c.server.bytes.TryAcquire(n) {
		c.server.metrics.refused.WithLabelValues("bytes").Inc()
		return fmt.Errorf("%w: too much is being read or answered", wire.ErrBusy)
	}
	c.add(n)
	return nil
}

// freeAnswer is how long an answer to a query may be that takes no more than its call does.
const freeAnswer = 64 << 10

// takeAnswer claims what an answer of n bytes takes until the caller has taken it.
func (c *claim) takeAnswer(n int) error {
	if over := int64(n-freeAnswer) - c.n; over > 0 {
		return c.take(over)
	}
	return nil
}

func (c *claim) add(n int64) {
	c.n += n
	if c.lines != nil {
		c.lines.claimed.Add(n)
	}
}

func (c *claim) release() {
	c.server.bytes.Release(c.n)
	n := c.n
	c.add(-n)
	if n > 0 && c.lines != nil {
		select {
		case c.lines.released <- struct{}{}:
		default:
		}
	}
}

// errOver is of a body or a line that is longer than its bound.
var errOver = errors.New("over the bound")

// readBody reads a body of at most limit bytes, which a Content-Length that lies does not make larger.
func readBody(r *http.Request, c *claim, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errOver
	}
	size := int64(32 << 10)
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength)
	}
	if err := c.take(size + 1); err != nil {
		return nil, err
	}
	body := make([]byte, 0, size+1)
	for {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, errOver
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, readError(err)
		case len(body) < cap(body):
			continue
		}
		larger := min(2*int64(cap(body)), limit+1)
		if r.ContentLength >= 0 {
			larger = min(larger, r.ContentLength+1)
		}
		if err := c.take(larger - int64(cap(body))); err != nil {
			return nil, err
		}
		body = append(make([]byte, 0, larger), body...)
	}
}

// callError is an error with a code of its own.
type callError struct {
	code   string
	status int
	text   string
}

func (e *callError) Error() string { return e.text }

func badCall(format string, args ...any) error {
	return &callError{wire.BadRequest, http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// readError says why a body could not be read.
func readError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &callError{wire.Timeout, http.StatusRequestTimeout, "the body came too slowly"}
	}
	return &callError{wire.BadRequest, http.StatusBadRequest, "the body ends early or is malformed: " + err.Error()}
}

// lineReader reads lines, each within its time.
type lineReader struct {
	server  *Server
	conn    *http.ResponseController
	buffer  *bufio.Reader
	ended   atomic.Bool
	whole   atomic.Bool // it was read to its end
	stopped atomic.Bool
	paused  bool // no time runs between two lines: that of HTTP/2 would end the stream for good

	claimed  atomic.Int64  // of lines that are not answered
	released chan struct{} // has room for one
}

// interrupt ends a read that is under way, and all that follow. At the end of a body it would end the connection
// instead, of which net/http is reading already.
func (l *lineReader) interrupt() {
	l.stopped.Store(true)
	if !l.ended.Load() {
		l.conn.SetReadDeadline(time.Now())
	}
}

// within gives the reads that follow their time, 0 for any, unless interrupt was called.
func (l *lineReader) within(d time.Duration) {
	var end time.Time
	if d > 0 {
		end = time.Now().Add(d)
	}
	l.conn.SetReadDeadline(end)
	if l.stopped.Load() {
		l.conn.SetReadDeadline(time.Now())
	}
}

// close gives back what was claimed and never answered, once nobody reads any more.
func (l *lineReader) close() { l.server.bytes.Release(l.claimed.Swap(0)) }

// aheadBytes is how much of a call is read ahead of its answers, and a line more: one call alone does not
// come to the bound of all.
const aheadBytes = 2 * windowBytes

// wait waits until there is room ahead of the answers.
func (l *lineReader) wait(ctx context.Context) error {
	for l.claimed.Load() > aheadBytes {
		select {
		case <-l.released:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// freeLine is how long a line may be that takes no more than its connection does.
const freeLine = 4 << 10

func (s *Server) newLineReader(w http.ResponseWriter, r *http.Request) *lineReader {
	l := &lineReader{server: s, conn: http.NewResponseController(w), paused: r.ProtoMajor > 1, released: make(chan struct{}, 1)}
	l.buffer = bufio.NewReaderSize(r.Body, freeLine)
	return l
}

// next reads a line, without its end, and claims what it takes. It is errOver for one that is too long, of which
// nothing is kept, and io.EOF at the end.
func (l *lineReader) next(ctx context.Context) (line []byte, c *claim, err error) {
	if l.ended.Load() {
		return nil, nil, io.EOF
	}
	if err := l.wait(ctx); err != nil {
		return nil, nil, err
	}
	if l.buffer.Buffered() == 0 {
		l.within(l.server.limits.IdleTime)
		if _, err := l.buffer.Peek(1); err != nil {
			return nil, nil, l.end(err)
		}
	}
	l.within(l.server.limits.BodyTime)
	c = &claim{server: l.server, lines: l}
	over := false
	for {
		part, err := l.buffer.ReadSlice('\n')
		if n := len(line) + len(part); n > l.server.limits.lineBytes() && !over {
			over, line = true, nil
			c.release()
		}
		if !over {
			if grown := cap(line); len(line)+len(part) > grown {
				size := max(min(2*grown, l.server.limits.lineBytes()), len(line)+len(part))
				if err := l.claim(ctx, c, int64(size-grown)); err != nil {
					c.release()
					return nil, nil, err
				}
				line = append(make([]byte, 0, size), line...)
			}
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == nil || err == io.EOF && (over || len(bytes.TrimSpace(line)) > 0):
			if err == io.EOF {
				l.end(err)
			}
			if over {
				return nil, c, errOver
			}
			if l.paused {
				l.within(0)
			}
			return bytes.TrimRight(line, "\r\n"), c, nil
		}
		c.release()
		return nil, nil, l.end(err)
	}
}

// claim claims memory: a short line waits for it, since it holds nothing that others could wait for.
func (l *lineReader) claim(ctx context.Context, c *claim, n int64) error {
	if c.n > 0 || n > freeLine {
		return c.take(n)
	}
	if err := l.server.bytes.Acquire(ctx, n); err != nil {
		return err
	}
	c.add(n)
	return nil
}

func (l *lineReader) end(err error) error {
	l.ended.Store(true)
	if err != io.EOF && l.server.isStopping() {
		return errStopping
	}
	if err == io.EOF {
		l.whole.Store(true)
		l.conn.SetReadDeadline(time.Time{}) // net/http reads on, to see whether the caller goes away
		return err
	}
	return readError(err)
}
