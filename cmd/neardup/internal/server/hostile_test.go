package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// impatient are limits that a test can wait for.
var impatient = Limits{
	Connections: 20, Calls: 8, Bytes: 1 << 20, PageBytes: 64 << 10,
	HeaderTime: 300 * time.Millisecond, BodyTime: 300 * time.Millisecond, WriteTime: 300 * time.Millisecond, IdleTime: time.Second,
}

// talk sends text to a server, in parts with pauses between them, and returns all that it says before it ends the
// connection. It must do so by itself.
func talk(t *testing.T, address string, parts ...string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	must(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		for _, part := range parts {
			if _, err := io.WriteString(conn, part); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	said, err := io.ReadAll(conn)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("%.60q: the connection stays open", parts[0])
	}
	return string(said)
}

// Whatever comes over a connection, it ends by itself, with the answer that it should have, and what was sent whole
// is done and nothing else.
func TestHostileConnections(t *testing.T) {
	const check = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n"
	slowly := make([]string, 20) // a byte a tenth of a second
	for i := range slowly {
		slowly[i] = "x"
	}
	line := func(key string) string { return `{"key":"` + key + `","text":"words of ` + key + `"}` + "\n" }
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	for _, c := range []struct {
		what  string
		parts []string
		want  []string // in what is said
		keys  []string // of documents that are stored then
	}{
		{"half a head", []string{"POST /v1/ch"}, nil, nil},
		{"nothing", []string{""}, nil, nil},
		{"a slow head", append([]string{check}, slowly...), nil, nil},
		{"no HTTP", []string{"\x16\x03\x01\x00\xa5\r\n\r\n"}, []string{"400"}, nil},
		{"a large head", []string{check + "X: " + strings.Repeat("x", 300<<10) + "\r\n\r\n"}, []string{"431"}, nil},
		{"a slow page", append([]string{"POST /v1/check?key=slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"}, slowly...), []string{"408", `"timeout"`}, nil},
		{"a page that is cut off", []string{"POST /v1/check?key=cut HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nsome words"}, []string{"408"}, nil},
		{"a page that is larger than the bound", []string{"POST /v1/check?key=large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\nsome"}, []string{"200", `"skipped"`, "too large"}, nil},
		{"a length that is none", []string{check + "Content-Length: -1\r\n\r\n"}, []string{"400"}, nil},
		{"two lengths", []string{check + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"}, []string{"400"}, nil},
		{"a length and chunks", []string{check + "Connection: close\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(line("both")) + "0\r\n\r\n"}, nil, nil},
		{"chunks that are none", []string{check + "Transfer-Encoding: chunked\r\n\r\nzzzz\r\n"}, []string{`"bad_request"`}, nil},
		{"a chunk that never ends", []string{check + "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n" + line("first") + `{"key":`}, []string{`"first"`, `"new"`, `"timeout"`}, []string{"first"}},
		{"chunks that are cut off", []string{check + "Transfer-Encoding: chunked\r\n\r\n" + chunk(line("whole")+`{"key":"half","te`)}, []string{`"whole"`, `"timeout"`}, []string{"whole"}},
		{"a slow line", append([]string{check + "Content-Length: 1000\r\n\r\n" + line("before")}, slowly...), []string{`"timeout"`}, nil},
		{"a line without an end", []string{check + "Connection: close\r\nContent-Length: 43\r\n\r\n" + strings.TrimSpace(line("unended"))}, []string{`"new"`}, []string{"unended"}},
		{"a line over the bound", []string{check + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(`{"text":"`+strings.Repeat("x", 700<<10)+"\"}\n"+line("behind")) + "0\r\n\r\n"},
			[]string{"too large", `"behind"`}, []string{"behind"}},
		{"HTTP/1.0", []string{"POST /v1/check HTTP/1.0\r\nContent-Length: 36\r\n\r\n" + line("old")}, []string{"HTTP/1.0 200", `"new"`}, []string{"old"}},
		{"HTTP/1.0 without a length", []string{"POST /v1/check HTTP/1.0\r\n\r\n" + line("none")}, []string{"HTTP/1.0 400", `"bad_request"`, "Content-Length"}, nil},
		{"HTTP/1.0 in chunks", []string{"POST /v1/query HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(line("none")) + "0\r\n\r\n"}, []string{"HTTP/1.0 400", `"bad_request"`}, nil},
		{"another site", []string{check + "Origin: http://example.com\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}, []string{"403"}, nil},
		{"another host", []string{"GET /v1/stats HTTP/1.1\r\nHost: example.com:7490\r\nConnection: close\r\n\r\n"}, []string{"403"}, nil},
		{"a parameter that there is not", []string{"POST /v1/check?url=a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1\r\n\r\na"}, []string{"400", "unknown parameter", "percent-encode"}, nil},
		{"a key twice", []string{"POST /v1/check?key=a&key=b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1\r\n\r\na"}, []string{"400"}, nil},
		{"a path that leads out", []string{"POST /v1/checkpoint?name=../x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}, []string{"40"}, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			x := open(t, inMemory())
			_, address := serve(t, x, Options{Limits: impatient, Checkpoints: t.TempDir()})
			said := talk(t, address, c.parts...)
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not in %.2000q", want, said)
				}
			}
			var keys []string
			for d, err := range x.Documents(t.Context()) {
				must(t, err)
				keys = append(keys, d.Key)
			}
			if fmt.Sprint(keys) != fmt.Sprint(c.keys) && c.what != "a length and chunks" {
				t.Errorf("%q are stored, want %q; it said %.300q", keys, c.keys, said)
			}
		})
	}
}

// A caller who does not read is cut off, and takes no more than the sockets have room for. What was read of the
// stream and not answered is given back.
func TestCallerWhoDoesNotRead(t *testing.T) {
	x := open(t, inMemory())
	limits := impatient
	limits.BodyTime, limits.IdleTime = time.Minute, time.Minute // it is not what is read that takes too long
	s, address := serve(t, x, Options{Limits: limits})
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	must(t, err)
	defer conn.Close()
	io.WriteString(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	lines := strings.Repeat(`{"key":"`+strings.Repeat("k", 10_000)+`"}`+"\n", 10) // the answers are as long
	conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
	sent := 0
	for err == nil {
		_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(lines), lines)
		sent++
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Fatalf("it is not cut off: %v", err)
	}
	waitFor(t, func() bool { return testutil.ToFloat64(s.metrics.refused.WithLabelValues("unread")) == 1 })
	nothingIsClaimed(t, s)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 4000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("it does not come to that")
}

// Thousands of connections take what their bound allows; those over it are told so and counted, and the
// server goes on.
func TestConnectionsAreBounded(t *testing.T) {
	x := open(t, inMemory())
	limits := impatient
	limits.HeaderTime = 5 * time.Second
	s, address := serve(t, x, Options{Limits: limits})
	const connections = 2_000
	host := strings.TrimPrefix(address, "http://")
	refused := 0
	var held []net.Conn
	for range connections {
		conn, err := net.Dial("tcp", host)
		must(t, err)
		if len(held) < limits.Connections {
			held = append(held, conn)
			continue
		}
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if said, _ := io.ReadAll(conn); strings.HasPrefix(string(said), "HTTP/1.1 503") && strings.Contains(string(said), "Retry-After") {
			refused++
		}
		conn.Close()
	}
	if counted := int(testutil.ToFloat64(s.metrics.refused.WithLabelValues("connections"))); refused < connections/2 || counted < refused {
		t.Errorf("%d of %d were refused, %d counted", refused, connections, counted)
	}
	for _, conn := range held {
		conn.Close()
	}
	waitFor(t, func() bool {
		r, err := http.Get(address + "/healthz")
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
}

func TestMostConnections(t *testing.T) {
	for openFiles, want := range map[uint64]int{0: 8, 144: 8, 256: 64, 1024: 448, 2128: 1000, 5224: 4096, 1 << 40: math.MaxInt32} {
		if got := mostConnections(openFiles); got != want {
			t.Errorf("of %d files: %d connections, want %d", openFiles, got, want)
		}
	}
}

// Calls and bytes over their bounds are refused at once, and a client tries again until there is room.
func TestBusy(t *testing.T) {
	t.Parallel()
	x := open(t, nil)
	limits := impatient
	limits.HeaderTime, limits.IdleTime, limits.BodyTime = time.Minute, time.Minute, time.Minute // on a busy machine too
	s, address := serve(t, x, Options{Limits: limits})
	var streams []*io.PipeWriter
	for n := range limits.Calls {
		in, out := io.Pipe()
		streams = append(streams, out)
		go fmt.Fprintf(out, "{\"fingerprint\":\"%016x\"}\n", 1<<n)
		r, err := http.Post(address+"/v1/check", "", in) // returns with the first verdict: the call is under way
		must(t, err)
		defer r.Body.Close()
	}
	r, err := http.Get(address + "/v1/stats")
	must(t, err)
	r.Body.Close()
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Fatal(r.Status, r.Header)
	}
	time.AfterFunc(300*time.Millisecond, func() {
		for _, out := range streams {
			out.Close()
		}
	})
	c := dial(t, address, nil) // which waits
	if v, err := c.Check(t.Context(), neardup.Page{URL: "a", Body: []byte("some words")}); err != nil || v.Status != neardup.New {
		t.Error(v, err)
	}
	if n := testutil.ToFloat64(s.metrics.refused.WithLabelValues("calls")); n == 0 {
		t.Error("nothing was counted")
	}
	if !s.bytes.TryAcquire(limits.Bytes) {
		t.Fatal("bytes are claimed, and no call is under way")
	}
	one := dial(t, address, &client.Options{RetryFor: -1})
	if v, err := one.Check(t.Context(), neardup.Page{URL: "b", Body: []byte("other words")}); err == nil || v.Status != 0 {
		t.Error(v, err)
	}
	time.AfterFunc(200*time.Millisecond, func() { s.bytes.Release(limits.Bytes) })
	if v, err := c.Check(t.Context(), neardup.Page{URL: "b", Body: []byte("other words")}); err != nil || v.Status != neardup.New {
		t.Error(v, err)
	}
}

func TestToken(t *testing.T) {
	const token = "correct horse battery staple"
	s, address := serve(t, open(t, nil), Options{Token: token})
	for name, header := range map[string]string{"none": "", "another": "Bearer correct horse battery stapl", "longer": "Bearer " + token + "x", "empty": "Bearer ", "no bearer": token} {
		for _, path := range []string{"/v1/stats", "/metrics", "/", "/v1/check"} {
			r, _ := http.NewRequest(http.MethodGet, address+path, nil)
			r.Header.Set("Authorization", header)
			answer, err := http.DefaultClient.Do(r)
			if err != nil || answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s, %s: %v, %v", name, path, answer, err)
			}
		}
	}
	if n := testutil.ToFloat64(s.metrics.refused.WithLabelValues("token")); n != 20 {
		t.Errorf("%v were counted", n)
	}
	if _, err := client.Open(address, &client.Options{Token: "wrong"}); err == nil || !strings.Contains(err.Error(), client.ErrUnauthorized.Error()) {
		t.Error(err)
	}
	dial(t, address, &client.Options{Token: token})
	basic := "asic " + base64.StdEncoding.EncodeToString([]byte("anyone:"+token))
	for _, header := range []string{"B" + basic, "b" + basic, "bearer " + token, "BEARER " + token} {
		r, _ := http.NewRequest(http.MethodGet, address+"/v1/stats", nil)
		r.Header.Set("Authorization", header)
		if answer, err := http.DefaultClient.Do(r); err != nil || answer.StatusCode != http.StatusOK {
			t.Error(header, answer, err)
		}
	}
	if answer, err := http.Get(address + "/readyz"); err != nil || answer.StatusCode != http.StatusOK {
		t.Error(answer, err)
	}
}

// unheard has a call done, and nobody hears of it.
func unheard(h http.Handler, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.ServeHTTP(httptest.NewRecorder(), r)
}

// A call whose answer was lost is tried again, and stores its documents once.
func TestLostAnswer(t *testing.T) {
	x := open(t, nil)
	lost := 0
	s := New(x, Options{})
	inner := s.Handler()
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/check" && lost > 0 {
			lost--
			unheard(inner, r)
			panic(http.ErrAbortHandler)
		}
		inner.ServeHTTP(w, r)
	}))
	defer between.Close()
	defer s.Close()
	c := dial(t, between.URL, nil)
	lost = 2
	if v, err := c.Check(t.Context(), neardup.Page{URL: "ferry", Body: []byte("about the ferry")}); err != nil || v.Status != neardup.Unchanged || lost != 0 {
		t.Error(v, err)
	}
	lost = 1
	v, err := c.CheckBatch(t.Context(), []neardup.Page{{URL: "batch", Body: []byte("words of a batch")}, {URL: "batch copy", Body: []byte("words of a batch")}})
	if err != nil || v[0].Status != neardup.Unchanged || v[1].Status != neardup.Duplicate || x.Stats().Documents != 2 {
		t.Errorf("%+v, %v, %d documents", v, err, x.Stats().Documents)
	}
}

// A call that panics ends alone, and its trace is told; a connection that is aborted is not.
func TestPanicIsTold(t *testing.T) {
	var told bytes.Buffer
	log.SetOutput(&told)
	defer log.SetOutput(os.Stderr)
	_, address := serve(t, open(t, nil), Options{Page: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/aborted" {
			panic(http.ErrAbortHandler)
		}
		panic("an error of ours")
	})})
	for _, path := range []string{"/aborted", "/wrong"} {
		if r, err := http.Get(address + path); err == nil {
			t.Error(path, r.Status)
		}
	}
	dial(t, address, nil)
	log.SetOutput(os.Stderr)
	if said := told.String(); strings.Count(said, "panic serving") != 1 || !strings.Contains(said, "an error of ours") || !strings.Contains(said, "hostile_test.go") {
		t.Error(said)
	}
}

