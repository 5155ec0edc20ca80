package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

// TestDoesNotLinkStore: the client links neither the index nor its store.
func TestDoesNotLinkStore(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Skip("go list does not run here:", err)
	}
	if !strings.Contains(string(out), "github.com/neardup/neardup/client/api\n") {
		t.Fatalf("%s", out)
	}
	for _, other := range []string{"cockroachdb/pebble", "neardup/store", "neardup/index\n",
		"prometheus/client_golang"} {
		if strings.Contains(string(out), other) {
			t.Errorf("it links %s", other)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:7490", "ftp://127.0.0.1", "http://",
		"pages.neardup", "http://a b"} {
		if c, err := Open(t.Context(), address, &Options{RetryFor: -1}); err == nil ||
			!strings.Contains(err.Error(), "want an address") {
			t.Errorf("%q: %v, %v", address, c, err)
		}
	}
	if c, err := Open(t.Context(), "http://user:secret@127.0.0.1:1",
		&Options{RetryFor: -1}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(c, err)
	}
	if c, err := Open(t.Context(), "http://127.0.0.1:1",
		&Options{Token: "two\nlines"}); err == nil ||
		!strings.Contains(err.Error(), "invalid header field value") {
		t.Error(c, err)
	}
}

// stats is the answer of a server to Open.
const stats = `{"tables":1}`

// TestStranger: a server that is not neardup is not opened. Its answers are not taken for verdicts.
func TestStranger(t *testing.T) {
	said := "{}"
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, said+"\n")
	}))
	defer stranger.Close()
	if c, err := Open(t.Context(), stranger.URL, nil); err == nil ||
		!strings.Contains(err.Error(), "is it a neardup server?") {
		t.Error(c, err)
	}
	said = stats
	c, err := Open(t.Context(), stranger.URL, nil)
	must(t, err)
	defer c.Close()
	for _, said = range []string{"{}", `{"verdict":"no verdict"}`} {
		if v, err := c.Check(t.Context(), Page{URL: "a"}); !errors.Is(err, errNoAnswer) {
			t.Error(v, err)
		}
		if v, err := c.CheckBatch(t.Context(), []Page{{URL: "a"}}); !errors.Is(err, errNoAnswer) ||
			len(v) != 0 {
			t.Error(v, err)
		}
		if v, err := c.CheckDocuments(t.Context(), []Document{{Key: "a"}}); !errors.Is(err,
			errNoAnswer) || len(v) != 0 {
			t.Error(v, err)
		}
		if m, err := c.Query(t.Context(), Query{}); !errors.Is(err, errNoAnswer) {
			t.Error(m, err)
		}
	}
}

// TestAnswerBreaksOff: an answer with fewer lines than documents is an error.
func TestAnswerBreaksOff(t *testing.T) {
	short := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, stats)
		}
	}))
	defer short.Close()
	c, err := Open(t.Context(), short.URL, &Options{RetryFor: time.Nanosecond})
	must(t, err)
	defer c.Close()
	if _, err := c.CheckBatch(t.Context(), []Page{{URL: "a"}, {URL: "b"}}); !errors.Is(err,
		io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// TestAnswerWithoutEnd: an endless answer is not read into memory, and the call is not repeated.
func TestAnswerWithoutEnd(t *testing.T) {
	defer func(n int64) { maxAnswer = n }(maxAnswer)
	maxAnswer = 1 << 20
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stats" {
			_, _ = io.WriteString(w, stats)
			return
		}
		calls.Add(1)
		text := []byte(strings.Repeat(" ", 64<<10))
		for range 1 << 10 {
			if _, err := w.Write(text); err != nil {
				return
			}
		}
		t.Errorf("%s: %d bytes were read", r.URL.Path, len(text)<<10)
	}))
	defer server.Close()
	c, err := Open(t.Context(), server.URL, nil)
	must(t, err)
	defer c.Close()
	if v, err := c.Check(t.Context(), Page{URL: "a", Body: []byte("b")}); !errors.Is(err,
		api.ErrTooLarge) {
		t.Error(v, err)
	}
	if v, err := c.CheckBatch(t.Context(), []Page{{URL: "a"}}); !errors.Is(err, api.ErrTooLarge) {
		t.Error(v, err)
	}
	if m, err := c.Query(t.Context(), Query{}); !errors.Is(err, api.ErrTooLarge) {
		t.Error(m, err)
	}
	if _, _, err := c.Get(t.Context(), "a"); !errors.Is(err, api.ErrTooLarge) {
		t.Error(err)
	}
	if n := calls.Load(); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
}

// TestServerThatIsSilent: a call ends if the server does not answer, or stops within an answer.
func TestServerThatIsSilent(t *testing.T) {
	silent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, stats)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if strings.Count(string(body), "\n") > 1 { // two answers of three
			_, _ = io.WriteString(w, strings.Repeat(`{"key":"a","verdict":"new"}`+"\n", 2))
			_ = http.NewResponseController(w).Flush()
		}
		<-silent
	}))
	defer server.Close()
	defer close(silent)
	c, err := Open(t.Context(), server.URL, &Options{RetryFor: -1, Timeout: 500 * time.Millisecond})
	must(t, err)
	defer c.Close()
	if v, err := c.Check(t.Context(), Page{URL: "a"}); !errors.Is(err, context.DeadlineExceeded) ||
		v.Status != 0 {
		t.Error(v, err)
	}
	if v, err := c.CheckBatch(t.Context(), []Page{{URL: "a"}, {URL: "b"}, {URL: "c"}}); !errors.Is(
		err, context.DeadlineExceeded) || len(v) != 2 {
		t.Error(v, err)
	}
}

// TestRetry: documents that an earlier try has answered are not sent again. If a context ends the
// retries, the error includes the last failure.
func TestRetry(t *testing.T) {
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, stats)
			return
		}
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if len(bodies) == 2 { // the answer of a proxy
			http.Error(w, "Bad Gateway", http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, `{"key":"a","verdict":"new"}`+"\n"+
			`{"error":{"code":"closed","message":"the server is stopping"}}`+"\n")
	}))
	defer server.Close()
	c, err := Open(t.Context(), server.URL, nil)
	must(t, err)
	defer c.Close()
	v, err := c.CheckDocuments(t.Context(), []Document{{Key: "1", Tokens: 1}, {Key: "2", Tokens: 1},
		{Key: "3", Tokens: 1}})
	if err != nil || len(v) != 3 || len(bodies) != 4 || strings.Count(bodies[0], "\n") != 3 ||
		strings.Count(bodies[3], "\n") != 1 || !strings.Contains(bodies[3], `"key":"3"`) {
		t.Errorf("%v, %v, %q", v, err, bodies)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	server.Close()
	if _, err := c.Check(ctx, Page{URL: "a"}); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}
