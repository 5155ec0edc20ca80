package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/index"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// impatient has limits that a test can wait for.
var impatient = Limits{
	MemoryBytes: 2 << 20, RequestBytes: 1 << 20, PageBytes: 64 << 10,
	ReadTimeout: 300 * time.Millisecond, WriteTimeout: time.Second,
}

// talk sends the parts to a server with pauses between them, and returns the answer up to the end
// of the connection. The server must end it.
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

// TestHostileConnections tests that the server ends a connection that does not send valid
// requests, with the right answer. Only complete requests are executed.
func TestHostileConnections(t *testing.T) {
	const check = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
		"application/x-ndjson\r\n"
	slowly := make([]string, 20) // a byte per 0.1 s
	for i := range slowly {
		slowly[i] = "x"
	}
	line := func(key string) string {
		return `{"key":"` + key + `","text":"words of ` +
			key + `"}` + "\n"
	}
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	for _, c := range []struct {
		what  string
		parts []string
		want  []string // in the answer
		keys  []string // keys of the documents that are stored afterwards
	}{
		{"half a header", []string{"POST /v1/ch"}, nil, nil},
		{"nothing", []string{""}, nil, nil},
		{"a slow header", append([]string{check}, slowly...), nil, nil},
		{"not HTTP", []string{"\x16\x03\x01\x00\xa5\r\n\r\n"}, []string{"400"}, nil},
		{"a large header", []string{check + "X: " + strings.Repeat("x", 300<<10) + "\r\n\r\n"},
			[]string{"431"}, nil},
		{"a slow body", append([]string{check + "Content-Length: 1000\r\n\r\n" + line("slow")},
			slowly...), []string{"408", `"timeout"`}, nil},
		{"a body that breaks off", []string{check + "Content-Length: 1000\r\n\r\n" + line("cut")},
			[]string{"408"}, nil},
		{"a long body", []string{check + "Content-Length: 99999999999\r\n\r\nsome",
			strings.Repeat("x", 2<<20)}, []string{"413", `"too_large"`}, nil},
		{"a negative length", []string{check + "Content-Length: -1\r\n\r\n"}, []string{"400"}, nil},
		{"two lengths", []string{check + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
			[]string{"400"}, nil},
		{"a length and chunks", []string{check + "Connection: close\r\nContent-Length: " +
			"3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(line("both")) + "0\r\n\r\n"}, nil,
			nil},
		{"malformed chunks",
			[]string{check + "Transfer-Encoding: chunked\r\n\r\n" + chunk(line("chunk")) +
				"zzzz\r\n"}, []string{"400", `"bad_request"`}, nil},
		{"a request after malformed chunks", []string{check + "Transfer-Encoding: " +
			"chunked\r\n\r\nzzz\r\n" + check + "Content-Length: 38\r\n\r\n" + line("after")},
			[]string{"400"}, nil},
		{"chunks that break off",
			[]string{check + "Transfer-Encoding: chunked\r\n\r\n" +
				chunk(line("whole")+`{"key":"half","te`)}, []string{`"timeout"`}, nil},
		{"a line without an end",
			[]string{check + "Connection: close\r\nContent-Length: 43\r\n\r\n" +
				strings.TrimSpace(line("unended"))}, []string{"200", `"new"`}, []string{"unended"}},
		{"a large page",
			[]string{check + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" +
				chunk(`{"text":"`+strings.Repeat("x", 100<<10)+"\"}\n"+line("next")) + "0\r\n\r\n"},
			[]string{"too large: 102400 bytes, limit 65536", `"next"`}, []string{"next"}},
		{"HTTP/1.0", []string{"POST /v1/check HTTP/1.0\r\nContent-Type: " +
			"application/x-ndjson\r\nContent-Length: 36\r\n\r\n" + line("old")},
			[]string{"HTTP/1.0 200", `"new"`}, []string{"old"}},
		{"another site", []string{check + "Origin: http://example.com\r\nConnection: " +
			"close\r\nContent-Length: 0\r\n\r\n"}, []string{"403"}, nil},
		{"another host", []string{"GET /v1/stats HTTP/1.1\r\nHost: " +
			"example.com:7490\r\nConnection: close\r\n\r\n"}, []string{"403"}, nil},
		{"a path that leads out", []string{"POST /v1/checkpoint?name=../x HTTP/1.1\r\nHost: " +
			"localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}, []string{"400"}, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			x := open(t, inMemory())
			s, address := serve(t, x, Options{Limits: impatient, Checkpoints: t.TempDir()})
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
				t.Errorf("%q are stored, want %q; the answer is %.300q", keys, c.keys, said)
			}
			memoryIsFree(t, s)
		})
	}
}

// memoryIsFree waits until no request holds memory.
func memoryIsFree(t *testing.T, s *Server) {
	t.Helper()
	waitFor(t, func() bool {
		free := s.memory.TryAcquire(s.limits.MemoryBytes)
		if free {
			s.memory.Release(s.limits.MemoryBytes)
		}
		return free
	})
}

// TestMemoryIsBounded tests the memory for 500 connections that send slowly, send too much, do
// not read, or disconnect. The server must answer other connections, and all memory must be free
// at the end.
func TestMemoryIsBounded(t *testing.T) {
	x := open(t, inMemory())
	limits := Limits{MemoryBytes: 64 << 20, RequestBytes: 8 << 20, PageBytes: 1 << 20,
		ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
	s, address := serve(t, x, Options{Limits: limits})
	const head = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
		"application/x-ndjson\r\n"
	// 250 KB
	piece := strings.Repeat(`{"key":"k","text":"`+strings.Repeat("word ", 10_000)+"\"}\n", 5)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for n := range 500 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		must(t, err)
		wg.Go(func() {
			defer conn.Close()
			io.WriteString(conn, head)
			switch n % 5 {
			case 0: // announces a long body and sends none
				io.WriteString(conn, "Content-Length: 8000000\r\n\r\n")
			case 1: // sends slowly
				io.WriteString(conn, "Content-Length: 8000000\r\n\r\n")
				for err := error(nil); err == nil &&
					ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
					_, err = io.WriteString(conn, piece[:20<<10])
				}
			case 2: // sends too much
				io.WriteString(conn, "Transfer-Encoding: chunked\r\n\r\n")
				for err := error(nil); err == nil && ctx.Err() == nil; {
					_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(piece), piece)
				}
			case 3: // disconnects
				io.WriteString(conn, "Content-Length: 8000000\r\n\r\n"+piece)
				return
			case 4: // does not read the answer, which is forty times as long
				conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				fmt.Fprintf(conn, "Content-Length: %d\r\n\r\n%s", 300_000,
					strings.Repeat("{}\n", 100_000))
			}
			<-ctx.Done()
		})
	}
	c := dial(t, address, nil) // the client repeats busy calls
	most := uint64(0)
	for n := range 20 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
		v, err := c.Check(t.Context(), neardup.Page{URL: fmt.Sprint(n),
			Body: []byte(fmt.Sprint("a page of some words, number ", n*n))})
		if err != nil || v.Status == 0 {
			t.Error(v, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	// The garbage takes as much memory as the limit and the ballast, which takes none itself. The
	// test, the index and the buffers of 500 connections have 100 MiB.
	if most -= uint64(len(s.ballast)); most > 2*64<<20+uint64(len(s.ballast))+100<<20 {
		t.Errorf("%d MiB", most>>20)
	}
	t.Logf("%d MiB at most", most>>20)
	memoryIsFree(t, s)
}

// TestAnswersAreBounded: long answers to queries count against the memory limit.
func TestAnswersAreBounded(t *testing.T) {
	x := open(t, inMemory())
	docs := make([]index.Document, maxMatches+1)
	for n := range docs {
		docs[n] = index.Document{Key: fmt.Sprintf("%0100d", n), Fingerprint: 1, Tokens: 9}
	}
	must(t, x.Add(t.Context(), docs...))
	limits := impatient
	limits.MemoryBytes = 8 << 20
	s, address := serve(t, x, Options{Limits: limits})
	query := func(limit int) string {
		return fmt.Sprintf(`{"fingerprint":"0000000000000001","tokens":9,"limit":%d}`+"\n", limit)
	}
	must(t, s.memory.Acquire(t.Context(), 8<<20-128<<10))
	if status, said := post(t, address+"/v1/query", query(1000)); status != 503 ||
		!strings.Contains(said, `"busy"`) {
		t.Errorf("%d, %.200s", status, said)
	}
	if status, said := post(t, address+"/v1/query", query(3)+query(1000)+query(3)); status != 200 ||
		strings.Count(said, "\n") != 2 || !strings.Contains(said, `{"error":{"code":"busy"`) {
		t.Errorf("%d, %.200s", status, said)
	}
	s.memory.Release(8<<20 - 128<<10)
	for _, limit := range []int{1, 1000, maxMatches - 1, maxMatches, 0, maxMatches + 5} {
		_, said := post(t, address+"/v1/query", query(limit))
		want := limit
		if limit == 0 || limit > maxMatches {
			want = maxMatches
		}
		if got := strings.Count(said, `"id":`); got != want ||
			strings.Contains(said, `"more":true`) != (limit == 0 || limit > maxMatches) {
			t.Errorf("limit %d: %d matches, want %d", limit, got, want)
		}
	}
	memoryIsFree(t, s)
}

// TestLargestDocument: the largest page is answered, whatever the limit of a request, as a page and
// in base64.
func TestLargestDocument(t *testing.T) {
	s, address := serve(t, open(t, nil),
		Options{Limits: Limits{PageBytes: 200 << 10, RequestBytes: 1, MemoryBytes: 1}})
	body := strings.Repeat("a word ", 200<<10/7+1)[:200<<10]
	c := dial(t, address, &client.Options{RetryFor: -1})
	if v, err := c.Check(t.Context(), neardup.Page{URL: "page", Body: []byte(body)}); err != nil ||
		v.Status != neardup.New {
		t.Error(v, err)
	}
	if status, said := postAs(t, address+"/v1/check?key=copy", "text/plain", body); status != 200 ||
		!strings.Contains(said, `"verdict":"duplicate"`) {
		t.Error(status, said)
	}
	memoryIsFree(t, s)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 4000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("the condition is not met within 20 s")
}

// TestBusy: a request is refused if there is no memory for it. A client repeats it until there is.
func TestBusy(t *testing.T) {
	t.Parallel()
	s, address := serve(t, open(t, nil), Options{Limits: impatient})
	c := dial(t, address, nil)
	must(t, s.memory.Acquire(t.Context(), s.limits.MemoryBytes))
	if status, _, header := ask(t, http.MethodGet, address+"/v1/stats",
		""); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Error(status, header)
	}
	if n := testutil.ToFloat64(s.metrics.refused.WithLabelValues("memory")); n == 0 {
		t.Error("it is not counted")
	}
	time.AfterFunc(200*time.Millisecond, func() { s.memory.Release(s.limits.MemoryBytes) })
	if v, err := c.Check(t.Context(), neardup.Page{URL: "b",
		Body: []byte("other words")}); err != nil || v.Status != neardup.New {
		t.Error(v, err)
	}
}

