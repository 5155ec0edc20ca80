package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/checktest"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/wire"
)

var must = testenv.Must

// serve serves an index on loopback until the test ends, and returns its address.
func serve(t *testing.T, x *neardup.Index, o Options) (s *Server, address string) {
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
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + l.Addr().String()
}

// open opens an index that is closed when the test ends.
func open(t *testing.T, o *neardup.Options) *neardup.Index {
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

// Where the disk is full, each write says so, the log once, and who asks whether a restart would help hears that it would. Queries go on.
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
		s.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const line = `{"key":"a","fingerprint":"0123456789abcdef"}` + "\n"
	if status, said := call("POST", "/v1/check", line); status != 200 {
		t.Fatal(status, said)
	}
	full.Store(true)
	for range 3 {
		if status, said := call("POST", "/v1/check", `{"key":"b","fingerprint":"f0f0f0f0f0f0f0f0"}`); status != 500 || !strings.Contains(said, "no space left on device") || !strings.Contains(said, `"failed"`) {
			t.Errorf("check: %d, %s", status, said)
		}
	}
	if status, said := call("POST", "/v1/query", line); status != 200 || !strings.Contains(said, `"id":1`) {
		t.Errorf("query: %d, %s", status, said)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, said := call("GET", path, ""); status != 500 || !strings.Contains(said, `"failed"`) {
			t.Errorf("%s: %d, %s", path, status, said)
		}
	}
	s.Close()
	if err := x.Close(); !errors.Is(err, index.ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	if err := <-told; len(told) > 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("told %d times more, at first %v", len(told), err)
	}
}

func inMemory() *neardup.Options {
	return &neardup.Options{Index: index.Options{FS: vfs.NewMem(), Durability: index.NoSync}}
}

func dial(t *testing.T, address string, o *client.Options) *client.Client {
	t.Helper()
	c, err := client.Open(address, o)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// answerOf is what a call was answered.
func answerOf(t *testing.T, r *http.Response, err error) (status int, said string) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return r.StatusCode, string(text)
}

func post(t *testing.T, url, body string) (status int, said string) {
	t.Helper()
	r, err := http.Post(url, "", strings.NewReader(body))
	return answerOf(t, r, err)
}

// A client says what the front door says, to the same in the same order.
func TestSuite(t *testing.T) {
	checktest.Run(t, func(t *testing.T) neardup.Checker {
		_, address := serve(t, open(t, nil), Options{})
		return dial(t, address, nil)
	})
}

// What is compared of a line with more than one document is what docs/api.md says, and no fingerprint is made of compressed bytes.
func TestWhatIsCompared(t *testing.T) {
	_, address := serve(t, open(t, nil), Options{})
	line := func(fields string) string { return `{"key":"a",` + fields + "}\n" }
	body := `"body":"` + base64.StdEncoding.EncodeToString([]byte("three little words")) + `"`
	for _, test := range []struct{ fields, first string }{
		{`"html":"<p>one<p>two","text":"another text"`, `"html":"<p>one<p>two"`},
		{`"text":"another text",` + body, `"text":"another text"`},
		{`"fingerprint":"0123456789abcdef","html":"<p>one<p>two",` + body, `"fingerprint":"0123456789abcdef"`},
	} {
		_, said := post(t, address+"/v1/query", line(test.fields))
		if _, want := post(t, address+"/v1/query", line(test.first)); said != want || !strings.Contains(said, `"fingerprint"`) {
			t.Errorf("%s: %s, want that of %s, %s", test.fields, said, test.first, want)
		}
	}
	for _, k := range []string{"-1", "-7", "7"} {
		if status, said := post(t, address+"/v1/query", line(`"text":"some words","maxDistance":`+k)); status != 400 || !strings.Contains(said, `"code":"distance"`) {
			t.Errorf("maxDistance %s: %d, %s", k, status, said)
		}
	}
	for coding, want := range map[string]int{"gzip": 415, "ZSTD": 415, "identity, br": 415, "x": 415, "identity": 200, "Identity": 200, "": 200} {
		for _, path := range []string{"/v1/check", "/v1/check?key=a", "/v1/query", "/v1/query?key=a"} {
			r, _ := http.NewRequest(http.MethodPost, address+path, strings.NewReader(line(`"text":"some words"`)))
			r.Header.Set("Content-Encoding", coding)
			if strings.Contains(path, "key=") {
				r.Header.Set("Content-Type", "text/plain")
			}
			answer, err := http.DefaultClient.Do(r)
			status, said := answerOf(t, answer, err)
			if status != want || (want == 415) != strings.Contains(said, `"code":"content_encoding"`) {
				t.Errorf("%s, %q: %d, %s", path, coding, status, said)
			}
		}
	}
	r, err := http.Post(address+"/v1/check?key=b", "application/x-www-form-urlencoded", strings.NewReader("<p>some words"))
	if _, said := answerOf(t, r, err); !strings.Contains(said, "not text: application/x-www-form-urlencoded") || !strings.Contains(said, "give its Content-Type") {
		t.Error(said)
	}
}

