package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

// A crawler that asks a served index links neither the index nor its store.
func TestLinksNoStore(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Skip("go list does not run here:", err)
	}
	if !strings.Contains(string(out), "github.com/neardup/neardup/internal/wire\n") {
		t.Fatalf("%s", out)
	}
	for _, other := range []string{"cockroachdb/pebble", "neardup/store", "neardup/index\n", "prometheus/client_golang"} {
		if strings.Contains(string(out), other) {
			t.Errorf("it links %s", other)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:7490", "ftp://127.0.0.1", "http://", "pages.neardup", "http://a b"} {
		if c, err := Open(address, &Options{RetryFor: -1}); err == nil || !strings.Contains(err.Error(), "want an address") {
			t.Errorf("%q: %v, %v", address, c, err)
		}
	}
	if c, err := Open("http://user:secret@127.0.0.1:1", &Options{RetryFor: -1}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(c, err)
	}
	if c, err := Open("http://127.0.0.1:1", &Options{Token: "two\nlines"}); err == nil || !strings.Contains(err.Error(), "no header") {
		t.Error(c, err)
	}
	for _, o := range []Options{{Connections: -1}, {MaxBody: -1}} {
		if c, err := Open("http://127.0.0.1:1", &o); err == nil || !strings.Contains(err.Error(), "want 0 for the default") {
			t.Error(c, err)
		}
	}
}

// stats is what a server says to Open.
const stats = `{"tables":1}`

// What answers in JSON and is no neardup is not opened; where it stands in the place of one, nothing is taken for a verdict.
func TestStranger(t *testing.T) {
	said := "{}"
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, said+"\n") }))
	defer stranger.Close()
	if c, err := Open(stranger.URL, nil); err == nil || !strings.Contains(err.Error(), "is it a neardup server?") {
		t.Error(c, err)
	}
	said = stats
	c, err := Open(stranger.URL, nil)
	must(t, err)
	defer c.Close()
	for _, said = range []string{"{}", `{"verdict":"no verdict"}`} {
		if v, err := c.Check(t.Context(), Page{URL: "a"}); !errors.Is(err, errNoAnswer) {
			t.Error(v, err)
		}
		if v, err := c.CheckBatch(t.Context(), []Page{{URL: "a"}}); !errors.Is(err, errNoAnswer) || len(v) != 0 {
			t.Error(v, err)
		}
		if v, err := c.CheckDocuments(t.Context(), []Document{{Key: "a"}}); !errors.Is(err, errNoAnswer) || len(v) != 0 {
			t.Error(v, err)
		}
		if m, err := c.Query(t.Context(), Query{}); !errors.Is(err, errNoAnswer) {
			t.Error(m, err)
		}
	}
}

// An answer with fewer lines than the call is no end of anything.
func TestAnswerBreaksOff(t *testing.T) {
	short := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, stats)
		}
	}))
	defer short.Close()
	c, err := Open(short.URL, &Options{RetryFor: time.Nanosecond})
	must(t, err)
	defer c.Close()
	if _, err := c.CheckBatch(t.Context(), []Page{{URL: "a"}, {URL: "b"}}); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// An answer that has no end is not read into memory, and not asked for again.
func TestAnswerWithoutEnd(t *testing.T) {
	defer func(n int) { maxAnswer = n }(maxAnswer)
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
	c, err := Open(server.URL, nil)
	must(t, err)
	defer c.Close()
	if v, err := c.Check(t.Context(), Page{URL: "a", Body: []byte("b")}); !errors.Is(err, ErrTooLarge) {
		t.Error(v, err)
	}
	if v, err := c.CheckBatch(t.Context(), []Page{{URL: "a"}}); !errors.Is(err, ErrTooLarge) {
		t.Error(v, err)
	}
	if m, err := c.Query(t.Context(), Query{}); !errors.Is(err, ErrTooLarge) {
		t.Error(m, err)
	}
	if _, _, err := c.Get(t.Context(), "a"); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if n := calls.Load(); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
}

// A server that takes calls and does not answer, before or within an answer, does not hold them for good. The time is that of a
// try, and not of the wait for a connection.
func TestServerThatIsSilent(t *testing.T) {
	defer func(d time.Duration) { tryTime = d }(tryTime)
	tryTime = 500 * time.Millisecond
	silent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, stats)
			return
		case r.URL.Query().Get("key") == "slow":
			time.Sleep(tryTime / 2)
			_, _ = io.WriteString(w, `{"key":"slow","verdict":"new"}`)
			return
		case r.URL.RawQuery == "": // two lines, each in time, and then no more
			for range 2 {
				time.Sleep(tryTime * 3 / 5)
				_, _ = io.WriteString(w, `{"key":"a","verdict":"new"}`+"\n")
				w.(http.Flusher).Flush()
			}
		}
		<-silent
	}))
	defer server.Close()
	defer close(silent)
	c, err := Open(server.URL, &Options{RetryFor: -1, Connections: 1})
	must(t, err)
	defer c.Close()
	if v, err := c.Check(t.Context(), Page{URL: "a"}); !errors.Is(err, errSilent) || v.Status != 0 {
		t.Error(v, err)
	}
	if v, err := c.CheckBatch(t.Context(), []Page{{URL: "a"}, {URL: "b"}, {URL: "c"}}); !errors.Is(err, errSilent) || len(v) != 2 {
		t.Error(v, err)
	}
	answered := make(chan error)
	for range 4 { // the last one waits longer than a try may take
		go func() {
			_, err := c.Check(t.Context(), Page{URL: "slow"})
			answered <- err
		}()
	}
	for range 4 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}