// A stream that ends before its body, whose last bytes are there already, ends its connection and nothing panics.
func TestStreamEndsBeforeItsBody(t *testing.T) {
	var told bytes.Buffer
	log.SetOutput(&told)
	defer log.SetOutput(os.Stderr)
	s, address := serve(t, open(t, inMemory()), Options{Limits: impatient})
	s.bytes.Acquire(t.Context(), impatient.Bytes-freeLine) // so that a line has begun when there is no more room
	chunk := func(line string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(line), line) }
	const head = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
	said := talk(t, address, head+chunk("{\"fingerprint\":\"0123456789abcdef\"}\n"), chunk(strings.Repeat(" ", 2*freeLine+100)+"\n")+"0\r\n\r\n")
	if !strings.Contains(said, `"new"`) || !strings.Contains(said, `"busy"`) {
		t.Error(said)
	}
	s.bytes.Release(impatient.Bytes - freeLine)
	dial(t, address, nil)
	log.SetOutput(os.Stderr)
	if told.Len() > 0 {
		t.Error(told.String())
	}
}

// A long stream of many lines takes no memory that grows with it, and gives all claims back.
func TestStreamIsBounded(t *testing.T) {
	x := open(t, inMemory())
	s, address := serve(t, x, Options{Limits: Limits{Bytes: 4 << 20}})
	in, out := io.Pipe()
	line := `{"fingerprint":"0123456789abcdef","tokens":9,"more":"` + strings.Repeat("x", 30_000) + `"}` + "\n"
	const lines = 5_000 // 150 MB
	go func() {
		for range lines {
			io.WriteString(out, line)
		}
		out.Close()
	}()
	r, err := http.Post(address+"/v1/check", "", in)
	must(t, err)
	defer r.Body.Close()
	n, most := 0, uint64(0)
	for answers := bufio.NewScanner(r.Body); answers.Scan(); n++ {
		if n%500 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if n != lines || most > 100<<20 {
		t.Errorf("%d answers, %d MiB", n, most>>20)
	}
	nothingIsClaimed(t, s)
}

// FuzzCalls: whatever is sent, there is an answer with a status and a body that this package has for it, and
// all that was claimed is given back.
func FuzzCalls(f *testing.F) {
	x, err := neardup.Open("pages", inMemory())
	must(f, err)
	s := New(x, Options{Limits: Limits{PageBytes: 4 << 10, Bytes: 1 << 20}})
	f.Cleanup(func() { s.Close(); x.Close() })
	for _, seed := range []struct{ method, target, contentType, body string }{
		{"POST", "/v1/check", "", `{"key":"a","text":"some words"}` + "\n\n" + `{"keyBytes":"/w==","body":"AAEC"}`},
		{"POST", "/v1/check", "", `{"key":"a","fingerprint":"0123456789abcdef","shingles":"1","tokens":-1}` + "\nnull\n[]\n{"},
		{"POST", "/v1/check?key=a&scope=b&kind=html", "text/html", "<p>some words"},
		{"POST", "/v1/query", "", `{"fingerprint":"0123456789abcdef","maxDistance":99,"limit":-1}`},
		{"POST", "/v1/query?key=", "text/plain; charset=utf-16", "w\x00o\x00"},
		{"GET", "/v1/documents?key=a", "", ""}, {"DELETE", "/v1/documents?key=%ff", "", ""}, {"GET", "/v1/pairs?of=a&limit=1", "", ""},
		{"GET", "/v1/compare?a=a&b=a", "", ""}, {"GET", "/v1/stats", "", ""}, {"POST", "/v1/checkpoint?name=..", "", ""}, {"GET", "/metrics", "", ""}, {"PUT", "/%zz", "", ""},
	} {
		f.Add(seed.method, seed.target, seed.contentType, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, method, target, contentType string, body []byte) {
		r, err := http.NewRequest(method, "http://localhost/", bytes.NewReader(body))
		if err != nil {
			t.Skip()
		}
		if r.URL, err = r.URL.Parse(target); err != nil {
			t.Skip()
		}
		r.Host, r.RequestURI, r.RemoteAddr = "localhost", target, "127.0.0.1:1"
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r.WithContext(context.Background()))
		answer := w.Result()
		if answer.StatusCode >= 500 || answer.StatusCode < 200 {
			t.Errorf("%s %s: %s, %s", method, target, answer.Status, w.Body)
		}
		if !s.bytes.TryAcquire(1 << 20) {
			t.Fatal("bytes are claimed, and no call is under way")
		}
		s.bytes.Release(1 << 20)
	})
}

