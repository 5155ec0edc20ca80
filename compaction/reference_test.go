package compaction_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// atLength reports whether the tests are to run at full length.
func atLength() bool { return os.Getenv("NEARDUP_LONG") != "" }

// collidingKeys returns two different strings with the same xxhash64. Of the 64-byte
// input, each lane takes v = rotl(v + word*prime2, 31) * prime1 twice; what differs in
// the first word is made up for by the second one of its lane.
var collidingKeys = func() []string {
	const prime1, prime2 = 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f
	inverse := uint64(prime2) // of prime2, by Newton's iteration
	for range 6 {
		inverse *= 2 - prime2*inverse
	}
	lane := func(word uint64) uint64 {
		start := uint64(prime1)
		start += prime2
		return bits.RotateLeft64(start+word*prime2, 31) * prime1
	}
	a, b := make([]byte, 64), make([]byte, 64)
	binary.LittleEndian.PutUint64(b, 1)
	binary.LittleEndian.PutUint64(b[32:], (lane(0)-lane(1))*inverse)
	return []string{string(a), string(b)}
}()

// reference is what an index should hold, and answers by looking at every document.
type reference struct {
	docs   []index.Document // by ID
	next   uint64           // the last ID given out
	k      int
	keep   bool // duplicates
	second int64
}

func (m *reference) now() time.Time { return time.Unix(m.second, 0) }

// arrive gives a document its ID and its time.
func (m *reference) arrive(d index.Document) index.Document {
	m.next++
	d.ID, d.Added = m.next, time.Unix(m.second, 0).UTC()
	m.docs = append(m.docs, d)
	return d
}

// take removes the document that has a key.
func (m *reference) take(key string) (known bool) {
	if key == "" {
		return false
	}
	n := len(m.docs)
	m.docs = slices.DeleteFunc(m.docs, func(d index.Document) bool { return d.Key == key })
	return len(m.docs) < n
}

// add is Index.Add: of several documents with one key, only the last arrives.
func (m *reference) add(docs []index.Document) {
	last := map[string]int{}
	for i, d := range docs {
		last[d.Key] = i
	}
	for i, d := range docs {
		if d.Key == "" || last[d.Key] == i {
			m.take(d.Key)
			docs[i] = m.arrive(d)
		}
	}
	for i, d := range docs {
		if d.Key != "" {
			docs[i].ID, docs[i].Added = docs[last[d.Key]].ID, docs[last[d.Key]].Added
		}
	}
}

// load is Load: one document arrives after the other. It returns how many went for
// a later one with their key.
func (m *reference) load(docs []index.Document) (replaced int) {
	for _, d := range docs {
		if m.take(d.Key) {
			replaced++
		}
		m.arrive(d)
	}
	return replaced
}

func (m *reference) checkAndAdd(d index.Document) index.Verdict {
	known := m.take(d.Key)
	v := index.Verdict{Document: d}
	matches := m.query(d.Fingerprint, d.Scope, m.k)
	switch {
	case len(matches) > 0:
		v.Status, v.Of = index.Duplicate, matches[0]
	case known:
		v.Status = index.Known
	}
	v.Document.ID, v.Document.Added = 0, time.Time{}
	if v.Status != index.Duplicate || m.keep {
		v.Document = m.arrive(d)
	}
	return v
}

func (m *reference) delete(keys []string) (deleted int) {
	for _, key := range keys {
		if m.take(key) {
			deleted++
		}
	}
	return deleted
}

func (m *reference) deleteBefore(at time.Time) (deleted int) {
	n := len(m.docs)
	m.docs = slices.DeleteFunc(m.docs, func(d index.Document) bool { return d.Added.Before(at) })
	return n - len(m.docs)
}

func (m *reference) query(fp fingerprint.Fingerprint, scope string, k int) []index.Match {
	var matches []index.Match
	for _, d := range m.docs {
		if distance := d.Fingerprint.Distance(fp); distance <= k && d.Scope == scope {
			matches = append(matches, index.Match{Document: d, Distance: distance})
		}
	}
	slices.SortStableFunc(matches, func(a, b index.Match) int { return cmp.Compare(a.Distance, b.Distance) })
	return matches
}

func (m *reference) bare() (n uint64) {
	for _, d := range m.docs {
		if d.Key == "" && d.Scope == "" && d.Shingle == 0 && d.Tokens == 0 {
			n++
		}
	}
	return n
}

func (m *reference) clone() *reference {
	c := *m
	c.docs = slices.Clone(m.docs)
	return &c
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// checkDocuments compares everything but queries.
func (m *reference) checkDocuments(t failer, x *index.Index) {
	t.Helper()
	ctx := context.Background()
	if s := x.Stats(); s.Documents != uint64(len(m.docs)) || s.Bare != m.bare() || s.NextID != m.next+1 {
		t.Fatalf("%+v for %d documents, %d bare, the last of them %d", s, len(m.docs), m.bare(), m.next)
	}
	var got []index.Document
	for d, err := range x.Documents(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d)
	}
	slices.SortFunc(got, func(a, b index.Document) int { return cmp.Compare(a.ID, b.ID) })
	if diff := difference(got, m.docs); diff != "" {
		t.Fatalf("documents: %s", diff)
	}
	for _, d := range m.docs {
		if d.Key == "" {
			continue
		}
		if got, found, err := x.Get(ctx, d.Key); err != nil || !found || got != d {
			t.Fatalf("key %q: %+v, %v, %v, not %+v", d.Key, got, found, err, d)
		}
	}
}

// checkQuery compares the answer to a query, at the largest distance and another one,
// whole and cut short. It returns the number of matches.
func (m *reference) checkQuery(t failer, x *index.Index, fp fingerprint.Fingerprint, scope string, other, limit int) int {
	t.Helper()
	all := m.query(fp, scope, m.k)
	for _, k := range []int{m.k, other} {
		want := all[:0:0]
		for _, match := range all {
			if match.Distance <= k {
				want = append(want, match)
			}
		}
		got, err := x.Query(context.Background(), fp, index.MaxDistance(k), index.InScope(scope))
		if diff := difference(got, want); err != nil || diff != "" {
			t.Fatalf("plan %v: query %v in scope %q within %d: %v: %s", x.Plan(), fp, scope, k, err, diff)
		}
		if limit == 0 {
			continue
		}
		want = want[:min(limit, len(want))]
		got, err = x.Query(context.Background(), fp, index.MaxDistance(k), index.InScope(scope), index.Limit(limit))
		if diff := difference(got, want); err != nil || diff != "" {
			t.Fatalf("plan %v: query %v in scope %q within %d, at most %d: %v: %s", x.Plan(), fp, scope, k, limit, err, diff)
		}
	}
	return len(all)
}

// difference tells where two lists part, shortly; "" if they do not.
func difference[T comparable](got, want []T) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%d, not %d: number %d, %+v, is missing", len(got), len(want), i, want[i])
		case i >= len(want):
			return fmt.Sprintf("%d, not %d: number %d, %+v, is too many", len(got), len(want), i, got[i])
		case got[i] != want[i]:
			return fmt.Sprintf("number %d is %+v, not %+v", i, got[i], want[i])
		}
	}
	return ""
}
