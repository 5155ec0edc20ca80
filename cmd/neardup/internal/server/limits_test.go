package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/index"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// impatient has limits that a test can wait for.
var impatient = Limits{
	MemoryBytes: 2 << 20, RequestBytes: 1 << 20, PageBytes: 64 << 10,
	ReadTimeout: 300 * time.Millisecond, WriteTimeout: time.Second,
}

// checkHead is the start of a request.
const checkHead = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n" +
	"Content-Type: application/x-ndjson\r\n"

// memoryIsFree waits until all memory for requests is free.
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
	s, address := serve(t, open(t, inMemory()), Options{Limits: Limits{MemoryBytes: 64 << 20,
		RequestBytes: 8 << 20, PageBytes: 1 << 20, ReadTimeout: 5 * time.Second,
		WriteTimeout: 5 * time.Second}})
	// 250 KB
	piece := strings.Repeat(`{"key":"k","text":"`+strings.Repeat("word ", 10_000)+"\"}\n", 5)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for n := range 500 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		must(t, err)
		wg.Go(func() {
			defer conn.Close()
			header, part, pause := "Content-Length: 8000000", "", time.Duration(0)
			switch n % 5 {
			case 0: // announces a long body and sends none
			case 1: // sends slowly
				part, pause = piece[:20<<10], 50*time.Millisecond
			case 2: // sends too much
				header = "Transfer-Encoding: chunked"
				part = fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
			case 3: // disconnects
				io.WriteString(conn, checkHead+header+"\r\n\r\n"+piece)
				return
			case 4: // does not read the answer, which is forty times as long
				conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				header = "Content-Length: 300000\r\n\r\n" + strings.Repeat("{}\n", 100_000)
			}
			_, err := io.WriteString(conn, checkHead+header+"\r\n\r\n")
			for part != "" && err == nil && ctx.Err() == nil {
				_, err = io.WriteString(conn, part)
				time.Sleep(pause)
			}
			<-ctx.Done()
		})
	}
	c := dial(t, address, nil) // the client repeats calls that fail with ErrBusy
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
	// The garbage takes up to the sum of the limit and the ballast. The ballast itself takes no
	// memory. The test, the index and the buffers of 500 connections take up to 100 MiB.
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
	s, address := serve(t, x,
		Options{Limits: Limits{MemoryBytes: 8 << 20, RequestBytes: 1 << 20, PageBytes: 64 << 10}})
	query := func(limits ...int) (status int, said string) {
		lines := ""
		for _, limit := range limits {
			lines += fmt.Sprintf(`{"fingerprint":"0000000000000001","tokens":9,"limit":%d}`+"\n",
				limit)
		}
		return post(t, address+"/v1/query", lines)
	}
	must(t, s.memory.Acquire(t.Context(), 8<<20-128<<10))
	if status, said := query(1000); status != 503 || !strings.Contains(said, `"busy"`) {
		t.Errorf("%d, %.200s", status, said)
	}
	if status, said := query(3, 1000, 3); status != 200 || strings.Count(said, "\n") != 2 ||
		!strings.Contains(said, `{"error":{"code":"busy"`) {
		t.Errorf("%d, %.200s", status, said)
	}
	s.memory.Release(8<<20 - 128<<10)
	if _, said := query(make([]int, 5)...); strings.Contains(said, `"busy"`) { // one after another
		t.Errorf("%.200s", said[strings.LastIndex(said, "{"):])
	}
	for _, limit := range []int{1, maxMatches - 1, maxMatches, 0, maxMatches + 5} {
		_, said := query(limit)
		want, more := limit, limit == 0 || limit > maxMatches
		if more {
			want = maxMatches
		}
		if got := strings.Count(said, `"id":`); got != want ||
			strings.Contains(said, `"more":true`) != more {
			t.Errorf("limit %d: %d matches, want %d", limit, got, want)
		}
	}
	memoryIsFree(t, s)
}

// TestLargestDocument: a page of the maximal size is answered, as a page and in base64, even if the
// limit of a request is smaller.
func TestLargestDocument(t *testing.T) {
	s, address := serve(t, open(t, nil),
		Options{Limits: Limits{PageBytes: 200 << 10, RequestBytes: 1, MemoryBytes: 1}})
	body := strings.Repeat("a word ", 200<<10/7+1)[:200<<10]
	c := dial(t, address, &client.Options{RetryFor: -1})
	if v, err := c.Check(t.Context(), neardup.Page{URL: "page", Body: []byte(body)}); err != nil ||
		v.Status != neardup.New {
		t.Error(v, err)
	}
	if status, said := answerOf(t)(http.Post(address+"/v1/check?key=copy", "text/plain",
		strings.NewReader(body))); status != 200 || !strings.Contains(said,
		`"verdict":"duplicate"`) {
		t.Error(status, said)
	}
	memoryIsFree(t, s)
}

