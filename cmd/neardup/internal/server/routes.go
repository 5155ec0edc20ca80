package server

import (
	"crypto/subtle"
	_ "embed"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/view"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// openAPI is the OpenAPI document of the calls.
//
//go:embed openapi.json
var openAPI []byte

// call is a call of the HTTP API. openapi.json and docs/reference/http.md are generated from calls.
type call struct {
	method, path, name string // the name is in metrics and in the access log
	summary            string
	parameters         []parameter
	// value of the type of the JSON body; nil: no body. Instead of an api.Document, the body can be
	// several documents or a page.
	body   any
	answer any // value of the type of the answer, or of the answer to each api.Document
	status int // of a successful answer

	// do answers a request. An error that it returns is answered, unless the answer has begun.
	do func(*Server, *answer, *http.Request, url.Values) error
}

// parameter is a parameter in the URL of a call.
type parameter struct {
	name     string
	required bool
	doc      string
}

var (
	keyParameter   = parameter{"key", true, "key of the document"}
	pageParameters = []parameter{
		{"key", false,
			"URL of the page, required for text/html and text/plain; it may be empty"},
		{"scope", false, "scope of the page"},
	}
)

// calls lists all calls.
var calls = []call{
	{"POST", "/v1/check", "check", "Store each document unless a stored one matches. Each " +
		"verdict is durable.", pageParameters, api.Document{}, api.Checked{}, 200, (*Server).check},
	{"POST", "/v1/query", "query", "Find the stored documents that match, and store nothing.",
		pageParameters, api.Document{}, api.Found{}, 200, (*Server).query},
	{"POST", "/v1/explain", "explain", "Return the verdict that check would return, and compare " +
		"the document with the stored ones nearest to it. Nothing is stored.", pageParameters,
		api.Document{}, compare.Explained{}, 200, (*Server).explain},
	{"GET", "/v1/explain", "explainKey", "Return the verdict that check would return on the " +
		"stored document that has a key, and compare this document with the nearest other ones.",
		[]parameter{keyParameter}, nil, compare.Explained{}, 200, (*Server).explainKey},
	{"GET", "/v1/document", "get", "Return the document that has a key.", []parameter{keyParameter},
		nil, api.Stored{}, 200, (*Server).get},
	{"GET", "/v1/documents", "list",
		"List the documents that have a record, by id, in parts of 1,000.", []parameter{
			{"after", false, "value of next in the previous part; the list starts after it"},
		}, nil, api.List{}, 200, (*Server).list},
	{"POST", "/v1/documents/delete", "delete", "Delete the documents that have these keys or " +
		"ids. Keys and ids without a document are ignored.", nil, api.Deletion{}, api.Deleted{},
		200, (*Server).delete},
	{"GET", "/v1/stats", "stats", "Return the statistics of the index.", nil, nil, index.Stats{},
		200, state(func(s *Server) any { return s.index.Stats() })},
	{"POST", "/v1/checkpoint", "checkpoint", "Start a checkpoint: a copy of the index. If a " +
		"checkpoint with this name is running, return its state.", []parameter{
		{"name", true, "name of its directory in the directory of --checkpoints"},
	}, nil, TaskState{}, 202, (*Server).checkpoint},
	{"GET", "/v1/checkpoint", "checkpointState", "Return the state of the last checkpoint.", nil,
		nil, TaskState{}, 200, state(func(s *Server) any { return s.checkpointing.get() })},
	{"POST", "/v1/compact", "compact", "Start a compaction. If a compaction is running, return " +
		"its state.", nil, nil, TaskState{}, 202, (*Server).compact},
	{"GET", "/v1/compact", "compactState", "Return the state of the last compaction that a call " +
		"started.", nil, nil, TaskState{}, 200,
		state(func(s *Server) any { return s.compaction.get() })},
}

// state returns a function that answers with the result of of.
func state(of func(*Server) any) func(*Server, *answer, *http.Request, url.Values) error {
	return func(s *Server, a *answer, _ *http.Request, _ url.Values) error {
		return a.json(of(s), nil)
	}
}

func (s *Server) routes() http.Handler {
	guarded, mux := http.NewServeMux(), http.NewServeMux()
	methods := make(map[string][]string) // by path
	for i := range calls {
		c := &calls[i]
		guarded.Handle(c.method+" "+c.path, s.counted(c))
		methods[c.path] = append(methods[c.path], c.method)
	}
	for path, allowed := range methods {
		guarded.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeFailure(w, wire.Failuref(wire.NotAllowed, http.StatusMethodNotAllowed, "want %s",
				strings.Join(allowed, " or ")))
		})
	}
	guarded.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry,
		promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	guarded.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(openAPI)
	})
	if s.opts.Page != nil {
		for _, pattern := range view.Patterns {
			guarded.Handle(pattern, s.opts.Page)
		}
	}
	guarded.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeFailure(w, wire.Failuref(wire.NotFound, http.StatusNotFound, "no such path"))
	})
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.health)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if err := s.guard(w, r); err != nil {
			writeFailure(w, err)
			return
		}
		guarded.ServeHTTP(w, r)
	})
	return mux
}

