// Package check converts pages to documents, and the verdicts of an index on documents to verdicts
// on pages. All implementations of neardup.Checker use it. Each page has a document or the reason
// of a skip. Verdicts are returned in the order of the pages.
package check

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

// DefaultMaxDistance is the default k of an index of pages. Pages have a shingle signature and a
// length, which must be near as well (docs/quality.md).
const DefaultMaxDistance = 7

// DefaultSigner returns the default Signer of an index of pages: of visible text.
func DefaultSigner() *page.Signer {
	s, err := page.NewSigner(page.Visible, fingerprint.Options{})
	if err != nil {
		panic(err) // the defaults are valid
	}
	return s
}

// Analyze returns the document of a page or, if the page cannot be compared, the reason of a
// Skipped verdict.
func Analyze(s *page.Signer, p api.Page) (d index.Document, reason string) {
	d = index.Document{Key: p.URL, Scope: p.Scope}
	if err := match.Validate(&d); err != nil {
		return index.Document{}, fmt.Sprintf("too large: URL of %d bytes, scope of %d",
			len(p.URL), len(p.Scope))
	}
	kind := p.Kind
	if kind == 0 {
		var err error
		if kind, err = page.KindOf(p.ContentType, p.Body); err != nil {
			return index.Document{}, err.Error()
		}
	}
	signature := s.SignKind(kind, p.ContentType, p.Body)
	if signature.Tokens == 0 {
		return index.Document{}, api.NoText
	}
	d.Fingerprint, d.Shingles, d.Digest, d.Tokens = signature.Fingerprint, signature.Shingles,
		signature.Digest, signature.Tokens
	return d, ""
}

// NoPages is the reason why a page is skipped if the index has no Signer.
const NoPages = "the index has no analyzer for pages"

// Page is like Analyze, but also returns a reason if the page is larger than maxBody or s is nil.
func Page(s *page.Signer, maxBody int, p api.Page) (d index.Document, reason string) {
	switch n := len(p.Body); {
	case n > maxBody:
		return d, fmt.Sprintf("too large: %d bytes, limit %d", n, maxBody)
	case s == nil:
		return d, NoPages
	}
	return Analyze(s, p)
}

// Document returns the document of a request: with the fingerprint of the request or, if it has
// none, with the signature that analyze computes from its page. It returns a reason instead if the
// document must be skipped. If texts is set, this includes a document without text.
func Document(
	l *api.Document, texts bool, analyze func(api.Page) (index.Document, string),
) (d index.Document, reason string) {
	if l.Fingerprint != nil {
		d = wire.Document(l)
		if err := match.Validate(&d); err != nil {
			return d, err.Error()
		}
		if texts && d.Signature() == (fingerprint.Signature{}) {
			return d, api.NoText
		}
		return d, ""
	}
	return analyze(wire.Page(l))
}

// Pages implements CheckBatch with a CheckDocuments method. It analyzes pages on all cores. Pages
// that cannot be compared, or that are larger than maxBody, are Skipped with a reason.
func Pages(
	ctx context.Context, s *page.Signer, maxBody int, pages []api.Page, check Documents,
) ([]api.Verdict, error) {
	docs, reasons := make([]index.Document, len(pages)), make([]string, len(pages))
	Parallel(len(pages), func(i int) {
		if ctx.Err() == nil {
			docs[i], reasons[i] = Page(s, maxBody, pages[i])
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return Batch(ctx, docs, reasons, check)
}

// Parallel calls do with each number from 0 to n-1, on all cores. If do panics, so does Parallel. A
// server can then recover, and only one request fails.
func Parallel(n int, do func(i int)) {
	var next atomic.Int64
	var panicked atomic.Pointer[string]
	work := func() {
		defer func() {
			if cause := recover(); cause != nil {
				text := fmt.Sprintf("%v\n\n%s", cause, debug.Stack())
				panicked.Store(&text)
			}
		}()
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(i)
		}
	}
	var others sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if text := panicked.Load(); text != nil {
		panic(*text)
	}
}

// Documents is a CheckDocuments method.
type Documents func(context.Context, []index.Document) ([]api.Verdict, error)

// Batch returns the verdicts of check, and Skipped for each document that has a reason.
func Batch(
	ctx context.Context, docs []index.Document, reasons []string, check Documents,
) ([]api.Verdict, error) {
	if !slices.ContainsFunc(reasons, func(reason string) bool { return reason != "" }) {
		return check(ctx, docs)
	}
	var compared []index.Document
	for i := range docs {
		if reasons[i] == "" {
			compared = append(compared, docs[i])
		}
	}
	found, err := check(ctx, compared) // also without documents, since the index may be closed
	verdicts := make([]api.Verdict, 0, len(docs))
	for _, reason := range reasons {
		switch {
		case reason != "" && (err == nil || len(found) > 0):
			verdicts = append(verdicts, api.Verdict{Status: api.Skipped, Reason: reason})
		case len(found) == 0:
			return verdicts, err
		default:
			verdicts, found = append(verdicts, found[0]), found[1:]
		}
	}
	return verdicts, err
}

// Verdict returns the verdict on a page for an index's verdict on its document. The rule is the
// rule of the index. A known document is Unchanged if its Signature is equal to the stored one.
// Every Analyzer computes a Digest of the whole text, which is part of the Signature. So a page is
// Unchanged only if its text is. If neither document has a Digest, the other fields decide. If only
// one has a Digest, the document is Changed.
func Verdict(rule match.Rule, found *index.Verdict) api.Verdict {
	now, of := &found.Document, &found.Of
	switch {
	case found.Status == index.New:
		return api.Verdict{Status: api.New}
	case found.Status == index.Duplicate:
		return api.Verdict{Status: api.Duplicate, Of: *of, Near: true, Removed: found.Removed}
	case now.Signature() == of.Signature():
		return api.Verdict{Status: api.Unchanged, Of: *of, Near: true}
	}
	return api.Verdict{Status: api.Changed, Of: *of, Near: rule.Matches(now, &of.Document)}
}
