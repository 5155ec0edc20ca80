// Package wire is what an index of pages and those who ask it have in common, whether they share
// a process or a connection: pages, what is said of them, and the lines of JSON and the errors that
// carry both over HTTP (docs/api.md, "serve"). It opens no index and links no store.
//
// Packages neardup and client give its types the names that callers use.
package wire

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

// Page is what a crawler has fetched.
type Page struct {
	// URL is the name under which the page is stored; it may be any other name. A page
	// without one is only ever New, a Duplicate or Skipped.
	URL string

	// ContentType is the value of the HTTP header. It says whether Body is HTML or plain text,
	// and its charset; where it is empty or says nothing, Body does.
	ContentType string

	// Body is the page as it came, but without a Content-Encoding.
	Body []byte

	// Scope sets pages apart: only those of one scope are compared. A host, for instance.
	Scope string

	// Kind is HTML or PlainText where that is known. 0: ContentType and Body say it.
	Kind page.Kind
}

// Status is what Check found out about a page. The zero Status is no verdict.
type Status uint8

const (
	New       Status = iota + 1 // nothing like it was stored; it is now
	Duplicate                   // another page that matches is stored; this one is not
	Unchanged                   // this URL was stored with an equal text: no word differs
	Changed                     // this URL was stored with a different text, which this one replaces
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

// MarshalText gives the name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText undoes MarshalText.
func (s *Status) UnmarshalText(text []byte) error {
	n := slices.Index(statusNames[:], string(text))
	if n < 0 {
		return fmt.Errorf("%.40q is no status", text)
	}
	*s = Status(n)
	return nil
}

// Verdict is what Check says of a page.
type Verdict struct {
	Status Status

	// Of is the nearest stored page of a Duplicate, with its Key and the Distance of the
	// fingerprints, and the earlier self of a page that is Unchanged or Changed.
	Of match.Match

	// Near tells a page that Changed a little from one that is another page now: whether Of
	// is near enough for a Duplicate. It is true of each that is a Duplicate or Unchanged.
	// What a page is compared with is its last visit; many small changes are none that is not Near.
	Near bool

	// Removed reports that the earlier version of the URL was removed from the index. The URL was
	// stored, its page has become a Duplicate of another page, and duplicates are not stored.
	Removed bool

	// Reason is why a page is Skipped: "no text", "not text: image/png",
	// "too large: 20971520 bytes, limit 16777216".
	Reason string
}

// NoText is the reason why a page without a word is Skipped, as one whose text a script makes.
const NoText = "no text"

// Checker is what a crawler asks of an index, which may be its own or a served one.
type Checker interface {
	// Check stores a page unless another page that matches it is stored, or there is
	// nothing to compare.
	Check(context.Context, Page) (Verdict, error)

	// CheckBatch is Check of each page in turn. Verdicts that come with an error hold.
	CheckBatch(context.Context, []Page) ([]Verdict, error)

	// CheckDocuments is CheckBatch of pages that are analyzed already.
	CheckDocuments(context.Context, []match.Document) ([]Verdict, error)

	// Query returns the stored documents that match, by (Distance, ID).
	Query(context.Context, match.Query) ([]match.Match, error)

	// Get returns the document that has a key.
	Get(ctx context.Context, key string) (d match.Document, found bool, err error)

	// Delete removes the documents that have these keys and returns how many there were.
	Delete(ctx context.Context, keys ...string) (deleted int, err error)

	Close() error
}
