package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
		if err := errors.Join(s.Shutdown(ctx), <-ended); err != nil {
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

// get sends a GET request.
func get(t *testing.T, url string) (status int, said string) {
	t.Helper()
	return answerOf(t)(http.Get(url))
}

// post posts lines of JSON.
func post(t *testing.T, url, body string) (status int, said string) {
	t.Helper()
	return answerOf(t)(http.Post(url, api.JSONLines, strings.NewReader(body)))
}

// answerOf returns a function that reads an answer.
func answerOf(t *testing.T) func(*http.Response, error) (status int, said string) {
	return func(answer *http.Response, err error) (status int, said string) {
		t.Helper()
		must(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, string(text)
	}
}

// waitFor waits until a condition is met.
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

// documents returns documents that are far from each other.
func documents(n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i] = index.Document{Key: fmt.Sprintf("key %d \xff", i), Scope: "s", Tokens: 100,
			Fingerprint: fingerprint.Fingerprint(uint64(i+1) * 0x9e3779b97f4a7c15)}
	}
	return docs
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
	must(t, err)
	told := make(chan error, 9)
	s := New(x, Options{Failed: func(err error) { told <- err }})
	call := func(method, path, body string, status int, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", api.JSONLines)
		s.http.Handler.ServeHTTP(w, r)
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d, %s", path, w.Code, w.Body)
		}
	}
	const line = `{"key":"a","fingerprint":"0123456789abcdef"}` + "\n"
	call("POST", "/v1/check", line, 200, `"new"`)
	full.Store(true)
	for range 3 {
		call("POST", "/v1/check", `{"key":"b","fingerprint":"f0f0f0f0f0f0f0f0"}`, 500,
			"no space left on device")
	}
	call("POST", "/v1/query", line, 200, `"id":1`)
	call("GET", "/healthz", "", 500, `"failed"`)
	call("GET", "/readyz", "", 500, `"failed"`)
	must(t, s.Shutdown(t.Context()))
	if err := x.Close(); !errors.Is(err, index.ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	if err := <-told; len(told) > 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("reported %d more times, first %v", len(told), err)
	}
}

// TestSuite: a client passes the tests of a neardup.Checker.
func TestSuite(t *testing.T) {
	checktest.Run(t, func(t *testing.T) neardup.Checker {
		_, address := serve(t, open(t, nil), Options{})
		return dial(t, address, nil)
	})
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
	for _, v := range want {
		s.metrics.verdicts[v.Status].Add(-1)
	}
	for status := range neardup.Skipped + 1 {
		if n := s.Verdicts(status); n != 0 {
			t.Errorf("%d more verdicts are counted as %s", n, status)
		}
	}
}