func TestToken(t *testing.T) {
	const token = "correct horse battery staple"
	s, address := serve(t, open(t, nil), Options{Token: token})
	for name, header := range map[string]string{"none": "",
		"another": "Bearer correct horse battery stapl", "longer": "Bearer " + token + "x",
		"empty": "Bearer ", "no bearer": token} {
		for _, path := range []string{"/v1/stats", "/metrics", "/", "/v1/check"} {
			if status, said, _ := ask(t, http.MethodGet, address+path, "", "Authorization",
				header); status != http.StatusUnauthorized {
				t.Errorf("%s, %s: %d, %s", name, path, status, said)
			}
		}
	}
	if n := testutil.ToFloat64(s.metrics.refused.WithLabelValues("token")); n != 20 {
		t.Errorf("%v were counted", n)
	}
	if _, err := client.Open(t.Context(), address, &client.Options{Token: "wrong"}); !errors.Is(err,
		api.ErrUnauthorized) {
		t.Error(err)
	}
	dial(t, address, &client.Options{Token: token})
	basic := "asic " + base64.StdEncoding.EncodeToString([]byte("anyone:"+token))
	for _, header := range []string{"B" + basic, "b" + basic, "bearer " + token,
		"BEARER " + token} {
		if status, said, _ := ask(t, http.MethodGet, address+"/v1/stats", "", "Authorization",
			header); status != http.StatusOK {
			t.Error(header, status, said)
		}
	}
	if status, said := get(t, address+"/readyz"); status != http.StatusOK {
		t.Error(status, said)
	}
}