// lingering is a connection to a server of which a call is over, on which a byte has come in that is not read, so that closing it
// would reset it.
func lingering(t *testing.T, s *Server) (caller net.Conn, conn *boundedConn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer inner.Close()
	if caller, err = net.Dial("tcp", inner.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { caller.Close() })
	accepted, err := (&boundedListener{Listener: inner, server: s, room: make(chan struct{}, 1)}).Accept()
	must(t, err)
	io.WriteString(caller, "ab")
	if _, err := io.ReadFull(accepted, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	conn = accepted.(*boundedConn)
	conn.active.Store(true)
	return caller, conn
}

// Who still sends hears the last answer, unless connections are cut off, one after the other: then none is waited for.
func TestLinger(t *testing.T) {
	s := New(open(t, nil), Options{})
	defer s.Close()
	for _, cut := range []bool{false, true} {
		caller, conn := lingering(t, s)
		s.cut.Store(cut)
		closed := make(chan error)
		go func() { closed <- conn.Close() }()
		if _, err := caller.Read(make([]byte, 1)); errors.Is(err, io.EOF) == cut {
			t.Errorf("cut off is %v: the caller reads %v", cut, err)
		}
		if !cut {
			conn.Close() // again, as who cuts it off does
		}
		select {
		case <-closed:
		case <-time.After(lingerTime / 2):
			t.Errorf("cut off is %v: it is not closed", cut)
		}
	}
}

// Who sends for ever is not read for ever.
func TestLingerEnds(t *testing.T) {
	s := New(open(t, nil), Options{Limits: impatient})
	defer s.Close()
	caller, conn := lingering(t, s)
	go func() {
		for err := error(nil); err == nil; {
			_, err = caller.Write(make([]byte, 1<<10))
		}
	}()
	begun := time.Now()
	conn.Close()
	if took := time.Since(begun); took < impatient.BodyTime || took > lingerTime {
		t.Errorf("it took %s", took)
	}
}

// Who sends a head too slowly is not read on behind the end of its time, wherever in a line that is.
func TestSlowHeadIsCutOff(t *testing.T) {
	limits := impatient
	limits.BodyTime = time.Hour
	_, address := serve(t, open(t, inMemory()), Options{Limits: limits})
	for _, drop := range []string{"x", "X: y\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n")
		for end := time.Now().Add(10 * time.Second); err == nil; time.Sleep(10 * time.Millisecond) {
			if _, err = io.WriteString(conn, drop); time.Now().After(end) {
				t.Fatalf("%q after %q is still read", drop, drop)
			}
		}
	}
}

