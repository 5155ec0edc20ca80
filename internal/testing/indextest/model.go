// Package indextest has a model of an index, for tests of the index and of its callers. It defines
// in a few lines the answer of every call in a sequence of calls.
package indextest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/verify"
)

// Rule determines which documents match and which duplicates are stored. Its fields are fields of
// index.Options, with the defaults filled in.
type Rule struct {
	MaxDistance        int
	MaxShingleDistance int // negative: Shingles are not compared
	ShortAllowance     int
	MaxLengthRatio     float64 // negative: lengths are not compared
	KeepDuplicates     bool
	SiteTexts          int // negative: sites are ignored
}

// RuleOf returns the rule of an index with these options and this MaxDistance.
func RuleOf(o index.Options, maxDistance int) Rule {
	return Rule{
		maxDistance, cmp.Or(o.MaxShingleDistance, match.MaxShingleDistance),
		max(0, cmp.Or(o.ShortAllowance, match.ShortAllowance)),
		cmp.Or(o.MaxLengthRatio, match.MaxLengthRatio), o.KeepDuplicates,
		cmp.Or(o.SiteTexts, match.SiteTexts),
	}
}

// Within returns the rule with MaxDistance k.
func (r Rule) Within(k int) Rule {
	r.MaxDistance = k
	return r
}

// Match returns the distance of two documents, and whether they match.
func (r Rule) Match(a, b *index.Document) (distance int, matches bool) {
	distance = a.Fingerprint.Distance(b.Fingerprint)
	if distance > r.MaxDistance || a.Scope != b.Scope {
		return distance, false
	}
	limit, tokens := r.MaxShingleDistance, max(a.Tokens, b.Tokens)
	if tokens > 0 && r.ShortAllowance > 0 {
		limit = max(min(limit, tokens/7), (limit+r.ShortAllowance)*(140-tokens)/140)
	}
	if r.MaxShingleDistance >= 0 && !a.Shingles.IsZero() && !b.Shingles.IsZero() &&
		distance+a.Shingles.Distance(b.Shingles) > limit {
		return distance, false
	}
	shorter, longer := float64(min(a.Tokens, b.Tokens)), float64(max(a.Tokens, b.Tokens))
	return distance, r.MaxLengthRatio < 0 || shorter == 0 || longer <= r.MaxLengthRatio*shorter
}

// Documents are the documents of an index, by ID. They are never changed in place.
type Documents []index.Document

// Key returns the document that has a key.
func (docs Documents) Key(key string) (index.Document, bool) {
	i := slices.IndexFunc(docs, func(d index.Document) bool { return key != "" && d.Key == key })
	if i < 0 {
		return index.Document{}, false
	}
	return docs[i], true
}

// Has reports whether one of the documents has the ID.
func (docs Documents) Has(id uint64) bool {
	return slices.ContainsFunc(docs, func(d index.Document) bool { return d.ID == id })
}

// Without returns the documents for which gone returns false.
func (docs Documents) Without(gone func(*index.Document) bool) Documents {
	if !slices.ContainsFunc(docs, func(d index.Document) bool { return gone(&d) }) {
		return docs
	}
	return slices.DeleteFunc(slices.Clone(docs), func(d index.Document) bool { return gone(&d) })
}

// WithoutKeys returns the documents that have none of the keys.
func (docs Documents) WithoutKeys(keys ...string) Documents {
	return docs.Without(func(d *index.Document) bool {
		return d.Key != "" && slices.Contains(keys, d.Key)
	})
}

// Near returns the documents that match like, by (distance, ID). If limit is not 0, it returns at
// most limit documents.
func (docs Documents) Near(r Rule, like *index.Document, limit int) []index.Match {
	var matches []index.Match
	for i := range docs {
		if distance, matching := r.Match(like, &docs[i]); matching {
			matches = append(matches, index.Match{Document: docs[i], Distance: distance})
		}
	}
	slices.SortStableFunc(matches, func(a, b index.Match) int {
		return cmp.Compare(a.Distance, b.Distance)
	})
	if limit > 0 {
		matches = matches[:min(limit, len(matches))]
	}
	return matches
}

// Bare reports whether a stored document has no record. A bulk load stores a document that has
// only a fingerprint without a record, and so without a time.
func Bare(d *index.Document) bool { return d.Added.IsZero() }

// keepsID reports whether a new version of a document keeps the ID of the earlier one.
func keepsID(old, d *index.Document) bool {
	return old.Fingerprint == d.Fingerprint && old.Scope == d.Scope && old.Shingles == d.Shingles
}

// Model is the expected content of an index after a sequence of calls, by the definition of each
// call. Each call scans all documents.
type Model struct {
	Rule   Rule
	Docs   Documents
	NextID uint64
	Now    time.Time // time at which documents are added, in whole seconds, UTC

	// counts of CheckAndAdd by ID, shared by clones; nil: nothing is counted
	Counts map[uint64]*Count
}

// NewModel returns the model of an empty index.
func NewModel(rule Rule) *Model { return &Model{Rule: rule, NextID: 1} }

// Clone returns an independent copy. It copies no documents.
func (m *Model) Clone() *Model {
	c := *m
	c.Docs = slices.Clip(m.Docs) // appending to m or c does not change the other
	return &c
}

// store stores a document in place of the earlier version with its key. It returns the document
// with its ID and time.
func (m *Model) store(d index.Document) index.Document {
	d.Added = m.Now
	if old, known := m.Docs.Key(d.Key); known && keepsID(&old, &d) {
		d.ID = old.ID
		m.Docs = slices.Clone(m.Docs)
		m.Docs[slices.Index(m.Docs, old)] = d
		return d
	}
	d.ID = m.NextID
	m.NextID++
	m.Docs = append(m.Docs.WithoutKeys(d.Key), d)
	return d
}

