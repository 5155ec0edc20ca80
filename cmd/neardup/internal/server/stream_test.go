package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// nothingIsClaimed waits until all bytes that calls claimed are given back.
func nothingIsClaimed(t *testing.T, s *Server) {
	t.Helper()
	waitFor(t, func() bool {
		whole := s.bytes.TryAcquire(s.limits.Bytes)
		if whole {
			s.bytes.Release(s.limits.Bytes)
		}
		return whole
	})
}

// A caller who does not read leaves room for others.
func TestStreamWaitsForItsAnswers(t *testing.T) {
	t.Parallel()
	x := open(t, inMemory())
	limits := Limits{Bytes: 48 << 20, WriteTime: 2 * time.Second}
	s, address := serve(t, x, Options{Limits: limits})
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	must(t, err)
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	sent := make(chan bool)
	go func() {
		defer close(sent)
		io.WriteString(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
		line := `{"key":"` + strings.Repeat("k", 50_000) + `","more":"` + strings.Repeat("m", 400_000) + `"}` + "\n"
		for err := error(nil); err == nil; {
			_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(line), line)
		}
	}()
	for rest := limits.Bytes - aheadBytes - 2<<20; ; {
		select {
		case <-sent:
			nothingIsClaimed(t, s)
			return
		case <-time.After(20 * time.Millisecond):
			if !s.bytes.TryAcquire(rest) {
				t.Fatal("it has claimed more")
			}
			s.bytes.Release(rest)
		}
	}
}

// Long answers to queries are within the bound of bytes until they are taken, and a call alone has all of its answer.
func TestAnswersAreBounded(t *testing.T) {
	x := open(t, inMemory())
	docs := make([]index.Document, 2000)
	for n := range docs {
		docs[n] = index.Document{Key: fmt.Sprintf("%0100d", n), Fingerprint: 1, Tokens: 9}
	}
	if err := x.Add(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	s, address := serve(t, x, Options{Limits: impatient})
	few, many := `{"fingerprint":"0000000000000001","tokens":9,"limit":3}`+"\n", `{"fingerprint":"0000000000000001","tokens":9}`+"\n"
	pairs := func() (int, string) {
		r, err := http.Get(address + "/v1/pairs?of=" + docs[0].Key)
		return answerOf(t, r, err)
	}
	const left = 128 << 10
	s.bytes.Acquire(t.Context(), impatient.Bytes-left)
	if status, said := post(t, address+"/v1/query", many); status != 503 || !strings.Contains(said, `"busy"`) {
		t.Errorf("%d, %.200s", status, said)
	}
	if status, said := post(t, address+"/v1/query", few+many+few); status != 200 || strings.Count(said, "\n") != 2 || !strings.HasSuffix(said, `"code":"busy"}`+"\n") {
		t.Errorf("%d, %.200s", status, said)
	}
	if status, said := pairs(); status != 503 || !strings.Contains(said, `"busy"`) {
		t.Errorf("%d, %.200s", status, said)
	}
	s.bytes.Release(impatient.Bytes - left)
	if status, said := post(t, address+"/v1/query", few+many+few); status != 200 || strings.Count(said, "\n") != 3 || strings.Contains(said, "busy") {
		t.Errorf("%d, %.200s", status, said)
	}
	if status, said := pairs(); status != 200 || strings.Contains(said, "busy") {
		t.Errorf("%d, %.200s", status, said)
	}
	var lines strings.Builder
	limits := []int{1, fewMatches - 1, fewMatches, fewMatches + 1, fewMatches + 2, len(docs)}
	for _, limit := range limits {
		fmt.Fprintf(&lines, `{"fingerprint":"0000000000000001","limit":%d}`+"\n", limit)
	}
	_, said := post(t, address+"/v1/query", lines.String())
	for n, line := range strings.Split(strings.TrimSpace(said), "\n") {
		if got := strings.Count(line, `"id":`); got != limits[n] {
			t.Errorf("%d matches, want %d", got, limits[n])
		}
	}
	nothingIsClaimed(t, s)
}

// Where there is room for one document, the largest one is answered, as a page and as a line.
func TestLargestDocument(t *testing.T) {
	limits := Limits{PageBytes: 200 << 10}
	limits.Bytes = limits.LeastBytes()
	s, address := serve(t, open(t, nil), Options{Limits: limits})
	body := strings.Repeat("a word ", limits.PageBytes/7+1)[:limits.PageBytes]
	c := dial(t, address, &client.Options{RetryFor: -1})
	if v, err := c.Check(t.Context(), neardup.Page{URL: "page", Body: []byte(body)}); err != nil || v.Status != neardup.New {
		t.Error(v, err)
	}
	line := `{"key":"line","text":"` + body + `"`
	line += strings.Repeat(" ", s.limits.lineBytes()-len(line)-len("}\n")) + "}\n"
	r, err := http.Post(address+"/v1/check", "", io.MultiReader(strings.NewReader(line))) // of no known length
	must(t, err)
	defer r.Body.Close()
	if said, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(said), `"verdict":"duplicate"`) {
		t.Errorf("%d bytes: %s, %v", len(line), said, err)
	}
	nothingIsClaimed(t, s)
}

