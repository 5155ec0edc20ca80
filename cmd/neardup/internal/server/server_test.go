package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/checktest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/wire"
)

var must = testenv.Must

// serve serves an index on loopback until the test ends, and returns its address.
func serve(t testing.TB, x *neardup.Index, o Options) (s *Server, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s = New(x, o)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + l.Addr().String()
}

// open opens an index that is closed when the test ends.
func open(t testing.TB, o *neardup.Options) *neardup.Index {
	t.Helper()
	x, err := neardup.Open(filepath.Join(t.TempDir(), "ix"), o)
	must(t, err)
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// TestFullDisk: if the disk is full, each write returns an error, the error is reported once, and
// health checks fail. Queries still work.
func TestFullDisk(t *testing.T) {
	var full atomic.Bool
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpFileWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	x, err := neardup.Open("ix", &neardup.Options{Index: index.Options{FS: disk}})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 9)
	s := New(x, Options{Failed: func(err error) { told <- err }})
	call := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("Content-Type", api.JSONLines)
		s.http.Handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const line = `{"key":"a","fingerprint":"0123456789abcdef"}` + "\n"
	if status, said := call("POST", "/v1/check", line); status != 200 {
		t.Fatal(status, said)
	}
	full.Store(true)
	for range 3 {
		if status, said := call("POST", "/v1/check",
			`{"key":"b","fingerprint":"f0f0f0f0f0f0f0f0"}`); status != 500 ||
			!strings.Contains(said, "no space left on device") ||
			!strings.Contains(said, `"failed"`) {
			t.Errorf("check: %d, %s", status, said)
		}
	}
	if status, said := call("POST", "/v1/query", line); status != 200 ||
		!strings.Contains(said, `"id":1`) {
		t.Errorf("query: %d, %s", status, said)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, said := call("GET", path, ""); status != 500 ||
			!strings.Contains(said, `"failed"`) {
			t.Errorf("%s: %d, %s", path, status, said)
		}
	}
	must(t, s.Shutdown(t.Context()))
	if err := x.Close(); !errors.Is(err, index.ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	if err := <-told; len(told) > 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("reported %d more times, first %v", len(told), err)
	}
}

func inMemory() *neardup.Options {
	return &neardup.Options{Index: index.Options{FS: vfs.NewMem(), Durability: index.NoSync}}
}

