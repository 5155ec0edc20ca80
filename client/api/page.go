// Package api defines what a crawler and an index exchange: pages, verdicts, and the JSON objects
// of the HTTP API of neardup serve (docs/reference/http.md). It links neither the index nor
// net/http.
//
// Packages neardup and client use its types under their own names.
package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

// Page is a page that a crawler has fetched.
type Page struct {
	// URL is the key of the page in the index; it may be any other name. A page without a URL is
	// only ever New, a Duplicate or Skipped.
	URL string

	// ContentType is the value of the HTTP header. It gives the kind and the charset of Body. If it
	// is empty or does not give them, Body does.
	ContentType string

	// Body is the content of the page, without a Content-Encoding.
	Body []byte

	// Scope partitions the pages: only pages of one scope are compared. An example is the host.
	Scope string

	// Kind is HTML or PlainText, if it is known. If it is 0, ContentType and Body give it.
	Kind page.Kind
}

// Status is the outcome of Check for a page. The zero Status is no verdict.
type Status uint8

const (
	New       Status = iota + 1 // no stored page matches; the page is stored
	Duplicate                   // another stored page matches; the page is not stored
	Unchanged                   // the URL was stored with an equal text: no word differs
	Changed                     // the URL was stored with a different text, which the page replaces
	Skipped                     // there is nothing to compare
)

var statusNames = [...]string{"no verdict", "new", "duplicate", "unchanged", "changed", "skipped"}

// String returns the name of the status: new, duplicate, unchanged, changed or skipped.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "status " + strconv.Itoa(int(s))
}

// MarshalText returns the name of the status.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the name of a status.
func (s *Status) UnmarshalText(text []byte) error {
	n := slices.Index(statusNames[:], string(text))
	if n < 0 {
		return fmt.Errorf("%.40q is not a status", text)
	}
	*s = Status(n)
	return nil
}

// Verdict is the outcome of Check for a page.
type Verdict struct {
	Status Status

	// Of is the nearest stored page for a Duplicate, and the earlier version of the page for
	// Unchanged and Changed.
	Of match.Match

	// Near reports whether Of is near enough for a Duplicate. It distinguishes a small change of a
	// page from different content. It is true for every Duplicate and Unchanged page.
	Near bool

	// Removed reports that the earlier version of the URL was removed from the index. The URL was
	// stored, its page has become a Duplicate of another page, and duplicates are not stored.
	Removed bool

	// Reason is why a page is Skipped: "no text", "not text: image/png",
	// "too large: 20971520 bytes, limit 16777216".
	Reason string
}

// NoText is the Reason for a page without a word, such as a page whose text a script makes.
const NoText = "no text"

// Checker is the interface of an index to a crawler. The index may be local or served.
type Checker interface {
	// Check stores a page unless another stored page matches, or there is nothing to compare.
	Check(context.Context, Page) (Verdict, error)

	// CheckBatch does what Check does for each page in turn. Verdicts that it returns with an error
	// hold.
	CheckBatch(context.Context, []Page) ([]Verdict, error)

	// CheckDocuments is CheckBatch for pages that are already analyzed.
	CheckDocuments(context.Context, []match.Document) ([]Verdict, error)

	// Query returns the stored documents that match, by (Distance, ID).
	Query(context.Context, match.Query) ([]match.Match, error)

	// Get returns the document that has a key.
	Get(ctx context.Context, key string) (d match.Document, found bool, err error)

	// Delete removes the documents that have these keys, and returns how many there were.
	Delete(ctx context.Context, keys ...string) (deleted int, err error)

	Close() error
}
