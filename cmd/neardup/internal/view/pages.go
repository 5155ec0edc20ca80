package view

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"iter"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
)

// Source is the index that pages show; *neardup.Index is one.
type Source interface {
	Stats() index.Stats
	Get(ctx context.Context, key string) (d index.Document, found bool, err error)
	Query(ctx context.Context, q index.Query) ([]index.Match, error)
	QueryBatch(ctx context.Context, queries []index.Query) iter.Seq2[index.Answer, error]
	Documents(ctx context.Context) iter.Seq2[index.Document, error]
	Duplicates(ctx context.Context, ids ...uint64) ([]uint64, error)
	Signer() *page.Signer // nil: the index is of fingerprints
	Compaction() compaction.BackgroundStats
}

// Texts gives the words of documents, nil of those that it does not have.
type Texts interface {
	Words(ctx context.Context, d *index.Document) ([]string, error)
	Documents() int // whose words there are
}

// Options of New.
type Options struct {
	Rule   func() match.Rule // returns by what documents are compared at the time
	Counts func() Counts     // what the server has counted; nil: nothing
	Texts  Texts             // nil: none
}

// Pages answers GET and POST at "/" and below. What a request takes is bounded, in memory and time, and
// so is how many there are at once; more are told to come again.
type Pages struct {
	source  Source
	opts    Options
	history history
	mux     *http.ServeMux
	room    chan struct{} // for requests
	scan    chan struct{} // for those that read many documents
	texts   chan struct{} // for those that read a text, which takes several times its size meanwhile
}

const (
	maxRequests = 16
	requestTime = 20 * time.Second
	maxPasted   = 4 << 20 // bytes of a text
)

// Patterns are the patterns of http.ServeMux that Pages answers.
var Patterns = []string{"GET /{$}", "GET /search", "POST /search", "GET /compare", "GET /groups"}

// New makes the pages of an index.
func New(source Source, o Options) *Pages {
	p := &Pages{source: source, opts: o, mux: http.NewServeMux(), room: make(chan struct{}, maxRequests), scan: make(chan struct{}, 1), texts: make(chan struct{}, runtime.GOMAXPROCS(0))}
	p.mux.HandleFunc("GET /{$}", p.show(overviewTemplate, p.overview))
	p.mux.HandleFunc("GET /search", p.show(searchTemplate, p.search))
	p.mux.HandleFunc("POST /search", p.show(searchTemplate, p.search))
	p.mux.HandleFunc("GET /compare", p.show(compareTemplate, p.compare))
	p.mux.HandleFunc("GET /groups", p.show(groupsTemplate, p.groups))
	p.mux.HandleFunc("/", p.show(problemTemplate, func(*http.Request) (any, error) { return nil, &problem{http.StatusNotFound, "There is no such page."} }))
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

// problem is what is wrong with a request, or with the index.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

// frame is what is around each page.
type frame struct {
	Title, Policy, Current string
	Nav                    []link
	Problem                string
	Page                   any
}

type link struct{ Path, Name string }

var navigation = []link{{"/", "Overview"}, {"/search", "Search"}, {"/compare", "Compare"}, {"/groups", "Groups"}}

// show answers with a page: whole, or none.
func (p *Pages) show(page func() *template.Template, make func(*http.Request) (any, error)) http.HandlerFunc {
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
		content, err := p.bounded(w, r, make)
		if f.Page = content; err != nil {
			f.Title, f.Problem, status = "Not possible", "The index cannot be read now: "+err.Error(), http.StatusInternalServerError
			var known *problem
			switch {
			case errors.As(err, &known):
				f.Problem, status = known.text, known.status
			case errors.Is(err, context.DeadlineExceeded):
				f.Problem, status = "It takes too long.", http.StatusServiceUnavailable
			}
			if shown = problemTemplate; status == http.StatusServiceUnavailable {
				h.Set("Retry-After", "5")
			}
		}
		var out bytes.Buffer
		if err := shown().Execute(&out, f); err != nil {
			http.Error(w, "the page cannot be made", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(status)
		w.Write(out.Bytes())
	}
}

func (p *Pages) bounded(w http.ResponseWriter, r *http.Request, make func(*http.Request) (any, error)) (any, error) {
	select {
	case p.room <- struct{}{}:
		defer func() { <-p.room }()
	default:
		return nil, &problem{http.StatusServiceUnavailable, "Too many are looking at once. Try again in a moment."}
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, 3*maxPasted+64<<10) // a form triples what it escapes
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, &problem{http.StatusRequestEntityTooLarge, "The text is too large."}
		}
		return nil, &problem{http.StatusBadRequest, "The form cannot be read."}
	}
	return make(r)
}

// reading waits until a text may be read. end must follow.
func (p *Pages) reading(ctx context.Context) (end func(), err error) {
	select {
	case p.texts <- struct{}{}:
		return func() { <-p.texts }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pathTo is that of a page with parameters, in pairs.
func pathTo(path string, parameters ...string) string {
	values := make(url.Values)
	for i := 0; i < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	return path + "?" + values.Encode()
}