// TestBusy: a request without memory is refused. A client repeats it until memory is free.
func TestBusy(t *testing.T) {
	t.Parallel()
	s, address := serve(t, open(t, nil), Options{Limits: impatient})
	c := dial(t, address, nil)
	must(t, s.memory.Acquire(t.Context(), s.limits.MemoryBytes))
	answer, err := http.Get(address + "/v1/stats")
	must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable ||
		answer.Header.Get("Retry-After") == "" {
		t.Error(answer.Status, answer.Header)
	}
	if n := testutil.ToFloat64(s.metrics.refused.WithLabelValues("memory")); n == 0 {
		t.Error("the refused request is not counted")
	}
	time.AfterFunc(200*time.Millisecond, func() { s.memory.Release(s.limits.MemoryBytes) })
	if v, err := c.Check(t.Context(), neardup.Page{URL: "b",
		Body: []byte("other words")}); err != nil || v.Status != neardup.New {
		t.Error(v, err)
	}
}

// TestLostAnswer: a call whose answer was lost is repeated, and stores its documents once.
func TestLostAnswer(t *testing.T) {
	x := open(t, nil)
	lost := 0 // answers
	s := New(x, Options{})
	defer s.Shutdown(t.Context())
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/check" && lost > 0 {
			lost--
			s.http.Handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		s.http.Handler.ServeHTTP(w, r)
	}))
	defer between.Close()
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
	s, address := serve(t, open(t, nil), Options{Log: slog.New(slog.NewTextHandler(&logged, nil)),
		Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic("an error of ours")
		})})
	if r, err := http.Get(address + "/groups"); err == nil {
		t.Error(r.Status)
	}
	dial(t, address, nil)
	must(t, s.Shutdown(t.Context())) // nothing is logged afterwards
	if said := logged.String(); strings.Count(said, "panic serving") != 1 ||
		!strings.Contains(said, "an error of ours") || !strings.Contains(said, "limits_test.go") {
		t.Error(said)
	}
}

// FuzzCalls: every request gets an answer with a valid status, and all claimed memory is released.
func FuzzCalls(f *testing.F) {
	x, err := neardup.Open("pages", inMemory())
	must(f, err)
	s := New(x, Options{Limits: Limits{PageBytes: 4 << 10}})
	f.Cleanup(func() { s.Shutdown(context.Background()); x.Close() })
	const lines = "POST /v1/check application/x-ndjson "
	for _, seed := range []string{
		lines + `{"key":"a","text":"some words"}` + "\n\n" + `{"keyBytes":"/w==","body":"AAEC"}`,
		lines + `{"key":"a","fingerprint":"0123456789abcdef","tokens":-1}` + "\nnull\n[]\n{",
		"POST /v1/check?key=a&scope=b&kind=html text/html <p>some words",
		`POST /v1/query application/json {"fingerprint":"1","maxDistance":99,"limit":-1}`,
		"POST /v1/query?key= text/plain;charset=utf-16 w\x00o\x00",
		"POST /v1/explain?key=a text/html words", "GET /v1/explain?key=a  ",
		"GET /v1/document?key=a  ", "GET /v1/documents?after=1  ",
		`POST /v1/documents/delete application/json {"keys":["a"],"ids":[1,2]}`,
		"GET /v1/stats  ", "POST /v1/checkpoint?name=..  ", "GET /metrics  ", "PUT /%zz  ",
	} {
		part := strings.SplitN(seed, " ", 4)
		f.Add(part[0], part[1], part[2], []byte(part[3]))
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
		s.http.Handler.ServeHTTP(w, r)
		if w.Code >= 500 || w.Code < 200 {
			t.Errorf("%s %s: %d, %s", method, target, w.Code, w.Body)
		}
		if !s.memory.TryAcquire(s.limits.MemoryBytes) {
			t.Fatal("memory is claimed without a request")
		}
		s.memory.Release(s.limits.MemoryBytes)
	})
}
