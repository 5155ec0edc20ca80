package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

// TestDoesNotLinkStore tests that the client links neither the index nor its store.
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
			t.Errorf("the client links %s", other)
		}
	}
}

// dial starts a server and opens a client of it. The server answers a GET request like /v1/stats,
// and calls answer for other requests.
func dial(t *testing.T, o *Options, answer http.HandlerFunc) (*Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"tables":1}`)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := Open(t.Context(), server.URL, o)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c, server
}

// TestAddresses tests that Open fails for an invalid address and for another server, with an error
// that has no password.
func TestAddresses(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{}\n")
	}))
	defer stranger.Close()
	const invalid, token = "want an address", "two\nlines"
	for _, test := range []struct{ address, token, want string }{
		{"", "", invalid}, {"127.0.0.1:7490", "", invalid}, {"ftp://127.0.0.1", "", invalid},
		{"http://", "", invalid}, {"pages.neardup", "", invalid}, {"http://a b", "", invalid},
		{"http://user:secret@127.0.0.1:1", "", "127.0.0.1:1"},
		{"http://127.0.0.1:1", token, "invalid header field value"},
		{stranger.URL, "", "is it a neardup server?"},
	} {
		c, err := Open(t.Context(), test.address, &Options{RetryFor: -1, Token: test.token})
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, %v", test.address, c, err)
		}
	}
}

// calls has several calls of a client. Each returns the number of verdicts or matches.
var calls = map[string]func(context.Context, *Client) (int, error){
	"Check": func(ctx context.Context, c *Client) (int, error) {
		v, err := c.Check(ctx, Page{URL: "a", Body: []byte("b")})
		return int(v.Status), err
	},
	"CheckBatch": func(ctx context.Context, c *Client) (int, error) {
		v, err := c.CheckBatch(ctx, []Page{{URL: "a"}, {URL: "b"}, {URL: "c"}})
		return len(v), err
	},
	"CheckDocuments": func(ctx context.Context, c *Client) (int, error) {
		v, err := c.CheckDocuments(ctx, []Document{{Key: "a"}})
		return len(v), err
	},
	"Query": func(ctx context.Context, c *Client) (int, error) {
		m, err := c.Query(ctx, Query{})
		return len(m), err
	},
}

// TestInvalidAnswers tests that a call fails if its answer has no verdict, fewer lines than
// documents, or no end. An endless answer must not be read into memory, and its call must not be
// repeated.
func TestInvalidAnswers(t *testing.T) {
	defer func(n int64) { maxAnswer = n }(maxAnswer)
	maxAnswer = 1 << 20
	for said, want := range map[string]error{"{}\n": errNoAnswer,
		`{"verdict":"no verdict"}` + "\n": errNoAnswer, "": io.ErrUnexpectedEOF,
		strings.Repeat(" ", 64<<20): api.ErrTooLarge} {
		for name, call := range calls {
			if name == "Query" && said == "" { // Query returns an error without io.ErrUnexpectedEOF
				continue
			}
			answers := 0
			c, _ := dial(t, &Options{RetryFor: time.Nanosecond},
				func(w http.ResponseWriter, r *http.Request) {
					answers++
					n, err := io.WriteString(w, said)
					if err == nil && n > 32<<20 {
						t.Errorf("%s: %d bytes were read", r.URL.Path, n)
					}
				})
			if n, err := call(t.Context(), c); !errors.Is(err, want) || n != 0 ||
				errors.Is(err, io.EOF) || answers != 1 && want == api.ErrTooLarge {
				t.Errorf("%s, %.30q: %d, %v after %d answers", name, said, n, err, answers)
			}
		}
	}
}

// TestServerThatIsSilent tests that a call ends if the server sends no answer or a part of it.
func TestServerThatIsSilent(t *testing.T) {
	silent := make(chan struct{})
	c, _ := dial(t, &Options{RetryFor: -1, Timeout: 500 * time.Millisecond},
		func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Count(string(body), "\n") > 1 { // two answers of three
				_, _ = io.WriteString(w, strings.Repeat(`{"key":"a","verdict":"new"}`+"\n", 2))
				_ = http.NewResponseController(w).Flush()
			}
			<-silent
		})
	defer close(silent)
	for name, answers := range map[string]int{"Check": 0, "CheckBatch": 2} {
		if n, err := calls[name](t.Context(), c); !errors.Is(err, context.DeadlineExceeded) ||
			n != answers {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// TestRetry tests that documents with a verdict are not sent again. If a context ends the retries,
// the error must include the last failure.
func TestRetry(t *testing.T) {
	var bodies []string
	c, server := dial(t, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if len(bodies) == 2 { // the answer of a proxy
			http.Error(w, "Bad Gateway", http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, `{"key":"a","verdict":"new"}`+"\n"+
			`{"error":{"code":"closed","message":"the server is stopping"}}`+"\n")
	})
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
