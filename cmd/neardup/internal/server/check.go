package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/mediatype"
	"github.com/neardup/neardup/internal/wire"
)

// check answers POST /v1/check.
func (s *Server) check(a *answer, r *http.Request) error {
	return s.forEachDocument(a, r, true, func(items []*item) error { return s.checkItems(a, items) })
}

// forEachDocument reads the documents of a call and calls work with them, in order. If the URL has the parameter key, the
// body is one page. Otherwise its Content-Type decides: JSON, or lines of JSON, which is also the default.
func (s *Server) forEachDocument(a *answer, r *http.Request, stores bool, work func([]*item) error) error {
	parameters, err := parametersOf(r, "key", "scope", "kind")
	if err != nil {
		return err
	}
	if parameters == nil {
		switch media := mediatype.Of(r.Header.Get("Content-Type")); media {
		case "application/json":
			return s.forEachValue(a, r, stores, work)
		case "", wire.JSONLines, "application/jsonl", "application/jsonlines", "application/x-jsonlines", "application/octet-stream",
			"application/x-www-form-urlencoded": // curl sends the last one unless it is told
			return s.forEachWindow(a, r, stores, work)
		case "text/html", "application/xhtml+xml", "text/plain":
			return badCall("a body of type %s is one page: its URL is missing, as in ?key=https%%3A%%2F%%2Fexample.com%%2F; lines of JSON have the type %s", media, wire.JSONLines)
		default:
			return &callError{wire.ContentType, http.StatusUnsupportedMediaType,
				fmt.Sprintf("Content-Type is %.80q: want %s or application/json, or text/html or text/plain with ?key=", media, wire.JSONLines)}
		}
	}
	c := &claim{server: s}
	defer c.release()
	i, err := s.readPage(r, parameters, c)
	if err != nil {
		return err
	}
	a.Header().Set("Content-Type", "application/json")
	a.last = true
	return work([]*item{i})
}

// checkItems checks documents and answers them. Where it fails part of the way, those before are answered.
func (s *Server) checkItems(a *answer, items []*item) error {
	docs := make([]index.Document, 0, len(items))
	for _, i := range items {
		if i.isCompared() {
			docs = append(docs, i.document)
		}
	}
	var verdicts []neardup.Verdict
	var failed error
	if len(docs) > 0 {
		verdicts, failed = s.checkDocuments(docs)
	}
	out := a.lines()
	var line wire.Checked
	for _, i := range items {
		if i.malformed != nil {
			if err := out.add(i.malformed); err != nil {
				return out.end(err)
			}
			continue
		}
		if i.reason == "" && len(verdicts) == 0 {
			break
		}
		line = s.checked(i, verdicts)
		if err := out.add(&line); err != nil {
			return out.end(err)
		}
		if i.reason == "" {
			verdicts = verdicts[1:]
		}
	}
	return out.end(failed)
}

// checked returns the answer to an item: the first verdict, unless the item is skipped.
func (s *Server) checked(i *item, verdicts []neardup.Verdict) wire.Checked {
	v := neardup.Verdict{Status: neardup.Skipped, Reason: i.reason}
	if i.reason == "" {
		v = verdicts[0]
	}
	s.metrics.verdicts[v.Status].Inc()
	return wire.CheckedOf(i.key, &i.document.Fingerprint, &v)
}

// parametersOf returns the parameters of the URL of a call, or nil if it has none. Unknown and repeated ones are errors, and
// so are URLs that are not percent-encoded: what follows a & in them would silently be another parameter, a + be a
// space, and %2F be /.
func parametersOf(r *http.Request, known ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	const encode = "percent-encode URLs in parameters, as curl -G --data-urlencode does"
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if name, value, _ := strings.Cut(pair, "="); strings.Contains(value, "://") && strings.ContainsAny(value, "?%+") {
			return nil, badCall("the parameter %.40s is a URL that is not percent-encoded: %s", name, encode)
		}
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badCall("the URL is malformed: %v", err)
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return nil, badCall("unknown parameter %.40q, want %s; %s", name, strings.Join(known, ", "), encode)
		}
		if len(given) > 1 {
			return nil, badCall("the parameter %s is given %d times; %s", name, len(given), encode)
		}
	}
	return values, nil
}

// readPage reads the page that is the body of a call.
func (s *Server) readPage(r *http.Request, parameters url.Values, c *claim) (*item, error) {
	if !parameters.Has("key") {
		return nil, badCall("the parameter key is missing; it may be empty")
	}
	kind, err := wire.ParseKind(parameters.Get("kind"))
	if err != nil {
		return nil, badCall("%v", err)
	}
	i := &item{key: parameters.Get("key"), claim: c}
	body, err := readBody(r, c, int64(s.limits.PageBytes))
	if errors.Is(err, errOver) {
		size := "more"
		if r.ContentLength > 0 {
			size = fmt.Sprint(r.ContentLength, " bytes")
		}
		i.reason = fmt.Sprintf("too large: %s, limit %d", size, s.limits.PageBytes)
		return i, nil
	}
	if err != nil {
		return nil, err
	}
	p := neardup.Page{URL: i.key, Scope: parameters.Get("scope"), ContentType: r.Header.Get("Content-Type"), Kind: kind, Body: body}
	i.document, i.reason = s.analyze(p)
	if i.reason == "not text: application/x-www-form-urlencoded" { // of curl, unless it is told
		i.reason += ": give its Content-Type"
	}
	return i, nil
}

// maxBatches is the number of batches, and of queries, that are in the index at a time. Each takes memory for
// its verdicts or matches.
const maxBatches = 32

// checkDocuments returns the verdicts on documents. Verdicts that are returned with an error hold. It calls the
// index in a goroutine of its own: net/http recovers from panics, and a panic in the index must end the process.
func (s *Server) checkDocuments(docs []index.Document) (verdicts []neardup.Verdict, err error) {
	if len(docs) > 1 {
		s.batches.Acquire(context.Background(), 1)
		defer s.batches.Release(1)
	}
	done := make(chan struct{})
	go func() {
		verdicts, err = s.index.CheckDocuments(context.Background(), docs)
		close(done)
	}()
	<-done
	return verdicts, err
}