// unheard executes a call and drops the answer.
func unheard(h http.Handler, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.ServeHTTP(httptest.NewRecorder(), r)
}

// TestLostAnswer: a call whose answer was lost is repeated, and stores its documents once.
func TestLostAnswer(t *testing.T) {
	x := open(t, nil)
	lost := 0
	s := New(x, Options{})
	inner := s.http.Handler
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/check" && lost > 0 {
			lost--
			unheard(inner, r)
			panic(http.ErrAbortHandler)
		}
		inner.ServeHTTP(w, r)
	}))
	defer between.Close()
	defer s.Shutdown(t.Context())
	c := dial(t, between.URL, nil)
	lost = 2
	if v, err := c.Check(t.Context(), neardup.Page{URL: "ferry",
		Body: []byte("about the ferry")}); err != nil ||
		v.Status != neardup.Unchanged || lost != 0 {
		t.Error(v, err)
	}
	lost = 1
	v, err := c.CheckBatch(t.Context(),
		[]neardup.Page{{URL: "batch", Body: []byte("words of a batch")},
			{URL: "batch copy", Body: []byte("words of a batch")}})
	if err != nil || v[0].Status != neardup.Unchanged || v[1].Status != neardup.Duplicate ||
		x.Stats().Documents != 2 {
		t.Errorf("%+v, %v, %d documents", v, err, x.Stats().Documents)
	}
}