// Whole verdicts are the same, with all that there is to know of the other document.
func TestVerdictsAreThoseOfTheIndex(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	options := &neardup.Options{Index: index.Options{Now: func() time.Time { return now }}}
	var pages []neardup.Page
	for _, s := range checktest.Crawl() {
		pages = append(pages, s.Page)
	}
	want, err := open(t, options).CheckBatch(t.Context(), pages)
	must(t, err)
	_, address := serve(t, open(t, options), Options{})
	got, err := dial(t, address, nil).CheckBatch(t.Context(), pages)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestConcurrentChecks: concurrent calls share commits, and each of them gets its own verdicts.
func TestConcurrentChecks(t *testing.T) {
	_, address := serve(t, open(t, nil), Options{})
	c := dial(t, address, nil)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := range 6 {
				d := index.Document{Key: string(rune('a'+i)) + "/" + string(rune('a'+n)), Fingerprint: 1 + checkFingerprint(i, n), Tokens: 100}
				docs := []index.Document{d, d}
				if i%8 == 0 {
					docs = slices.Repeat(docs, 64)
				}
				verdicts, err := c.CheckDocuments(t.Context(), docs)
				if err != nil || verdicts[1].Status == neardup.New || verdicts[0].Status == neardup.New != (verdicts[1].Status == neardup.Unchanged) {
					t.Errorf("%d, %d: %v, %v", i, n, verdicts, err)
				}
			}
		})
	}
	wg.Wait()
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
	if v, err := c.CheckBatch(t.Context(), []neardup.Page{page}); !errors.Is(err, index.ErrReadOnly) || len(v) != 0 {
		t.Error(v, err)
	}
	if n, err := c.Delete(t.Context(), "a"); !errors.Is(err, index.ErrReadOnly) || n != 0 {
		t.Error(n, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	x.Close()
	if v, err := c.Check(t.Context(), page); !errors.Is(err, index.ErrReadOnly) && !errors.Is(err, index.ErrClosed) || v.Status != 0 {
		t.Error(v, err)
	}
	if m, err := c.Query(t.Context(), index.Query{}); !errors.Is(err, index.ErrClosed) {
		t.Error(m, err)
	}
	c.Close()
	if _, err := c.Check(t.Context(), page); !errors.Is(err, index.ErrClosed) {
		t.Error(err)
	}
	if _, err := client.Open("http://127.0.0.1:1", &client.Options{RetryFor: -1}); err == nil {
		t.Error("a server that is not there was opened")
	}
}

// An index is packed, and copied, while documents come; what was checked before and meanwhile is in both.
func TestCompactAndCheckpoint(t *testing.T) {
	x := open(t, nil)
	folder := t.TempDir()
	_, address := serve(t, x, Options{Checkpoints: folder})
	c := dial(t, address, nil)
	document := func(n int) index.Document {
		return index.Document{Key: fmt.Sprint(n), Fingerprint: 1 + checkFingerprint(n, 0), Tokens: 100}
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
	check(200)
	if status, said := post(t, address+"/v1/compact", ""); status != http.StatusAccepted || !strings.Contains(said, `"state":"`) {
		t.Fatal(status, said)
	}
	check(100)
	if said := finished(t, address+"/v1/compact"); !strings.Contains(said, `"state":"done","compaction":{`) {
		t.Error(said)
	}
	if s, err := c.Stats(t.Context()); err != nil || s.Generation != 1 || s.Packed < 200 {
		t.Errorf("%+v, %v", s, err)
	}
	dir := filepath.Join(folder, "copy")
	if status, said := post(t, address+"/v1/checkpoint?name=copy", ""); status != http.StatusAccepted {
		t.Fatal(status, said)
	}
	if said := finished(t, address+"/v1/checkpoint"); !strings.Contains(said, `"state":"done","name":"copy","checkpoint":{"checkpoint":"`+dir) {
		t.Fatal(said)
	}
	copied, err := neardup.Open(dir, nil)
	must(t, err)
	defer copied.Close()
	for n := range checked {
		for _, from := range []neardup.Checker{c, copied} {
			if d, found, err := from.Get(t.Context(), fmt.Sprint(n)); !found || err != nil || d.Fingerprint != document(n).Fingerprint {
				t.Errorf("%d: %+v, %v", n, d, err)
			}
		}
	}
	if status, said := post(t, address+"/v1/checkpoint?name=copy", ""); status != http.StatusConflict {
		t.Error(status, said)
	}
	r, err := http.Get(address + "/v1/pairs?of=7")
	if status, said := answerOf(t, r, err); status != http.StatusOK || !strings.Contains(said, `"matches":[]`) {
		t.Error(status, said)
	}
}

// finished waits until a task has finished, and returns its state.
func finished(t *testing.T, url string) (said string) {
	t.Helper()
	waitFor(t, func() bool {
		r, err := http.Get(url)
		_, said = answerOf(t, r, err)
		return !strings.Contains(said, `"running"`)
	})
	return said
}

// A caller that does not wait for the answer does not cancel the compaction or the checkpoint that it started, one runs at a time, and the
// end of the server cancels it and waits for it.
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
	if other, err := s.start(&work, "b", nil); !errors.Is(err, wire.ErrBusy) {
		t.Error(other, err)
	}
	release <- index.ErrCorrupt
	waitFor(t, func() bool { return work.get().State != "running" })
	if state := work.get(); state.State != "failed" || state.Code != "corrupt" || state.Name != "a" {
		t.Errorf("%+v", state)
	}
	// The context of a call whose client disconnects before it is answered.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{"/v1/compact", "/v1/checkpoint?name=copy"} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost"+path, nil).WithContext(gone))
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
	if _, err := s.start(&last, "", func(ctx context.Context, _ *TaskState) error { <-ctx.Done(); return ctx.Err() }); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.tasks.Wait()
	if state := last.get(); state.State != "failed" || state.Code != "closed" {
		t.Errorf("%+v", state)
	}
}

// postAs posts a body of a Content-Type.
func postAs(t *testing.T, url, contentType, body string) (status int, said string) {
	t.Helper()
	r, err := http.Post(url, contentType, strings.NewReader(body))
	return answerOf(t, r, err)
}

// Lines have their keys and their content in the fields that the command reads. A line that is malformed is an error with its number and its key, stores
// nothing, and does not end the call; and it is the same for a body of each length, and for a query.
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
		`{"error":"line 3: unknown field \"scop\"; a document is in html,`,
		`"verdict":"unchanged"`,
		`{"error":"line 5: not JSON: byte 33: NaN and Infinity are not JSON`,
		`{"error":"line 6: maxDistance and limit are fields of a query","code":"bad_line","line":6,"key":"limit"}`,
		`{"error":"line 7: no document: want html, text, content, body or fingerprint","code":"bad_line","line":7,"key":"none"}`,
		`{"key":"7","fingerprint":`,
	}
	for _, padding := range []int{0, smallBody} {
		status, said := post(t, address+"/v1/check", lines+strings.Repeat(" ", padding))
		got := strings.Split(strings.TrimSpace(said), "\n")
		if status != 200 || len(got) != len(checks) {
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
	if status, said := post(t, address+"/v1/query", `{"text":"b","limits":1}`+"\n"+`{"text":"b","limit":1}`); status != 200 || !strings.HasPrefix(said, `{"error":"line 1: unknown field \"limits\"`) || !strings.Contains(said, `"matches":[]`) {
		t.Errorf("%d, %s", status, said)
	}
	for _, key := range []string{"https://a.example/1", "7"} {
		if _, found, err := x.Get(t.Context(), key); !found || err != nil {
			t.Errorf("%s: %v, %v", key, found, err)
		}
	}
}

// The Content-Type of a body without the parameter key selects its parser. A body that is no documents at all is refused, and nothing of it is stored.
func TestBodyTypes(t *testing.T) {
	const page = "<!DOCTYPE html>\n<title>a</title>\n<p>some words\n"
	const pretty = "{\n  \"url\": \"p\",\n  \"text\": \"some words\"\n}\n"
	const array = `[{"url":"p","text":"some words"},` + "\n" + `{"url":"q","texts":"b"}, 5, {"url":"r","text":"quite another text"}]`
	for _, test := range []struct {
		contentType, body string
		status            int
		want              []string
		stored            uint64
		lines             int // of the answer, if it is one
	}{
		{"text/html; charset=utf-8", page, 400, []string{"?key=", `"bad_request"`}, 0, 0},
		{"text/plain", `{"key":"a","text":"b"}`, 400, []string{"?key=", `"bad_request"`}, 0, 0},
		{"", page, 400, []string{"line 1 is not an object", "?key="}, 0, 0},
		{"", "\n\n" + page, 400, []string{"line 3 is not an object"}, 0, 0},
		{"", pretty, 400, []string{"line 1 is not an object", "application/json"}, 0, 0},
		{"", array, 400, []string{"line 1 is not an object", "application/json"}, 0, 0},
		{"", page + strings.Repeat("<p>words\n", smallBody/4), 400, []string{"line 1 is not an object", "?key="}, 0, 0},
		{"application/x-www-form-urlencoded", "\ufeff" + `{"key":"a","text":"b"}` + "\r\n", 200, []string{`"verdict":"new"`}, 1, 1},
		{"application/json", pretty, 200, []string{`"key":"p"`, `"verdict":"new"`}, 1, 1},
		{"application/json; charset=utf-8", "\ufeff" + array, 200, []string{`"key":"p"`, `{"error":"line 2: unknown field \"texts\"`, `"error":"line 3: not a JSON object but a number"`, `"key":"r"`}, 2, 4},
		{"application/json", pretty + pretty, 200, []string{`"verdict":"new"`, `"verdict":"unchanged"`}, 1, 2},
		{"application/json", array + "]", 400, []string{"the body is not JSON"}, 0, 0},
		{"application/json", array[:40], 400, []string{"the body is not JSON"}, 0, 0},
		{"application/json", "[]", 200, nil, 0, 0},
		{"application/json", "", 200, nil, 0, 0},
		{"application/json", `[{"text":"` + strings.Repeat("a ", 3<<20) + `"}]`, 413, []string{`"too_large"`, "application/x-ndjson"}, 0, 0},
		{"application/xml", page, 415, []string{`"content_type"`}, 0, 0},
	} {
		x := open(t, nil)
		_, address := serve(t, x, Options{Limits: Limits{PageBytes: 4 << 20}})
		status, said := postAs(t, address+"/v1/check", test.contentType, test.body)
		if status != test.status || x.Stats().Documents != test.stored || status == 200 && strings.Count(said, "\n") != test.lines {
			t.Errorf("%s, %.60q: %d, %d documents, %s", test.contentType, test.body, status, x.Stats().Documents, said)
		}
		for _, want := range test.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s, %.60q: %s, want %s", test.contentType, test.body, said, want)
			}
		}
	}
}