// TestErrorsCrossTheWire: a client returns the errors of the server and of the index.
func TestErrorsCrossTheWire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ix")
	x, err := neardup.Open(dir, nil)
	must(t, err)
	must(t, x.Close())
	x, err = neardup.Open(dir, &neardup.Options{Index: index.Options{ReadOnly: true}})
	must(t, err)
	_, address := serve(t, x, Options{Token: "a token"})
	if _, err := client.Open(t.Context(), address, &client.Options{Token: "wrong"}); !errors.Is(err,
		api.ErrUnauthorized) {
		t.Error(err)
	}
	c := dial(t, address, &client.Options{RetryFor: -1, Token: "a token"})
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
	must(t, x.Close())
	if m, err := c.Query(t.Context(), index.Query{}); !errors.Is(err, index.ErrClosed) {
		t.Error(m, err)
	}
	c.Close()
	if _, err := c.Check(t.Context(), page); !errors.Is(err, index.ErrClosed) {
		t.Error(err)
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

// TestCompactAndCheckpoint: an index is compacted and copied.
func TestCompactAndCheckpoint(t *testing.T) {
	folder, x := t.TempDir(), open(t, nil)
	must(t, x.Add(t.Context(), documents(300)...))
	_, address := serve(t, x, Options{Checkpoints: folder})
	run := func(path, parameters, want string) {
		t.Helper()
		if status, said := post(t, address+path+parameters, ""); status != http.StatusAccepted {
			t.Error(status, said)
		}
		if said := finished(t, address+path); !strings.Contains(said, want) {
			t.Errorf("%s, want %s", said, want)
		}
	}
	run("/v1/compact", "", `"state":"done","compaction":{`)
	if s := x.Stats(); s.Generation != 1 || s.Packed != 300 {
		t.Errorf("%+v", s)
	}
	run("/v1/checkpoint", "?name=copy", `"state":"done","name":"copy"`)
	if status, said := post(t, address+"/v1/checkpoint?name=copy",
		""); status != http.StatusConflict {
		t.Error(status, said)
	}
	copied, err := neardup.Open(filepath.Join(folder, "copy"), nil)
	must(t, err)
	defer copied.Close()
	if s := copied.Stats(); s.Generation != 1 || s.Documents != 300 {
		t.Errorf("%+v", s)
	}
}

// TestTasks: a client that disconnects does not cancel its compaction or checkpoint. One of each
// runs at a time. Shutdown cancels it and waits for it.
func TestTasks(t *testing.T) {
	s, address := serve(t, open(t, nil), Options{Checkpoints: t.TempDir()})
	release := make(chan error)
	var work task
	run := func(ctx context.Context, _ *TaskState) error {
		select {
		case err := <-release:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for range 2 {
		if state, err := s.start(&work, "a", run); err != nil || state.State != "running" {
			t.Fatal(state, err)
		}
	}
	if other, err := s.start(&work, "b", run); !errors.Is(err, api.ErrBusy) {
		t.Error(other, err)
	}
	release <- index.ErrCorrupt
	waitFor(t, func() bool { return work.get().State != "running" })
	if state := work.get(); state.State != "failed" || state.Error.Code != "corrupt" ||
		state.Name != "a" {
		t.Errorf("%+v", state)
	}
	// The context of a call whose client disconnects before it is answered.
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{"/v1/compact", "/v1/checkpoint"} {
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, httptest.NewRequestWithContext(canceled, http.MethodPost,
			"http://localhost"+strings.Replace(path, "point", "point?name=copy", 1), nil))
		if w.Code != http.StatusAccepted {
			t.Error(path, w.Code, w.Body)
		}
		if said := finished(t, address+path); !strings.Contains(said, `"state":"done"`) {
			t.Error(path, said)
		}
	}
	if _, err := s.start(&work, "last", run); err != nil {
		t.Fatal(err)
	}
	must(t, s.Shutdown(t.Context()))
	if state := work.get(); state.State != "failed" || state.Error.Code != "closed" {
		t.Errorf("%+v", state)
	}
}

// TestListAndDelete: the parts of the list have every document once. One call can delete many
// documents.
func TestListAndDelete(t *testing.T) {
	x := open(t, inMemory())
	docs := documents(2_345)
	must(t, x.Add(t.Context(), docs...))
	_, address := serve(t, x, Options{})
	c := dial(t, address, nil)
	list := func(want []index.Document) {
		t.Helper()
		n := 0
		for next := "0"; next != ""; {
			_, said := get(t, address+"/v1/documents?after="+next)
			var part api.List
			must(t, json.Unmarshal([]byte(said), &part))
			for _, d := range part.Documents {
				if n == len(want) || string(d.KeyBytes) != want[n].Key || d.ID == 0 ||
					d.Scope != "s" || d.Added.IsZero() {
					t.Fatalf("document %d: %+v", n, d)
				}
				n++
			}
			next = part.Next
		}
		if n != len(want) {
			t.Errorf("%d documents, want %d", n, len(want))
		}
	}
	list(docs)
	keys := []string{"no such key"}
	for _, d := range docs[:2_000] {
		keys = append(keys, d.Key)
	}
	if n, err := c.Delete(t.Context(), keys...); n != 2_000 || err != nil {
		t.Error(n, err)
	}
	list(docs[2_000:])
	long := slices.Repeat([]string{strings.Repeat("k", 64<<10)}, 1_000)
	if n, err := c.Delete(t.Context(), long...); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// TestExplain: explain returns the verdict that check would return and the nearest documents.
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
		status, said := post(t, address+"/v1/explain", string(line))
		if err := json.Unmarshal([]byte(said), &explained); err != nil || status != 200 {
			t.Fatal(err, status, said)
		}
		if after := x.Stats(); after.Documents != before.Documents ||
			after.NextID != before.NextID {
			t.Error("explain stored the document")
		}
		v, err := x.Check(t.Context(), step.Page)
		must(t, err)
		if got := wire.Verdict(&explained.Checked); got.Status != v.Status ||
			got.Of.ID != v.Of.ID || got.Near != v.Near || got.Removed != v.Removed ||
			got.Reason != v.Reason {
			t.Errorf("explained %+v, checked %+v", explained.Checked, v)
		}
		if v.Status == neardup.Duplicate && (len(explained.Candidates) == 0 ||
			!explained.Candidates[0].Match || explained.Candidates[0].B.Key != v.Of.Key) {
			t.Errorf("%+v is not a candidate: %s", v.Of, said)
		}
	}
}
