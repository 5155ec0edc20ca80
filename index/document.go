package index

import (
	"context"
	"fmt"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/store"
)

// Document is what the index knows of a page. Its fields:
//
//	ID          uint64                  // given by the index: 1, 2, 3, ... in order of arrival, never twice; ignored on the way in
//	Key         string                  // a URL as a rule, at most 64 KiB; one that is known replaces its document. "": none
//	Fingerprint fingerprint.Fingerprint // 64 bits
//	Shingle     fingerprint.Fingerprint // the second one of a fingerprint.Signature. 0: none
//	Digest      fingerprint.Digest      // of the token sequence: equal if and only if the texts are equal. 0: none
//	Tokens      int                     // the length of the text in tokens, up to 2^31-1. 0: not known
//	Scope       string                  // only documents of one scope are compared; at most 64 KiB
//	Added       time.Time               // when it was stored, in whole seconds, UTC; ignored on the way in
//
// Signature returns Fingerprint, Shingle, Digest and Tokens as one fingerprint.Signature.
type Document = match.Document

// Match is a stored document near to what was asked for. Its fields:
//
//	Document     // embedded: m.Key is its key
//	Distance int // Hamming distance of the fingerprints, in bits
type Match = match.Match

// storedOf returns the fingerprint by which a document is stored and searched for: XOR a hash
// of its scope (docs/format.md), so that scopes do not meet.
func storedOf(d *Document) uint64 { return store.Stored(uint64(d.Fingerprint), d.Scope) }

func recordOf(d *Document) store.Record {
	return store.Record{Fingerprint: uint64(d.Fingerprint), Shingle: uint64(d.Shingle), Digest: uint64(d.Digest), Tokens: uint32(d.Tokens), Scope: d.Scope, Key: d.Key}
}

// validate checks documents before any is stored.
func (x *Index) validate(docs []Document) error {
	for i := range docs {
		if err := match.Validate(&docs[i]); err != nil {
			return err
		}
		if x.ofTexts && docs[i].Signature() == (fingerprint.Signature{}) {
			return fmt.Errorf("%w: document %d of %d, key %.80q: skip what has 0 Tokens", ErrNoText, i+1, len(docs), docs[i].Key)
		}
	}
	return nil
}

// matching loads a candidate, and reports whether it is of the scope of a query and the rule lets the two match.
// That costs no read of its own: what it asks is in the record. Of what was
// read before, a Shingle that is too far is known without it.
func (r *reader) matching(c candidate, q *Query) (d Document, matches bool, err error) {
	rule, distance := r.x.rule(r.s.plan), int(c.hit.distance)
	if shingle, known := r.x.shingles.get(c.id); known && rule.RulesOut(distance, shingle, q.Signature) {
		return Document{}, false, nil
	}
	if d, err = r.document(c.id, c.hit.stored); err != nil {
		return Document{}, false, err
	}
	if d.Scope != q.Scope || !rule.Allows(distance, d.Signature(), q.Signature) {
		return Document{}, false, nil
	}
	d.Added, err = r.added(c.id)
	return d, err == nil, err
}

// document returns one that has a stored fingerprint, without its time of arrival.
func (r *reader) document(id, stored uint64) (Document, error) {
	bare := bareDocument(id, stored)
	if id < r.x.firstRecord.Load() {
		return bare, nil
	}
	record, found, err := r.documents().Record(id)
	if err != nil || !found {
		return bare, err
	}
	d := documentOf(id, record)
	r.x.shingles.put(id, d.Shingle)
	return d, nil
}

// documents is a store's newest state, or a view.
type documents interface {
	Record(id uint64) (store.Record, bool, error)
	KeyIDs(hash uint64) (store.IDs, error)
}

// documents is the reader's view, or the newest state while it has none.
func (r *reader) documents() documents {
	if r.v != nil {
		return r.v
	}
	return r.x.store
}

// bareDocument is a document that has no record, and so an empty scope.
func bareDocument(id, stored uint64) Document {
	return Document{ID: id, Fingerprint: fingerprint.Fingerprint(stored)}
}

// documentOf makes a document of its record, but for its time of arrival.
func documentOf(id uint64, r store.Record) Document {
	return Document{
		ID:          id,
		Key:         r.Key,
		Fingerprint: fingerprint.Fingerprint(r.Fingerprint),
		Shingle:     fingerprint.Fingerprint(r.Shingle),
		Digest:      fingerprint.Digest(r.Digest),
		Tokens:      int(r.Tokens),
		Scope:       r.Scope,
	}
}

// findKey returns the document that has a key, among those whose key has its hash,
// without its time of arrival.
func findKey(from documents, key string, ids store.IDs) (Document, bool, error) {
	for id := range ids.All() {
		r, recorded, err := from.Record(id)
		if err != nil {
			return Document{}, false, err
		}
		if !recorded {
			return Document{}, false, fmt.Errorf("%w: document %d of key %.80q has no record", ErrCorrupt, id, key)
		}
		if r.Key == key {
			return documentOf(id, r), true, nil
		}
	}
	return Document{}, false, nil
}

// Get returns the document that has a key.
func (x *Index) Get(ctx context.Context, key string) (d Document, found bool, err error) {
	if err := x.begin(ctx); err != nil {
		return Document{}, false, err
	}
	defer x.end()
	if key == "" {
		return Document{}, false, nil
	}
	err = x.withView(func(v *store.View) error {
		ids, err := v.KeyIDs(store.KeyHash(key))
		if err != nil {
			return err
		}
		if d, found, err = findKey(v, key, ids); err == nil && found {
			d.Added, err = x.added(v, d.ID)
		}
		return err
	})
	return d, found, err
}