// A caller who sends all before it reads hears what it is answered, whatever the answer did not wait for.
func TestAnswerBeforeEndOfBody(t *testing.T) {
	const token = "a token of some length"
	limits := Limits{PageBytes: 1 << 20}
	_, address := serve(t, open(t, inMemory()), Options{Limits: limits, Token: token})
	_, securedAddress, known := secured(t, open(t, inMemory()), Options{Limits: limits, Token: token})
	plain := func() (net.Conn, error) { return net.Dial("tcp", strings.TrimPrefix(address, "http://")) }
	encrypted := func() (net.Conn, error) {
		return tls.Dial("tcp", strings.TrimPrefix(securedAddress, "https://"), &tls.Config{RootCAs: known.RootCAs, ServerName: "example.com"})
	}
	const large = 40 << 20
	authorized := "Authorization: Bearer " + token + "\r\n"
	for _, c := range []struct {
		what, call, head string
		dial             func() (net.Conn, error)
		want             string
	}{
		{"a page", "POST /v1/check?key=a", authorized, plain, `"too large: 41943040 bytes, limit 1048576"`},
		{"a page in chunks", "POST /v1/check?key=a", authorized + "Transfer-Encoding: chunked\r\n", plain, `"too large: more, limit 1048576"`},
		{"a page over TLS", "POST /v1/check?key=a", authorized, encrypted, `"too large: 41943040 bytes, limit 1048576"`},
		{"a query", "POST /v1/query?key=a", authorized, plain, `"too large: 41943040 bytes, limit 1048576"`},
		{"no token", "POST /v1/check", "", plain, `"unauthorized"`},
		{"no such call", "POST /v1/nope", authorized, plain, `"not_found"`},
		{"no such parameter", "POST /v1/check?url=a", authorized, plain, `"bad_request"`},
		{"compressed", "POST /v1/query", authorized + "Content-Encoding: zstd\r\n", plain, `"content_encoding"`},
		{"a large head", "POST /v1/check", "X: " + strings.Repeat("x", large) + "\r\n", plain, "431 "},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			conn, err := c.dial()
			must(t, err)
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(30 * time.Second))
			before, behind := fmt.Sprintf("Content-Length: %d\r\n\r\n", large), ""
			if strings.Contains(c.head, "chunked") {
				before, behind = fmt.Sprintf("\r\n%x\r\n", large), "\r\n0\r\n\r\n"
			}
			io.WriteString(conn, c.call+" HTTP/1.1\r\nHost: localhost\r\n"+c.head+before)
			if _, err := io.WriteString(conn, strings.Repeat("x", large)+behind); err != nil {
				t.Error("it cannot send all:", err)
			}
			if said, err := io.ReadAll(conn); err != nil || !strings.Contains(string(said), c.want) {
				t.Errorf("%q, %v; want %s", said, err, c.want)
			}
		})
	}
}

