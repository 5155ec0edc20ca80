package neardup

import (
	"context"
	"fmt"
	"runtime"

	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
	"golang.org/x/sync/errgroup"
)

// Page is what a crawler has fetched: its URL (or any other name), ContentType (the value of the
// HTTP header) and Body, without a Content-Encoding; the Scope that alone it is compared in, a host
// for instance; and its Kind where that is known.
type Page = wire.Page

// Analyze makes of a page what an index stores of it and compares. The reason, where it is not
// empty, says why there is nothing to compare; it is that of a Skipped Verdict.
func Analyze(s *page.Signer, p Page) (d index.Document, reason string) {
	d = index.Document{Key: p.URL, Scope: p.Scope}
	if err := match.Validate(&d); err != nil {
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
const NoText = wire.NoText

// Status is what Check found out about a page. The zero Status is no verdict.
type Status = wire.Status

const (
	New       = wire.New       // nothing like it was stored; it is now
	Duplicate = wire.Duplicate // another page that matches is stored; this one is not
	Unchanged = wire.Unchanged // this URL was stored, with the same text
	Changed   = wire.Changed   // this URL was stored, with another text, which this one replaces
	Skipped   = wire.Skipped   // there is nothing to compare
)

// Verdict is what Check says of a page: its Status; Of, the nearest stored page of a Duplicate or
// the earlier self of one that is Unchanged or Changed; whether that is Near; and the Reason
// why it is Skipped.
type Verdict = wire.Verdict

// Checker is what a crawler asks of an index: an [Index] here, one that is
// served, through package client, or one on a Redis Cluster, through distributed/redis.
type Checker = wire.Checker

var _ Checker = (*Index)(nil)

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
	return CheckPages(ctx, x.signer, x.maxBody, pages, x.CheckDocuments)
}

// CheckPages is CheckBatch by any Checker's CheckDocuments: it analyzes pages on all cores, and says of those
// that cannot be compared why they are Skipped. maxBody 0: DefaultMaxBody.
func CheckPages(ctx context.Context, s *page.Signer, maxBody int, pages []Page, check func(context.Context, []index.Document) ([]Verdict, error)) ([]Verdict, error) {
	if maxBody <= 0 {
		maxBody = DefaultMaxBody
	}
	docs, reasons := make([]index.Document, len(pages)), make([]string, len(pages))
	var analysis errgroup.Group
	analysis.SetLimit(runtime.GOMAXPROCS(0))
	for i := range pages {
		analysis.Go(func() error {
			if n := len(pages[i].Body); n > maxBody {
				reasons[i] = fmt.Sprintf("too large: %d bytes, limit %d", n, maxBody)
			} else {
				docs[i], reasons[i] = Analyze(s, pages[i])
			}
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
	found, err := check(ctx, compared) // also where there are none: the index may be closed
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

// CheckDocuments is CheckBatch of pages that are analyzed already.
func (x *Index) CheckDocuments(ctx context.Context, docs []index.Document) ([]Verdict, error) {
	found, err := x.CheckAndAddBatch(ctx, docs)
	verdicts := make([]Verdict, len(found))
	for i := range found {
		verdicts[i] = VerdictOf(x.rule, &found[i])
	}
	return verdicts, err
}

// VerdictOf says of a page what an index has found out about its document; rule is that of the index.
func VerdictOf(rule match.Rule, found *index.Verdict) Verdict {
	now, of := &found.Document, &found.Of
	switch {
	case found.Status == index.New:
		return Verdict{Status: New}
	case found.Status == index.Duplicate:
		return Verdict{Status: Duplicate, Of: *of, Near: true}
	case now.Signature() == of.Signature():
		return Verdict{Status: Unchanged, Of: *of, Near: true}
	}
	return Verdict{Status: Changed, Of: *of, Near: rule.Matches(now, &of.Document)}
}
