package index

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/store"
)

// Limits of what is stored with a document.
const (
	MaxKeyBytes   = 64 << 10
	MaxScopeBytes = 64 << 10
)

// Document is what the index knows of a page.
type Document struct {
	// ID is given by the index: 1, 2, 3, ... in order of arrival, never twice.
	// It is ignored on the way in.
	ID uint64

	// Key is the caller's name for the page, a URL as a rule. It is optional.
	// Adding a key that is known replaces the document that has it.
	Key string

	Fingerprint fingerprint.Fingerprint

	// Shingle is the second fingerprint of an Analyzer's Signature; 0 if there is none.
	Shingle fingerprint.Fingerprint

	// Scope sets documents apart: only those of one scope are ever compared. The
	// empty scope is one like any other.
	Scope string

	// Added is when the index stored the document, in whole seconds, UTC. It is
	// ignored on the way in.
	Added time.Time
}

// Match is a stored document near to what was asked for.
type Match struct {
	Document
	Distance int // Hamming distance of the fingerprints
}

// stored is the fingerprint as the tables hold it. XOR with a hash of the scope
// keeps distances within a scope and makes those across scopes random.
func (d *Document) stored() uint64 {
	return uint64(d.Fingerprint) ^ scopeHash(d.Scope)
}

func scopeHash(scope string) uint64 {
	if scope == "" {
		return 0
	}
	return xxhash.Sum64String(scope)
}

func keyHash(key string) uint64 { return xxhash.Sum64String(key) }

func (d *Document) record() store.Record {
	return store.Record{Fingerprint: uint64(d.Fingerprint), Shingle: uint64(d.Shingle), Scope: d.Scope, Key: d.Key}
}

func (d *Document) check() error {
	if len(d.Key) > MaxKeyBytes {
		return fmt.Errorf("%w: key %.40q... has %d bytes, at most %d are kept", ErrTooLarge, d.Key, len(d.Key), MaxKeyBytes)
	}
	if len(d.Scope) > MaxScopeBytes {
		return fmt.Errorf("%w: scope %.40q... has %d bytes, at most %d are kept", ErrTooLarge, d.Scope, len(d.Scope), MaxScopeBytes)
	}
	return nil
}

// readDocument loads a document of the given stored fingerprint.
func readDocument(v *store.View, id, stored uint64) (Document, error) {
	r, recorded, err := v.Record(id)
	if err != nil {
		return Document{}, err
	}
	if recorded {
		return documentOf(id, r, v)
	}
	d := bareDocument(id, stored)
	d.Added, err = v.Added(id)
	return d, err
}

// bareDocument is a document that has no record, and so an empty scope.
func bareDocument(id, stored uint64) Document {
	return Document{ID: id, Fingerprint: fingerprint.Fingerprint(stored)}
}

// documentOf makes a document of its record. Its time of arrival is read from
// clock, if there is one.
func documentOf(id uint64, r store.Record, clock *store.View) (d Document, err error) {
	d = Document{
		ID:          id,
		Key:         r.Key,
		Fingerprint: fingerprint.Fingerprint(r.Fingerprint),
		Shingle:     fingerprint.Fingerprint(r.Shingle),
		Scope:       r.Scope,
	}
	if clock != nil {
		d.Added, err = clock.Added(id)
	}
	return d, err
}

// findKey returns the document that has a key, among those whose key has its hash.
func findKey(v *store.View, key string, ids store.IDs) (Document, bool, error) {
	for id := range ids.All() {
		r, recorded, err := v.Record(id)
		if err != nil {
			return Document{}, false, err
		}
		if !recorded {
			return Document{}, false, fmt.Errorf("%w: document %d of key %.80q has no record", ErrCorrupt, id, key)
		}
		if r.Key == key {
			d, err := documentOf(id, r, v)
			return d, err == nil, err
		}
	}
	return Document{}, false, nil
}