func dial(t testing.TB, address string, o *client.Options) *client.Client {
	t.Helper()
	c, err := client.Open(t.Context(), address, o)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a request and returns the answer. header has pairs of a name and a value.
func ask(
	t *testing.T, method, url, body string, header ...string,
) (status int, said string, answered http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	must(t, err)
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// get sends a GET request.
func get(t *testing.T, url string) (status int, said string) {
	t.Helper()
	status, said, _ = ask(t, http.MethodGet, url, "")
	return status, said
}

// post posts lines of JSON.
func post(t *testing.T, url, body string) (status int, said string) {
	t.Helper()
	return postAs(t, url, api.JSONLines, body)
}

// postAs posts a body of a Content-Type.
func postAs(t *testing.T, url, contentType, body string) (status int, said string) {
	t.Helper()
	status, said, _ = ask(t, http.MethodPost, url, body, "Content-Type", contentType)
	return status, said
}

// TestSuite: a client passes the tests of a local index.
func TestSuite(t *testing.T) {
	checktest.Run(t, func(t *testing.T) neardup.Checker {
		_, address := serve(t, open(t, nil), Options{})
		return dial(t, address, nil)
	})
}

// TestContentOfDocument tests documents with several fields that have content. The server must
// compare the one that docs/reference/http.md names.
func TestContentOfDocument(t *testing.T) {
	_, address := serve(t, open(t, nil), Options{})
	line := func(fields string) string { return `{"key":"a",` + fields + "}\n" }
	body := `"body":"` + base64.StdEncoding.EncodeToString([]byte("three little words")) + `"`
	for _, test := range []struct{ fields, first string }{
		{`"html":"<p>one<p>two","text":"another text"`, `"html":"<p>one<p>two"`},
		{`"text":"another text",` + body, `"text":"another text"`},
		{`"fingerprint":"0123456789abcdef","html":"<p>one<p>two",` + body,
			`"fingerprint":"0123456789abcdef"`},
	} {
		_, said := post(t, address+"/v1/query", line(test.fields))
		if _, want := post(t, address+"/v1/query", line(test.first)); said != want ||
			!strings.Contains(said, `"fingerprint"`) {
			t.Errorf("%s: %s, want the answer to %s, %s", test.fields, said, test.first, want)
		}
	}
	for _, k := range []string{"-1", "-7", "8"} {
		if status, said := post(t, address+"/v1/query",
			line(`"text":"some words","maxDistance":`+k)); status != 400 ||
			!strings.Contains(said, `"code":"distance"`) {
			t.Errorf("maxDistance %s: %d, %s", k, status, said)
		}
	}
}

// compressed returns a text as gzip.
func compressed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.String()
}

// TestContentEncoding: gzip is inflated, within the limit of a request, and other encodings are
// refused.
func TestContentEncoding(t *testing.T) {
	_, address := serve(t, open(t, nil),
		Options{Limits: Limits{PageBytes: 1 << 10, RequestBytes: 1 << 20}})
	const document = `{"key":"a","text":"some words"}` + "\n"
	for _, test := range []struct {
		encoding, body string
		status         int
		want           string
	}{
		{"", document, 200, `"key":"a"`},
		{"Identity", document, 200, `"key":"a"`},
		{"gzip", compressed(document), 200, `"key":"a"`},
		{"GZIP", compressed(document + document), 200, `"key":"a"`},
		{"gzip", document, 400, `"bad_request"`},
		{"gzip", compressed(document)[:30], 400, `"bad_request"`},
		{"gzip", compressed(strings.Repeat(document, 100_000)), 413, `"too_large"`},
		{"br", document, 415, `"content_type"`},
		{"gzip, gzip", document, 415, `"content_type"`},
	} {
		for _, path := range []string{"/v1/check", "/v1/query", "/v1/explain"} {
			if status, said, _ := ask(t, http.MethodPost, address+path, test.body,
				"Content-Encoding", test.encoding, "Content-Type",
				api.JSONLines); status != test.status || !strings.Contains(said, test.want) {
				t.Errorf("%s, %q, %d bytes: %d, %s", path, test.encoding,
					len(test.body), status, said)
			}
		}
	}
	page := compressed("<p>some words of a page")
	if status, said, _ := ask(t, http.MethodPost, address+"/v1/check?key=p", page,
		"Content-Encoding", "gzip", "Content-Type", "text/html"); status != 200 ||
		!strings.Contains(said, `"verdict":"new"`) {
		t.Error(status, said)
	}
}

// TestVerdictsEqualIndex: served verdicts are equal to the verdicts of the index.
func TestVerdictsEqualIndex(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	options := &neardup.Options{Index: index.Options{Now: func() time.Time { return now }}}
	var pages []neardup.Page
	for _, s := range checktest.Crawl() {
		pages = append(pages, s.Page)
	}
	want, err := open(t, options).CheckBatch(t.Context(), pages)
	must(t, err)
	s, address := serve(t, open(t, options), Options{})
	got, err := dial(t, address, nil).CheckBatch(t.Context(), pages)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	var counts [neardup.Skipped + 1]int64
	for _, v := range want {
		counts[v.Status]++
	}
	for status := range counts {
		if n := s.Verdicts(neardup.Status(status)); n != counts[status] {
			t.Errorf("%d verdicts are counted as %s, want %d", n, neardup.Status(status),
				counts[status])
		}
	}
}

func checkFingerprint(i, n int) fingerprint.Fingerprint {
	return fingerprint.Fingerprint(uint64(i*20+n) * 0x9e3779b97f4a7c15)
}

func TestErrorsCrossTheWire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ix")
	x, err := neardup.Open(dir, nil)
	if err == nil {
		err = x.Close()
	}
	if err == nil {
		x, err = neardup.Open(dir, &neardup.Options{Index: index.Options{ReadOnly: true}})
	}
	must(t, err)
	defer x.Close()
	_, address := serve(t, x, Options{})
	c := dial(t, address, &client.Options{RetryFor: -1})
	page := neardup.Page{URL: "a", Body: []byte("some words")}
	if v, err := c.Check(t.Context(), page); !errors.Is(err, index.ErrReadOnly) || v.Status != 0 {
		t.Error(v, err)
	}
	if v, err := c.CheckBatch(t.Context(), []neardup.Page{page}); !errors.Is(err,
		index.ErrReadOnly) || len(v) != 0 {
		t.Error(v, err)
	}
	if n, err := c.Delete(t.Context(), "a"); !errors.Is(err, index.ErrReadOnly) || n != 0 {
		t.Error(n, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	x.Close()
	if v, err := c.Check(t.Context(), page); !errors.Is(err, index.ErrReadOnly) &&
		!errors.Is(err, index.ErrClosed) || v.Status != 0 {
		t.Error(v, err)
	}
	if m, err := c.Query(t.Context(), index.Query{}); !errors.Is(err, index.ErrClosed) {
		t.Error(m, err)
	}
	c.Close()
	if _, err := c.Check(t.Context(), page); !errors.Is(err, index.ErrClosed) {
		t.Error(err)
	}
	if _, err := client.Open(t.Context(), "http://127.0.0.1:1",
		&client.Options{RetryFor: -1}); err == nil {
		t.Error("a server that is not there was opened")
	}
}

// TestCompactAndCheckpoint: an index is compacted and copied during checks. Documents that were
// checked before are in the index and in the copy.
func TestCompactAndCheckpoint(t *testing.T) {
	x := open(t, nil)
	folder := t.TempDir()
	_, address := serve(t, x, Options{Checkpoints: folder})
	c := dial(t, address, nil)
	document := func(n int) index.Document {
		return index.Document{Key: fmt.Sprint(n), Fingerprint: 1 +
			checkFingerprint(n, 0), Tokens: 100}
	}
	checked := 0
	check := func(n int) {
		for range n {
			verdicts, err := c.CheckDocuments(t.Context(), []index.Document{document(checked)})
			if err != nil || verdicts[0].Status != neardup.New {
				t.Fatal(verdicts, err)
			}
			checked++
		}
	}
	for _, path := range []string{"/v1/compact", "/v1/checkpoint"} {
		if said := finished(t, address+path); said != `{"state":"none"}`+"\n" {
			t.Errorf("%s before the first: %s", path, said)
		}
	}
	check(200)
	if status, said := post(t, address+"/v1/compact", ""); status != http.StatusAccepted ||
		!strings.Contains(said, `"state":"`) {
		t.Fatal(status, said)
	}
	check(100)
	if said := finished(t, address+"/v1/compact"); !strings.Contains(said,
		`"state":"done","compaction":{`) {
		t.Error(said)
	}
	if s, err := c.Stats(t.Context()); err != nil || s.Generation != 1 || s.Packed < 200 {
		t.Errorf("%+v, %v", s, err)
	}
	dir := filepath.Join(folder, "copy")
	if status, said := post(t, address+"/v1/checkpoint?name=copy",
		""); status != http.StatusAccepted {
		t.Fatal(status, said)
	}
	if said := finished(t, address+"/v1/checkpoint"); !strings.Contains(said,
		`"state":"done","name":"copy"`) {
		t.Fatal(said)
	}
	copied, err := neardup.Open(dir, nil)
	must(t, err)
	defer copied.Close()
	for n := range checked {
		for _, from := range []neardup.Checker{c, copied} {
			if d, found, err := from.Get(t.Context(), fmt.Sprint(n)); !found || err != nil ||
				d.Fingerprint != document(n).Fingerprint {
				t.Errorf("%d: %+v, %v", n, d, err)
			}
		}
	}
	if status, said := post(t, address+"/v1/checkpoint?name=copy",
		""); status != http.StatusConflict {
		t.Error(status, said)
	}
}

// finished waits until a task has finished, and returns its state.
func finished(t *testing.T, url string) (said string) {
	t.Helper()
	waitFor(t, func() bool {
		_, said = get(t, url)
		return !strings.Contains(said, `"running"`)
	})
	return said
}

// TestTasks: a client that disconnects does not cancel its compaction or checkpoint. One of each
// runs at a time. The end of the server cancels it and waits for it.
func TestTasks(t *testing.T) {
	s, address := serve(t, open(t, nil), Options{Checkpoints: t.TempDir()})
	begun, release := make(chan struct{}), make(chan error)
	var work task
	state, err := s.start(&work, "a", func(ctx context.Context, done *TaskState) error {
		close(begun)
		select {
		case err := <-release:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil || state.State != "running" {
		t.Fatal(state, err)
	}
	<-begun
	if again, err := s.start(&work, "a", nil); err != nil || again.State != "running" {
		t.Error(again, err)
	}
	if other, err := s.start(&work, "b", nil); !errors.Is(err, api.ErrBusy) {
		t.Error(other, err)
	}
	release <- index.ErrCorrupt
	waitFor(t, func() bool { return work.get().State != "running" })
	if state := work.get(); state.State != "failed" || state.Error.Code != "corrupt" ||
		state.Name != "a" {
		t.Errorf("%+v", state)
	}
	// The context of a call whose client disconnects before it is answered.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{"/v1/compact", "/v1/checkpoint?name=copy"} {
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost"+path,
			nil).WithContext(gone))
		if w.Code != http.StatusAccepted {
			t.Error(path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/v1/compact", "/v1/checkpoint"} {
		if said := finished(t, address+path); !strings.Contains(said, `"state":"done"`) {
			t.Error(path, said)
		}
	}
	var last task
	if _, err := s.start(&last, "", func(ctx context.Context, _ *TaskState) error {
		<-ctx.Done()
		return ctx.Err()
	}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.running.Wait()
	if state := last.get(); state.State != "failed" || state.Error.Code != "closed" {
		t.Errorf("%+v", state)
	}
}

// TestLineFields: a malformed line is an error with its number, stores nothing, and does not end
// the request.
func TestLineFields(t *testing.T) {
	x := open(t, nil)
	_, address := serve(t, x, Options{})
	const lines = `{"url":"https://a.example/1","html":"<p>some words of one page"}

{"key":"scop","text":"other words","scop":"s"}
{"url":"https://a.example/1","html":"<p>some words of one page"}
{"key":"nan","text":"b","tokens":NaN}
{"key":"limit","text":"b","limit":1}
{"key":"none"}` + "\r\n\ufeff" + `{"id":7,"content":"a text of seven words and no more"}` + "\r\n"
	checks := []string{
		`"key":"https://a.example/1","fingerprint":`,
		`{"error":{"code":"bad_line","message":"unknown field \"scop\": the document is in html,`,
		`"verdict":"unchanged"`,
		`{"error":{"code":"bad_line","message":"not JSON: byte 33: invalid character 'N'`,
		`{"error":{"code":"bad_line","message":"maxDistance and limit are fields of a query","line":6}}`,
		`{"error":{"code":"bad_line","message":"no document: want html, text, content, body or fingerprint","line":7}}`,
		`{"key":"7","fingerprint":`,
	}
	for _, more := range []int{0, 2 * windowLimit} {
		status, said := post(t, address+"/v1/check",
			lines+strings.Repeat(`{"id":7,"text":"b"}`+"\n", more))
		got := strings.Split(strings.TrimSpace(said), "\n")
		if status != 200 || len(got) != len(checks)+more {
			t.Fatalf("%d, %s", status, said)
		}
		for i, want := range checks {
			if !strings.Contains(got[i], want) {
				t.Errorf("answer %d: %s, want %s", i+1, got[i], want)
			}
		}
		if n := x.Stats().Documents; n != 2 {
			t.Errorf("%d documents are stored, want 2", n)
		}
	}
	if status, said := post(t, address+"/v1/query", `{"text":"b","limits":1}`+"\n"+
		`{"text":"b","limit":1}`); status != 200 || !strings.Contains(said, `"line":1}}`) ||
		!strings.Contains(said, `"matches":[`) {
		t.Errorf("%d, %s", status, said)
	}
	for _, key := range []string{"https://a.example/1", "7"} {
		if _, found, err := x.Get(t.Context(), key); !found || err != nil {
			t.Errorf("%s: %v, %v", key, found, err)
		}
	}
}

// TestContentType: the Content-Type of a body selects its parser and the form of the answer. If the
// body does not fit, nothing is stored.
func TestContentType(t *testing.T) {
	const page = "<!DOCTYPE html>\n<title>a</title>\n<p>some words\n"
	const pretty = "{\n  \"url\": \"p\",\n  \"text\": \"some words\"\n}\n"
	const array = `[{"url":"p","text":"some words"},` + "\n" +
		`{"url":"q","texts":"b"}, 5, {"url":"r","text":"quite another text"}]`
	for _, test := range []struct {
		contentType, query, body string
		status                   int
		answers                  string // its Content-Type
		want                     string // regular expression
		stored                   uint64
	}{
		{"text/html; charset=utf-8", "?key=p", page, 200, "application/json",
			`^{"key":"p",.*"verdict":"new"}\n$`, 1},
		{"text/plain", "?key=&scope=s", "words", 200, "application/json",
			`^{"key":"",.*"verdict":"new"}\n$`, 1},
		{"application/xhtml+xml", "?key=p", page, 200, "application/json", `"verdict":"new"`, 1},
		{"text/html", "", page, 400, "application/json", `\?key=`, 0},
		{"text/plain", "?scope=s", `{"key":"a","text":"b"}`, 400, "application/json", `\?key=`, 0},
		{"application/x-ndjson", "", page, 400, "application/json",
			`line 1 is not a JSON object.*\?key=`, 0},
		{"application/x-ndjson", "", "\n\n" + page, 400, "application/json",
			`line 3 is not a JSON object`, 0},
		{"application/x-ndjson", "", pretty, 400, "application/json",
			`line 1 is not a JSON object.*application/json`, 0},
		{"application/x-ndjson", "", array, 400, "application/json",
			`line 1 is not a JSON object.*application/json`, 0},
		{"application/x-ndjson", "", "", 200, "application/x-ndjson", `^$`, 0},
		{"application/x-ndjson", "?key=a", `{"text":"b"}`, 400, "application/json",
			`has no parameters`, 0},
		{"application/jsonl", "", "\ufeff" + `{"key":"a","text":"b"}` + "\r\n", 200,
			"application/x-ndjson", `^{"key":"a",.*}\n$`, 1},
		{"application/json", "", pretty, 200, "application/json",
			`^{"key":"p",.*"verdict":"new"}\n$`, 1},
		{"application/json; charset=utf-8", "", "\ufeff" + array, 200, "application/json",
			`^\[{"key":"p"[^\n]*\n,{"error":{"code":"bad_line","message":"unknown field [^\n]*"line":2}}\n,{"error":[^\n]*not a JSON object but a number","line":3}}\n,{"key":"r"[^\n]*\n\]\n$`, 2},
		{"application/json", "", array + "]", 400, "application/json", `not a JSON array`, 0},
		{"application/json", "", "[ ]", 200, "application/json", `^\[\]\n$`, 0},
		{"application/json", "", "[7]", 200, "application/json",
			`^\[{"error":[^\n]*"line":1}}\n\]\n$`,
			0},
		{"application/json", "", `{"text":1}`, 400, "application/json",
			`^{"error":{"code":"bad_line","message":"text must not be a number","line":1}}\n$`, 0},
		{"application/json", "", pretty + pretty, 400, "application/json", `not JSON: byte`, 0},
		{"application/json", "", pretty[:20], 400, "application/json", `unexpected EOF`, 0},
		{"application/json", "", "", 400, "application/json", `unexpected EOF`, 0},
		{"application/json", "", `{"text":"` + strings.Repeat("a ", 2<<20) + `"}`, 413,
			"application/json", `"too_large"`, 0},
		{"application/xml", "", page, 415, "application/json", `"content_type"`, 0},
		{"image/png", "?key=p", page, 415, "application/json", `"content_type"`, 0},
		{"application/x-www-form-urlencoded", "", `{"key":"a","text":"b"}`, 415, "application/json",
			`"content_type"`, 0},
		{"", "", `{"key":"a","text":"b"}`, 415, "application/json",
			`want application/x-ndjson or application/json`, 0},
	} {
		x := open(t, nil)
		_, address := serve(t, x,
			Options{Limits: Limits{PageBytes: 1 << 20, RequestBytes: 1 << 20}})
		status, said, header := ask(t, http.MethodPost, address+"/v1/check"+test.query, test.body,
			"Content-Type", test.contentType)
		answers := header.Get("Content-Type")
		if status != test.status || x.Stats().Documents != test.stored || answers != test.answers ||
			!regexp.MustCompile("(?s)"+test.want).MatchString(said) {
			t.Errorf("%s, %s, %.60q: %d, %s, %d documents, %s; want %s", test.contentType,
				test.query, test.body, status, answers, x.Stats().Documents, said, test.want)
		}
	}
}

// TestParameters: a URL that is not percent-encoded is refused. Otherwise its part before & would
// be the key.
func TestParameters(t *testing.T) {
	x := open(t, nil)
	_, address := serve(t, x, Options{})
	for query, want := range map[string]string{
		"key=http://a.example/x?id=1&scope=de": "the parameter key is a URL that " +
			"is not percent-encoded",
		"key=http://a.example/x?id=1": "not percent-encoded",
		"key=http://a.example/a+b":    "not percent-encoded",
		"key=http://a.example/%C3%A9": "not percent-encoded",
		"key=http://a.example/x&id=1": "POST /v1/check has no parameter " +
			"\\\"id\\\"; percent-encode",
		"key=a&scope=b&scope=c": "the parameter scope is repeated; " +
			"percent-encode",
		"key=http%3A%2F%2Fa.example%2Fx%3Fid%3D1%26scope%3D": `"key":"http://a.example/x?id=1&scope=","fingerprint"`,
		"key=http://a.example/x&scope=de":                    `"key":"http://a.example/x","fingerprint"`,
	} {
		status, said := postAs(t, address+"/v1/check?"+query, "text/html",
			"<p>some words of a page")
		if (status == 200) != strings.Contains(want, `"fingerprint"`) ||
			!strings.Contains(said, want) {
			t.Errorf("%s: %d, %s; want %s", query, status, said, want)
		}
	}
	for path, want := range map[string]string{
		"/v1/document?key=http://a.example/x?id=1": "not percent-encoded",
		"/v1/document":          "the parameter key is missing",
		"/v1/documents?after=x": "after is",
	} {
		if status, said := get(t, address+path); status != 400 || !strings.Contains(said, want) {
			t.Errorf("%s: %d, %s", path, status, said)
		}
	}
}

// TestUnknownPaths: an unknown path or method gets an error in JSON, with and without web pages.
func TestUnknownPaths(t *testing.T) {
	for _, page := range []http.Handler{nil,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "a page")
		})} {
		_, address := serve(t, open(t, nil), Options{Page: page})
		for call, want := range map[string]int{"GET /v1/nothing": 404, "GET /v2/": 404,
			"GET /nothing": 404, "POST /v1/stats": 405, "GET /v1/check": 405,
			"PUT /v1/document": 405} {
			method, path, _ := strings.Cut(call, " ")
			var failure api.Failure
			status, said, header := ask(t, method, address+path, "")
			if err := json.Unmarshal([]byte(said), &failure); err != nil || status != want ||
				failure.Error.Code == "" || (want == 405) != (header.Get("Allow") != "") {
				t.Errorf("%s: %d, %s, %v", call, status, said, err)
			}
		}
	}
}

// TestListAndDelete: the list has every document once, in parts, and documents are deleted by key
// and by ID.
func TestListAndDelete(t *testing.T) {
	x := open(t, inMemory())
	var docs []index.Document
	for n := range 2_345 {
		docs = append(docs, index.Document{Key: fmt.Sprintf("key %d \xff", n),
			Fingerprint: 1 + checkFingerprint(n, 0), Tokens: 100, Scope: "s"})
	}
	must(t, x.Add(t.Context(), docs...))
	_, address := serve(t, x, Options{})
	c := dial(t, address, nil)
	list := func() (keys []string) {
		for next := "0"; next != ""; {
			_, said := get(t, address+"/v1/documents?after="+next)
			var part api.List
			must(t, json.Unmarshal([]byte(said), &part))
			for _, d := range part.Documents {
				if d.ID == 0 || d.Scope != "s" || d.Added.IsZero() {
					t.Errorf("%+v", d)
				}
				keys = append(keys, string(d.KeyBytes))
			}
			next = part.Next
		}
		return keys
	}
	got := list()
	if len(got) != len(docs) || got[0] != docs[0].Key || got[2_344] != docs[2_344].Key ||
		len(slices.Compact(got)) != len(docs) {
		t.Errorf("%d documents, want %d", len(got), len(docs))
	}
	if n, err := c.Delete(t.Context(), append([]string{"no such key"},
		got[1:2_000]...)...); n != 1_999 || err != nil {
		t.Error(n, err)
	}
	long := slices.Repeat([]string{strings.Repeat("k", 64<<10)}, 1_000)
	if n, err := c.Delete(t.Context(), long...); n != 0 || err != nil {
		t.Error(n, err)
	}
	if status, said := postAs(t, address+"/v1/documents/delete", "application/json",
		`{"keys":["none"],"ids":[2001,2002,1]}`); status != 200 || said != `{"deleted":3}`+"\n" {
		t.Error(status, said)
	}
	if got := list(); len(got) != 343 || got[0] != docs[2_002].Key {
		t.Errorf("%d documents, %v", len(got), got)
	}
	for body, want := range map[string]string{`{"key":["a"]}`: "bad_request", `[]`: "bad_request",
		"": "bad_request"} {
		if status, said := postAs(t, address+"/v1/documents/delete", "application/json",
			body); status != 400 || !strings.Contains(said, want) {
			t.Error(body, status, said)
		}
	}
}

// TestExplain: explain returns the verdict that check would return and the nearest documents, and
// stores nothing.
func TestExplain(t *testing.T) {
	x := open(t, nil)
	_, address := serve(t, x, Options{})
	for _, step := range checktest.Crawl() {
		if len(step.Page.Body) > 1<<20 || len(step.Page.URL) > 1<<10 {
			continue
		}
		line, err := wire.Encode(wire.OfPage(&step.Page))
		must(t, err)
		before := x.Stats()
		var explained struct {
			api.Checked
			Candidates []struct {
				B       struct{ Key string }
				Match   bool
				Decided []string
			}
		}
		status, said := postAs(t, address+"/v1/explain", "application/json", string(line))
		if err := json.Unmarshal([]byte(said), &explained); err != nil || status != 200 {
			t.Fatal(err, status, said)
		}
		if after := x.Stats(); after.Documents != before.Documents ||
			after.NextID != before.NextID {
			t.Error("explain stored the document")
		}
		v, err := x.Check(t.Context(), step.Page)
		must(t, err)
		want := wire.Checked(step.Page.URL, explained.Fingerprint, &v)
		if got := wire.Verdict(&explained.Checked); got.Status != v.Status ||
			got.Of.ID != v.Of.ID || got.Near != v.Near || got.Removed != v.Removed ||
			got.Reason != v.Reason {
			t.Errorf("explained %+v, checked %+v", explained.Checked, want)
		}
		if v.Status == neardup.Duplicate && (len(explained.Candidates) == 0 ||
			!explained.Candidates[0].Match || explained.Candidates[0].B.Key != v.Of.Key) {
			t.Errorf("%+v is not a candidate: %s", v.Of, said)
		}
	}
	if status, said := get(t, address+"/v1/explain?key=museum"); status != 200 ||
		!strings.Contains(said, `"verdict":"unchanged"`) {
		t.Error(status, said)
	}
	if status, said := get(t, address+"/v1/explain?key=ferry.txt"); status != 404 ||
		!strings.Contains(said, "send it to POST /v1/explain") {
		t.Error(status, said)
	}
}
