package view

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"golang.org/x/sync/semaphore"
)

// Texts has the texts of documents.
type Texts interface {
	// Words returns the words of a document, or nil if its text is not known.
	Words(ctx context.Context, d *index.Document) ([]string, error)

	// Page returns the last page with a URL, or nil if it is not known.
	Page(ctx context.Context, url string) (*neardup.Page, error)

	// Documents returns the number of documents with a text.
	Documents() int
}

// Options configures New.
type Options struct {
	Rule     match.Rule                 // of comparisons
	Verdicts func(neardup.Status) int64 // returns the number of verdicts with a status
	Texts    Texts                      // nil: no texts are known
}

// Pages serves the pages. Memory, time and number of requests are bounded. Requests over a limit
// get status 503.
type Pages struct {
	index    *neardup.Index
	opts     Options
	mux      *http.ServeMux
	requests *semaphore.Weighted
	scans    *semaphore.Weighted // requests that read many documents
	texts    *semaphore.Weighted // texts in memory; each takes several times its size
}

const (
	maxRequests = 16
	requestTime = 20 * time.Second
	maxPasted   = 4 << 20 // bytes of a pasted text
)

// Patterns are the patterns of http.ServeMux that Pages serves.
var Patterns = []string{"GET /{$}", "GET /search", "POST /search", "GET /compare", "GET /groups"}

// New returns the pages of an index.
func New(x *neardup.Index, o Options) *Pages {
	p := &Pages{
		index: x, opts: o, mux: http.NewServeMux(),
		requests: semaphore.NewWeighted(maxRequests), scans: semaphore.NewWeighted(1),
		texts: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))),
	}
	p.mux.HandleFunc("GET /{$}", p.show(overviewTemplate, p.overview))
	p.mux.HandleFunc("GET /search", p.show(searchTemplate, p.search))
	p.mux.HandleFunc("POST /search", p.show(searchTemplate, p.search))
	p.mux.HandleFunc("GET /compare", p.show(compareTemplate, p.compare))
	p.mux.HandleFunc("GET /groups", p.show(groupsTemplate, p.groups))
	p.mux.HandleFunc("/", p.show(problemTemplate, func(*http.Request) (any, error) {
		return nil, &problem{http.StatusNotFound, "There is no such page."}
	}))
	return p
}

// ServeHTTP answers a request.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

var (
	overviewTemplate = parsed("frame.html", "overview.html")
	searchTemplate   = parsed("frame.html", "search.html")
	compareTemplate  = parsed("frame.html", "compare.html")
	groupsTemplate   = parsed("frame.html", "groups.html")
	problemTemplate  = parsed("frame.html", "problem.html")
)

// problem is an error with a text for people.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

// frame is the data of the templates.
type frame struct {
	Title, Policy, Current string
	Nav                    []link
	Problem                string
	Page                   any
}

type link struct{ Path, Name string }

var navigation = []link{{"/", "Overview"}, {"/search", "Search"}, {"/compare", "Compare"},
	{"/groups", "Groups"}}

// show returns a handler that answers with a page. content returns the data of the page.
func (p *Pages) show(
	page func() *template.Template, content func(*http.Request) (any, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy("'self'")+"; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		f := &frame{Title: "Overview", Current: r.URL.Path, Nav: navigation}
		for _, l := range navigation {
			if l.Path == r.URL.Path {
				f.Title = l.Name
			}
		}
		status, shown := http.StatusOK, page
		var err error
		if f.Page, err = p.bounded(w, r, content); err != nil {
			f.Title, f.Problem, status = "Error", "The index cannot be read: "+err.Error(),
				http.StatusInternalServerError
			var known *problem
			switch {
			case errors.As(err, &known):
				f.Problem, status = known.text, known.status
			case errors.Is(err, context.DeadlineExceeded):
				f.Problem, status = "The page takes too long.", http.StatusServiceUnavailable
			}
			if shown = problemTemplate; status == http.StatusServiceUnavailable {
				h.Set("Retry-After", "5")
			}
		}
		var out bytes.Buffer
		if err := shown().Execute(&out, f); err != nil {
			http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(status)
		w.Write(out.Bytes())
	}
}

// bounded calls content within the limits of requests.
func (p *Pages) bounded(
	w http.ResponseWriter, r *http.Request, content func(*http.Request) (any, error),
) (any, error) {
	if !p.requests.TryAcquire(1) {
		return nil, &problem{http.StatusServiceUnavailable,
			"Too many requests. Try again in a moment."}
	}
	defer p.requests.Release(1)
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, 3*maxPasted+64<<10) // percent-encoding triples the size
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, &problem{http.StatusRequestEntityTooLarge, "The text is too large."}
		}
		return nil, &problem{http.StatusBadRequest, "The form cannot be read."}
	}
	return content(r)
}

// pathTo returns a path with parameters, which are pairs of name and value.
func pathTo(path string, parameters ...string) string {
	values := make(url.Values)
	for i := 0; i < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	return path + "?" + values.Encode()
}
