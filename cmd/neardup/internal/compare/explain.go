package compare

import (
	"context"
	"slices"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

// maxCandidates is the largest number of stored documents that Explain compares.
const maxCandidates = 20

// Explained is the verdict that a document would get, and the comparisons that explain it.
type Explained struct {
	api.Checked
	Candidates []*Result `json:"candidates" doc:"other stored documents of the scope within k bits, nearest first, at most 20: a is the document, b the stored one"`
}

// Explain returns the verdict that Check would return on a document, without storing the document,
// and compares the document with the nearest stored documents. If reason is not empty, the document
// would be skipped for this reason.
func Explain(
	ctx context.Context, x *neardup.Index, key string, d *index.Document, reason string,
	rule match.Rule,
) (*Explained, error) {
	e := &Explained{Candidates: []*Result{}}
	if reason != "" {
		e.Checked = wire.Checked(key, nil, &neardup.Verdict{Status: neardup.Skipped,
			Reason: reason})
		return e, nil
	}
	earlier, known, err := x.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	isOther := func(m index.Match) bool { return !known || m.ID != earlier.ID }
	matches, err := x.Query(ctx, index.Query{Signature: d.Signature(), Scope: d.Scope, Limit: 2})
	if err != nil {
		return nil, err
	}
	v := neardup.Verdict{Status: neardup.New}
	if n := slices.IndexFunc(matches, isOther); n >= 0 {
		v = neardup.Verdict{Status: neardup.Duplicate, Of: matches[n], Near: true, Removed: known}
	} else if known {
		of := index.Match{Document: earlier, Distance: earlier.Fingerprint.Distance(d.Fingerprint)}
		v = check.Verdict(rule, &index.Verdict{Status: index.Known, Document: *d, Of: of})
	}
	e.Checked = wire.Checked(key, &d.Fingerprint, &v)
	near := index.Query{Scope: d.Scope, Limit: maxCandidates + 1}
	near.Fingerprint = d.Fingerprint // without the rest of the signature, only k limits the matches
	if matches, err = x.Query(ctx, near); err != nil {
		return nil, err
	}
	for n := range matches {
		if isOther(matches[n]) && len(e.Candidates) < maxCandidates {
			e.Candidates = append(e.Candidates, Documents(Of(d), Of(&matches[n].Document), rule, 0))
		}
	}
	return e, nil
}