// What comes behind a body that is broken, or is not read to its end, is no call, whether the body was answered before or not.
func TestNothingBehindBrokenBody(t *testing.T) {
	x := open(t, inMemory())
	limits := impatient
	limits.IdleTime = time.Minute // the connection ends by itself, and sooner
	s, address := serve(t, x, Options{Limits: limits})
	if _, err := x.Check(t.Context(), neardup.Page{URL: "kept", Body: []byte("some words")}); err != nil {
		t.Fatal(err)
	}
	const head, behind = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", "zzz\r\nDELETE /v1/documents?key=kept HTTP/1.1\r\nHost: localhost\r\n\r\n"
	line := `{"key":"a","text":"words of a"}` + "\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(line), line)
	for what, parts := range map[string][]string{
		"at once":                      {head + behind},
		"behind a line":                {head + chunk + behind},
		"behind an answer":             {head + chunk, "", "", behind},
		"behind a time that has ended": {head + chunk + "1\r\n{\r\n", "", "", "", "", "", behind},
	} {
		if said := talk(t, address, parts...); !strings.Contains(said, `"error"`) || strings.Contains(said, "deleted") || strings.Count(said, "HTTP/1.1") != 1 {
			t.Errorf("%s: %s", what, said)
		}
	}
	if _, found, err := x.Get(t.Context(), "kept"); err != nil || !found {
		t.Error("it was deleted", err)
	}
	nothingIsClaimed(t, s)

	// Of one that is whole the connection is used again.
	whole := head + chunk + "0\r\n\r\n"
	if said := talk(t, address, whole, "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); strings.Count(said, "HTTP/1.1 200") != 2 {
		t.Error(said)
	}
}

// secured serves with TLS, and returns how a caller knows it.
func secured(t *testing.T, x *neardup.Index, o Options) (s *Server, address string, known *tls.Config) {
	t.Helper()
	made := httptest.NewTLSServer(http.NotFoundHandler())
	defer made.Close()
	o.TLS = &tls.Config{Certificates: made.TLS.Certificates, MinVersion: tls.VersionTLS12}
	s, address = serve(t, x, o)
	return s, strings.Replace(address, "http:", "https:", 1), made.Client().Transport.(*http.Transport).TLSClientConfig
}

