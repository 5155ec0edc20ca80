package neardup

import (
	"context"
	"fmt"
	"runtime"
	"strconv"

	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"golang.org/x/sync/errgroup"
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

// Analyze makes of a page what an index stores of it and compares. The reason, where it is not
// empty, says why there is nothing to compare; it is that of a Skipped Verdict.
func Analyze(s *page.Signer, p Page) (d index.Document, reason string) {
	d = index.Document{Key: p.URL, Scope: p.Scope}
	if err := index.Validate(&d); err != nil {
		return index.Document{}, fmt.Sprintf("too large: URL of %d bytes, scope of %d", len(p.URL), len(p.Scope))
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
		return index.Document{}, NoText
	}
	d.Fingerprint, d.Shingle, d.Tokens = signature.Fingerprint, signature.Shingle, signature.Tokens
	return d, ""
}

// NoText is the reason why a page without a word is Skipped, as one whose text a script makes.
const NoText = "no text"

// Status is what Check found out about a page. The zero Status is no verdict.
type Status uint8

const (
	New       Status = iota + 1 // nothing like it was stored; it is now
	Duplicate                   // another page that matches is stored; this one is not
	Unchanged                   // this URL was stored, with the same text
	Changed                     // this URL was stored, with another text, which this one replaces
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

// Verdict is what Check says of a page.
type Verdict struct {
	Status Status

	// Of is the nearest stored page of a Duplicate, with its Key and the Distance of the
	// fingerprints, and the earlier self of a page that is Unchanged or Changed.
	Of index.Match

	// Near tells a page that Changed a little from one that is another page now: whether Of
	// is near enough for a Duplicate. It is true of each that is a Duplicate or Unchanged.
	// What a page is compared with is its last visit; many small changes are none that is not Near.
	Near bool

	// Reason is why a page is Skipped: "no text", "not text: image/png",
	// "too large: 20971520 bytes, limit 16777216".
	Reason string
}

// Check stores a page unless another page that matches it is stored, or there is nothing to
// compare. A page of a known URL replaces its earlier self; where it has become a
// Duplicate of another page, the earlier self is gone; where it is Skipped, that stays.
//
// Two pages match as index.CheckAndAdd says: their fingerprints are within k bits, both
// fingerprints together within 13 (more for texts of fewer than 200 words), and neither has more
// than 1.3 times as many words as the other. An index of an older analyzer has limits of its own.
func (x *Index) Check(ctx context.Context, p Page) (Verdict, error) {
	verdicts, err := x.CheckBatch(ctx, []Page{p})
	if err != nil {
		return Verdict{}, err
	}
	return verdicts[0], nil
}

// CheckBatch does what Check would do for each page in turn, on all cores and with few flushes of
// the disk. When it fails part of the way, the verdicts on the pages before come with the error,
// and hold.
func (x *Index) CheckBatch(ctx context.Context, pages []Page) ([]Verdict, error) {
	if x.signer == nil {
		return nil, x.recordedSigner()
	}
	docs, reasons := make([]index.Document, len(pages)), make([]string, len(pages))
	var analysis errgroup.Group
	analysis.SetLimit(runtime.GOMAXPROCS(0))
	for i := range pages {
		analysis.Go(func() error {
			docs[i], reasons[i] = x.analyze(&pages[i])
			return ctx.Err()
		})
	}
	if err := analysis.Wait(); err != nil {
		return nil, err
	}
	var compared []index.Document
	for i := range docs {
		if reasons[i] == "" {
			compared = append(compared, docs[i])
		}
	}
	found, err := x.CheckDocuments(ctx, compared) // also where there are none: the index may be closed
	verdicts := make([]Verdict, 0, len(pages))
	for _, reason := range reasons {
		switch {
		case reason != "" && (err == nil || len(found) > 0):
			verdicts = append(verdicts, Verdict{Status: Skipped, Reason: reason})
		case len(found) == 0:
			return verdicts, err
		default:
			verdicts, found = append(verdicts, found[0]), found[1:]
		}
	}
	return verdicts, err
}

func (x *Index) analyze(p *Page) (d index.Document, reason string) {
	if len(p.Body) > x.maxBody {
		return d, fmt.Sprintf("too large: %d bytes, limit %d", len(p.Body), x.maxBody)
	}
	return Analyze(x.signer, *p)
}

// CheckDocuments is CheckBatch of pages that are analyzed already.
func (x *Index) CheckDocuments(ctx context.Context, docs []index.Document) ([]Verdict, error) {
	found, err := x.CheckAndAddBatch(ctx, docs)
	verdicts := make([]Verdict, len(found))
	for i := range found {
		verdicts[i] = x.verdict(&found[i])
	}
	return verdicts, err
}

func (x *Index) verdict(found *index.Verdict) Verdict {
	now, of := &found.Document, &found.Of
	switch {
	case found.Status == index.New:
		return Verdict{Status: New}
	case found.Status == index.Duplicate:
		return Verdict{Status: Duplicate, Of: *of, Near: true}
	case now.Signature() == of.Signature():
		return Verdict{Status: Unchanged, Of: *of, Near: true}
	}
	return Verdict{Status: Changed, Of: *of, Near: x.rule.Matches(now, &of.Document)}
}