// A URL that is not percent-encoded is refused instead of being taken for a part of itself.
func TestParameters(t *testing.T) {
	x := open(t, nil)
	_, address := serve(t, x, Options{})
	for query, want := range map[string]string{
		"key=http://a.example/x?id=1&scope=de":               "the parameter key is a URL that is not percent-encoded",
		"key=http://a.example/x?id=1":                        "not percent-encoded",
		"key=http://a.example/a+b":                           "not percent-encoded",
		"key=http://a.example/%C3%A9":                        "not percent-encoded",
		"key=http://a.example/x&id=1":                        "unknown parameter \\\"id\\\", want key, scope, kind; percent-encode",
		"key=a&scope=b&scope=c":                              "the parameter scope is given 2 times; percent-encode",
		"key=http%3A%2F%2Fa.example%2Fx%3Fid%3D1%26scope%3D": `"key":"http://a.example/x?id=1&scope=","fingerprint"`,
		"key=http://a.example/x&scope=de":                    `"key":"http://a.example/x","fingerprint"`,
	} {
		status, said := postAs(t, address+"/v1/check?"+query, "text/html", "<p>some words of a page")
		if (status == 200) != strings.Contains(want, `"fingerprint"`) || !strings.Contains(said, want) {
			t.Errorf("%s: %d, %s; want %s", query, status, said, want)
		}
	}
	for _, path := range []string{"/v1/documents?key=http://a.example/x?id=1", "/v1/pairs?of=http://a.example/x?id=1", "/v1/compare?a=http://a.example/x?id=1&b=b"} {
		r, err := http.Get(address + path)
		if status, said := answerOf(t, r, err); status != 400 || !strings.Contains(said, "not percent-encoded") {
			t.Errorf("%s: %d, %s", path, status, said)
		}
	}
}