// A refused caller is told so at once, although its body has not ended.
func TestRefusedInMidBody(t *testing.T) {
	_, address := serve(t, open(t, nil), Options{Token: "a token of some length"})
	const known = " HTTP/1.1\r\nAuthorization: Bearer a token of some length"
	for head, want := range map[string]string{
		"POST /v1/compact?k=3" + known:                            `"code":"bad_request"`,
		"POST /v1/check HTTP/1.1":                                 `"code":"unauthorized"`,
		"POST /v1/chekc" + known:                                  `"code":"not_found"`,
		"PUT /v1/check" + known:                                   `"code":"not_allowed"`,
		"POST /v1/check?keys=a" + known:                           `"code":"bad_request"`,
		"POST /v1/check?key=a&kind=a" + known:                     `"code":"bad_request"`,
		"POST /v1/check" + known + "\r\nOrigin: http://a.example": `"code":"forbidden"`,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		must(t, err)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second)) // the body has a minute
		io.WriteString(conn, head+"\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\n\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(head, err)
		}
		if answer, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s, %v; want %s", head, answer, err, want)
		}
	}
}

// A page of another site cannot have a browser make a call, with GET neither; it may link to the pages for people.
func TestCrossOriginCalls(t *testing.T) {
	_, address := serve(t, open(t, nil), Options{Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	for _, path := range []string{"/v1/pairs?of=a", "/v1/stats", "/v1/compare?a=a&b=b", "/"} {
		for site, refused := range map[string]bool{"": false, "none": false, "same-origin": false, "same-site": path != "/", "cross-site": path != "/"} {
			r, _ := http.NewRequest(http.MethodGet, address+path, nil)
			r.Header.Set("Sec-Fetch-Site", site)
			answer, err := http.DefaultClient.Do(r)
			if status, said := answerOf(t, answer, err); (status == http.StatusForbidden) != refused {
				t.Errorf("%s, Sec-Fetch-Site %q: %d, %s", path, site, status, said)
			}
		}
	}
}