// TestPanic: a panic in a handler ends only its call, and is logged with its trace.
func TestPanic(t *testing.T) {
	var logged bytes.Buffer
	_, address := serve(t, open(t, nil), Options{Log: slog.New(slog.NewTextHandler(&logged, nil)),
		Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic("an error of ours")
		})})
	if r, err := http.Get(address + "/groups"); err == nil {
		t.Error(r.Status)
	}
	dial(t, address, nil)
	if said := logged.String(); strings.Count(said, "panic serving") != 1 ||
		!strings.Contains(said, "an error of ours") || !strings.Contains(said, "limits_test.go") {
		t.Error(said)
	}
}

// TestShutdownWaits tests that Shutdown waits for everything that uses the index.
func TestShutdownWaits(t *testing.T) {
	s := New(open(t, inMemory()), Options{})
	var ended atomic.Bool
	s.running.Go(func() {
		<-s.stopping.Done()
		time.Sleep(50 * time.Millisecond)
		ended.Store(true)
	})
	if err := s.Shutdown(t.Context()); err != nil || !ended.Load() {
		t.Errorf("Shutdown returned too early, with the error %v", err)
	}
}

// FuzzCalls: every request gets an answer with a valid status, and all claimed memory is released.
func FuzzCalls(f *testing.F) {
	x, err := neardup.Open("pages", inMemory())
	must(f, err)
	s := New(x, Options{Limits: Limits{PageBytes: 4 << 10}})
	f.Cleanup(func() { s.Shutdown(context.Background()); x.Close() })
	for _, seed := range []struct{ method, target, contentType, body string }{
		{"POST", "/v1/check", "application/x-ndjson",
			`{"key":"a","text":"some words"}` + "\n\n" + `{"keyBytes":"/w==","body":"AAEC"}`},
		{"POST", "/v1/check", "application/x-ndjson",
			`{"key":"a","fingerprint":"0123456789abcdef","shingles":"1","tokens":-1}` +
				"\nnull\n[]\n{"},
		{"POST", "/v1/check?key=a&scope=b&kind=html", "text/html", "<p>some words"},
		{"POST", "/v1/query", "application/json",
			`{"fingerprint":"0123456789abcdef","maxDistance":99,"limit":-1}`},
		{"POST", "/v1/query?key=", "text/plain; charset=utf-16", "w\x00o\x00"},
		{"GET", "/v1/document?key=a", "", ""}, {"GET", "/v1/explain?key=a", "", ""},
		{"POST", "/v1/explain?key=a", "text/html", "words"},
		{"GET", "/v1/documents?after=1", "", ""}, {"POST", "/v1/documents/delete",
			"application/json", `{"keys":["a"],"ids":[1,2]}`},
		{"POST", "/v1/check", "application/json", `{"key":"a","text":"b"}`},
		{"GET", "/v1/stats", "", ""}, {"POST", "/v1/checkpoint?name=..", "", ""},
		{"GET", "/metrics", "", ""}, {"PUT", "/%zz", "", ""},
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
		s.http.Handler.ServeHTTP(w, r.WithContext(context.Background()))
		answer := w.Result()
		if answer.StatusCode >= 500 || answer.StatusCode < 200 {
			t.Errorf("%s %s: %s, %s", method, target, answer.Status, w.Body)
		}
		if !s.memory.TryAcquire(s.limits.MemoryBytes) {
			t.Fatal("memory is claimed without a request")
		}
		s.memory.Release(s.limits.MemoryBytes)
	})
}

// TestCrossOriginCalls: a web page of another site cannot make calls, even with GET. It may link to
// the web pages.
func TestCrossOriginCalls(t *testing.T) {
	_, address := serve(t, open(t, nil),
		Options{Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	for _, path := range []string{"/v1/explain?key=a", "/v1/stats", "/groups?host=a", "/"} {
		for site, refused := range map[string]bool{"": false, "none": false, "same-origin": false,
			"same-site": path != "/", "cross-site": path != "/"} {
			if status, said, _ := ask(t, http.MethodGet, address+path, "", "Sec-Fetch-Site",
				site); (status == http.StatusForbidden) != refused {
				t.Errorf("%s, Sec-Fetch-Site %q: %d, %s", path, site, status, said)
			}
		}
	}
}