// Add is Index.Add: of several documents with the same key, only the last is stored. It sets the
// IDs and times in docs.
func (m *Model) Add(docs ...index.Document) {
	last := LastOfKeys(docs)
	for i, d := range docs {
		if d.Key == "" || last[d.Key] == i {
			docs[i] = m.store(d)
		}
	}
	for i, d := range docs {
		if d.Key != "" {
			docs[i].ID, docs[i].Added = docs[last[d.Key]].ID, docs[last[d.Key]].Added
		}
	}
}

// LastOfKeys returns the position of the last document with each key.
func LastOfKeys(docs []index.Document) map[string]int {
	last := make(map[string]int)
	for i := range docs {
		last[docs[i].Key] = i
	}
	return last
}

// CheckAndAdd is Index.CheckAndAdd.
func (m *Model) CheckAndAdd(d index.Document) index.Verdict {
	v := index.Verdict{Status: index.New, Document: d}
	old, known := m.Docs.Key(d.Key)
	if known {
		v.Status, v.Of = index.Known, index.Match{Document: old,
			Distance: old.Fingerprint.Distance(d.Fingerprint)}
	}
	others := m.Docs.WithoutKeys(d.Key)
	if matches := m.matching(others, &d); len(matches) > 0 {
		v.Status, v.Of = index.Duplicate, matches[0]
		m.count(&d, &v.Of.Document)
	}
	v.Document.ID, v.Document.Added = 0, time.Time{}
	if v.Status != index.Duplicate || m.Rule.KeepDuplicates {
		v.Document = m.store(d)
	} else {
		m.Docs, v.Removed = others, known
	}
	return v
}

// Delete removes the documents with the given keys. It returns their number.
func (m *Model) Delete(keys ...string) int { return m.keep(m.Docs.WithoutKeys(keys...)) }

// DeleteBefore removes the documents that were added before t. It returns their number.
func (m *Model) DeleteBefore(t time.Time) int {
	return m.keep(m.Docs.Without(func(d *index.Document) bool {
		return !Bare(d) && d.Added.Before(t)
	}))
}

func (m *Model) keep(left Documents) (removed int) {
	removed = len(m.Docs) - len(left)
	m.Docs = left
	return removed
}

// Bare returns the number of documents without a record.
func (m *Model) Bare() (n uint64) {
	for i := range m.Docs {
		if Bare(&m.Docs[i]) {
			n++
		}
	}
	return n
}

// mostKeys bounds the number of keys that Compare looks up.
const mostKeys = 200

// Compare returns an error that describes a difference between the index and the model: in the
// counters, the documents or the results of Get. It returns nil if there is none.
func (m *Model) Compare(x *index.Index) error {
	ctx := context.Background()
	got, err := AllDocuments(x)
	if err != nil {
		return err
	}
	if diff := Difference(got, m.Docs); diff != "" {
		return fmt.Errorf("documents: %s", diff)
	}
	if s := x.Stats(); s.Documents != uint64(len(m.Docs)) || s.Bare != m.Bare() ||
		s.NextID != m.NextID {
		return fmt.Errorf("%d documents, %d of them bare, and next ID %d, not %d, %d and %d",
			s.Documents, s.Bare, s.NextID, len(m.Docs), m.Bare(), m.NextID)
	}
	for i := 0; i < len(m.Docs); i += 1 + len(m.Docs)/mostKeys {
		d := m.Docs[i]
		if d.Key == "" {
			continue
		}
		if got, found, err := x.Get(ctx, d.Key); err != nil || !found || got != d {
			return fmt.Errorf("key %q: %+v, %t; want %+v: %w", d.Key, got, found, d, err)
		}
	}
	return nil
}

// QueryOf returns a query within k bits of a document, with its scope, Shingles and length.
func QueryOf(like *index.Document, k, limit int) index.Query {
	if k == 0 {
		k = index.Exact
	}
	return index.Query{Signature: like.Signature(), Scope: like.Scope, MaxDistance: k, Limit: limit}
}

// Query returns an error if the answer of an index to QueryOf differs from the model.
func (m *Model) Query(x *index.Index, like index.Document, k, limit int) error {
	got, err := x.Query(context.Background(), QueryOf(&like, k, limit))
	diff := Difference(got, m.Docs.Near(m.Rule.Within(k), &like, limit))
	if err != nil || diff != "" {
		return fmt.Errorf("plan %v: query %+v within %d, limit %d: %s: %w", x.Plan(), like, k,
			limit, diff, err)
	}
	return nil
}

// AllDocuments returns the documents of an index by ID.
func AllDocuments(x *index.Index) (docs Documents, err error) {
	for d, err := range x.Documents(context.Background()) {
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	slices.SortFunc(docs, func(a, b index.Document) int { return cmp.Compare(a.ID, b.ID) })
	return docs, nil
}

// Difference describes the first difference of two lists. It returns "" if they are equal.
func Difference[T comparable](got, want []T) string {
	if slices.Equal(got, want) {
		return ""
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("%d, not %d: number %d is %+v, not %+v", len(got), len(want), i,
		got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
}

// Problems returns the problems that Verify reports as an error, or nil.
func Problems(x *index.Index) error {
	for p := range x.Verify(context.Background(), verify.Options{}) {
		return fmt.Errorf("verify: %v", p)
	}
	return nil
}
