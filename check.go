package neardup

import (
	"context"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
)

// Page is a page that a crawler has fetched. Its fields:
//
//	URL         string    // or another key. "": the verdict is New, Duplicate or Skipped
//	ContentType string    // the value of the HTTP header. "": the Body determines it
//	Body        []byte    // as received, without a Content-Encoding
//	Scope       string    // only pages of one scope are compared, for example of one host
//	Kind        page.Kind // page.HTML or page.PlainText. 0: ContentType and Body determine it
type Page = api.Page

// Status is the result of Check for a page. The zero Status is not a verdict.
type Status = api.Status

const (
	New       = api.New       // no matching page was stored; this one is now
	Duplicate = api.Duplicate // another page that matches is stored; this one is not
	Unchanged = api.Unchanged // this URL was stored with an equal text: no word differs
	Changed   = api.Changed   // this URL was stored with a different text, which this one replaces
	Skipped   = api.Skipped   // there is nothing to compare
)

// Verdict is the answer of Check for a page. Its fields:
//
//	Status  Status
//	Of      index.Match // nearest matching page; for Unchanged and Changed, the earlier version
//	Near    bool        // Of is near enough for a Duplicate: the change is small
//	Removed bool        // for a Duplicate: the earlier version of its URL was removed
//	Reason  string      // why the page is Skipped, such as "no text" or "not text: image/png"
type Verdict = api.Verdict

// Checker is the interface of an index for a crawler. Its implementations are [Index], the client
// of a server (package client), and an index on a Redis Cluster (distributed/redis).
type Checker interface {
	// Check stores a page unless another stored page matches, or there is nothing to compare.
	Check(context.Context, Page) (Verdict, error)

	// CheckBatch calls Check for each page in order. Verdicts that it returns with an error are
	// valid.
	CheckBatch(context.Context, []Page) ([]Verdict, error)

	// CheckDocuments is CheckBatch for pages that are already analyzed.
	CheckDocuments(context.Context, []index.Document) ([]Verdict, error)

	// Query returns the stored documents that match, ordered by Distance, then ID.
	Query(context.Context, index.Query) ([]index.Match, error)

	// Get returns the document that has a key.
	Get(ctx context.Context, key string) (d index.Document, found bool, err error)

	// Delete removes the documents with the given keys, and returns the number of removed
	// documents.
	Delete(ctx context.Context, keys ...string) (deleted int, err error)

	Close() error
}

var _ Checker = (*Index)(nil)

// Check stores a page unless a matching page is stored, or the page has nothing to compare. A page
// of a known URL replaces the earlier version of the page. If the page has become a Duplicate of
// another page, the earlier version is removed, and Verdict.Removed says so. If the page is
// Skipped, the earlier version stays.
//
// A page is Unchanged only if its text has the same words in the same order as the stored text.
// White space, punctuation, markup, case and Unicode normal form are ignored.
//
// Two pages match by the rule of index.CheckAndAdd, which has three conditions. Their fingerprints
// are within k bits. Their fingerprints and shingle signatures together are within a limit that
// depends on the length. Neither page has more than 1.3 times as many words as the other. For pages
// of one site, index.Options.SiteTexts adds a condition.
//
// Check returns the errors of index.CheckAndAdd, and index.ErrMismatch if the index has no Signer.
func (x *Index) Check(ctx context.Context, p Page) (Verdict, error) {
	verdicts, err := x.CheckBatch(ctx, []Page{p})
	if err != nil {
		return Verdict{}, err
	}
	return verdicts[0], nil
}

// CheckBatch calls Check for each page in order, on all cores and with few flushes of the disk.
// If it fails partway, it returns the verdicts on the earlier pages with the error. These
// verdicts are valid.
func (x *Index) CheckBatch(ctx context.Context, pages []Page) ([]Verdict, error) {
	if x.unsigned != nil {
		return nil, x.unsigned
	}
	return check.Pages(ctx, x.signer, x.maxBody, pages, x.CheckDocuments)
}

// CheckDocuments is CheckBatch for pages that are already analyzed. It also returns
// index.ErrTooLarge and index.ErrNoText, and does not need a Signer.
func (x *Index) CheckDocuments(ctx context.Context, docs []index.Document) ([]Verdict, error) {
	found, err := x.CheckAndAddBatch(ctx, docs)
	verdicts := make([]Verdict, len(found))
	for i := range found {
		verdicts[i] = check.Verdict(x.rule, &found[i])
	}
	return verdicts, err
}