// With TLS there is HTTP/2, and its streams outlast pauses that are longer than the time to take an answer.
func TestTLS(t *testing.T) {
	t.Parallel()
	x := open(t, inMemory())
	limits := impatient
	limits.IdleTime, limits.HeaderTime, limits.BodyTime = 10*time.Second, time.Minute, 2*time.Second // the shortest is that of the handshake, too
	s, address, known := secured(t, x, Options{Limits: limits})
	for _, two := range []bool{true, false} {
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: known.Clone(), ForceAttemptHTTP2: two}}
		in, out := io.Pipe()
		go fmt.Fprintf(out, `{"key":"a %v","text":"words of a %v"}`+"\n", two, two)
		r, err := caller.Post(address+"/v1/check", "", in)
		must(t, err)
		if two != (r.ProtoMajor == 2) {
			t.Errorf("it is %s", r.Proto)
		}
		answers := bufio.NewReader(r.Body)
		for n := range 5 {
			if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, `"verdict"`) {
				t.Fatalf("%s, line %d: %q, %v", r.Proto, n, line, err)
			}
			time.Sleep(500 * time.Millisecond)
			fmt.Fprintf(out, `{"key":"b","text":"words of b %d"}`+"\n", n)
		}
		out.Close()
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		caller.CloseIdleConnections()
	}
	c := dial(t, address, &client.Options{TLS: known})
	if v, err := c.Check(t.Context(), neardup.Page{URL: "c", Body: []byte("c")}); err != nil || v.Status != neardup.New {
		t.Error(v, err)
	}
	nothingIsClaimed(t, s)
}

// Over HTTP/2 a short body is answered as well if the disk takes longer than a caller may for an answer.
func TestSlowDiskOverHTTP2(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if slow.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			time.Sleep(500 * time.Millisecond)
		}
		return nil
	}))
	x := open(t, &neardup.Options{Index: index.Options{FS: disk}})
	limits := impatient
	limits.HeaderTime, limits.BodyTime = time.Minute, time.Second // the shorter is that of the handshake, too
	_, address, known := secured(t, x, Options{Limits: limits})
	slow.Store(true)
	defer slow.Store(false)
	caller := &http.Client{Transport: &http.Transport{TLSClientConfig: known.Clone(), ForceAttemptHTTP2: true}}
	defer caller.CloseIdleConnections()
	var body strings.Builder
	for n := range 3 * window {
		fmt.Fprintf(&body, `{"key":"%d","fingerprint":"%016x","tokens":100}`+"\n", n, uint64(n)*0x9e3779b97f4a7c15)
	}
	r, err := caller.Post(address+"/v1/check", "", strings.NewReader(body.String()))
	must(t, err)
	defer r.Body.Close()
	said, err := io.ReadAll(r.Body)
	if lines := bytes.Count(said, []byte("\n")); err != nil || lines != 3*window || r.ProtoMajor != 2 {
		t.Errorf("%s, %d lines, %v", r.Proto, lines, err)
	}
}

// TestBatchesWait: batches beyond maxBatches wait outside the index, because each takes about 100 KB in it.
func TestBatchesWait(t *testing.T) {
	var stuck atomic.Bool
	free := make(chan struct{})
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if stuck.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			<-free
		}
		return nil
	}))
	s, _ := serve(t, open(t, &neardup.Options{Index: index.Options{FS: disk}}), Options{})
	stuck.Store(true)
	var calls sync.WaitGroup
	for call := range uint64(3 * maxBatches) {
		calls.Go(func() {
			docs := make([]index.Document, 128)
			for i := range docs {
				docs[i] = index.Document{Fingerprint: fingerprint.Fingerprint((call<<16 + uint64(i)) * 0x9e3779b97f4a7c15), Tokens: 100}
			}
			if verdicts, err := s.checkDocuments(docs); err != nil || len(verdicts) != len(docs) {
				t.Error(len(verdicts), err)
			}
		})
	}
	inside := func() int {
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ").CheckAndAddBatch(")
	}
	waitFor(t, func() bool { return inside() >= maxBatches })
	time.Sleep(100 * time.Millisecond)
	if n := inside(); n != maxBatches {
		t.Errorf("%d are in the index", n)
	}
	close(free)
	calls.Wait()
}