var origins http.CrossOriginProtection

// guard refuses requests without the token or, if the server has none, to a host except localhost.
// It also refuses cross-origin requests of browsers, except links to the web pages.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) error {
	if s.opts.Token == "" && !isLoopbackHost(r.Host) { // prevents DNS rebinding
		return wire.Failuref(wire.Forbidden, http.StatusForbidden,
			"without a token, only localhost is served")
	}
	if s.opts.Token != "" {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			_, given, _ = r.BasicAuth() // of a browser
		}
		if subtle.ConstantTimeCompare([]byte(given), []byte(s.opts.Token)) != 1 {
			s.metrics.refused.WithLabelValues("token").Inc()
			w.Header().Set("WWW-Authenticate",
				`Basic realm="neardup, with the token as the password", charset="UTF-8"`)
			return api.ErrUnauthorized
		}
	}
	like := *r
	if strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/groups" {
		like.Method = http.MethodPost // a GET can be expensive, so it is checked like a POST
	}
	if origins.Check(&like) != nil {
		return wire.Failuref(wire.Forbidden, http.StatusForbidden,
			"cross-origin requests are not allowed")
	}
	return nil
}

func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	// HTTP/1.0 requests can omit the host
	return host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// counted answers a call, and counts, times and logs it.
func (s *Server) counted(c *call) http.Handler {
	latency := s.metrics.seconds.WithLabelValues(c.name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		s.running.Add(1)
		defer s.running.Done()
		a := &answer{ResponseWriter: w, server: s, success: c.status}
		defer func() { a.release(a.claimed) }()
		err := s.bounded(c, a, r)
		if err != nil {
			s.noteError(err)
			if a.status == 0 {
				a.status = writeFailure(w, err)
			}
		}
		latency.Observe(time.Since(begun).Seconds())
		s.metrics.answers.WithLabelValues(c.name, strconv.Itoa(a.status)).Inc()
		if s.opts.AccessLog {
			attrs := []slog.Attr{slog.String("call", c.name), slog.Int("status", a.status),
				slog.String("from", r.RemoteAddr),
				slog.Int("documents", a.documents), slog.Duration("took", time.Since(begun))}
			if err != nil {
				attrs = append(attrs, slog.String("error", err.Error()))
			}
			s.opts.Log.LogAttrs(r.Context(), slog.LevelInfo, "call", attrs...)
		}
	})
}

// callBytes is the memory that each call claims. Longer bodies and answers claim more.
const callBytes = 32 << 10

func (s *Server) bounded(c *call, a *answer, r *http.Request) error {
	if s.stopping.Err() != nil {
		return errStopping
	}
	if err := a.claim(callBytes); err != nil {
		return err
	}
	values, err := c.values(r.URL)
	if err != nil {
		return err
	}
	return c.do(s, a, r, values)
}

// values returns the parameters in the URL of a call. A value that is a URL must be
// percent-encoded: otherwise its part after & would be another parameter.
func (c *call) values(u *url.URL) (url.Values, error) {
	const encode = "percent-encode URLs in parameters, as curl -G --data-urlencode does"
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if name, value, _ := strings.Cut(pair, "="); strings.Contains(value, "://") &&
			strings.ContainsAny(value, "?%+") {
			return nil, badCall(
				"the parameter %.40s is a URL that is not percent-encoded: %s", name, encode)
		}
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, badCall("the URL is malformed: %v", err)
	}
	for name, given := range values {
		if !slices.ContainsFunc(c.parameters, func(p parameter) bool { return p.name == name }) {
			return nil, badCall("%s %s has no parameter %.40q; %s", c.method, c.path, name, encode)
		}
		if len(given) > 1 {
			return nil, badCall("the parameter %s is repeated; %s", name, encode)
		}
	}
	for _, p := range c.parameters {
		if p.required && !values.Has(p.name) {
			return nil, badCall("the parameter %s is missing: %s", p.name, p.doc)
		}
	}
	return values, nil
}

// health answers 200 if the server answers requests and the index accepts writes.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.failed.Load():
		writeFailure(w, index.ErrFailed)
	case s.stopping.Err() != nil:
		writeFailure(w, errStopping)
	default:
		w.Write([]byte("ok\n"))
	}
}
