package index

import (
	"context"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/offheap"
	"github.com/neardup/neardup/store"
)

// Document is a stored page, or a page to be stored. Its fields:
//
//	ID          uint64                  // 1, 2, 3, and so on, never twice; the index assigns it
//	Key         string                  // usually a URL, at most 64 KiB. "": none
//	Fingerprint fingerprint.Fingerprint // 64 bits
//	Shingles    fingerprint.ShingleSignature // of a fingerprint.Signature. Zero: none
//	Digest      fingerprint.Digest      // of the token sequence of the text. 0: not known
//	Tokens      int                     // length of the text, up to 2^31-1. 0: not known
//	Scope       string                  // only documents of one scope are compared; at most 64 KiB
//	Added       time.Time               // when it was last stored, in whole seconds, UTC
//
// If the Key is already stored, the document replaces the earlier one. Calls that store documents
// ignore ID and Added. Added is zero if the document has no record. The method Signature returns
// Fingerprint, Shingles, Digest and Tokens as one fingerprint.Signature.
type Document = match.Document

// Match is a stored document that matches a query. Its fields:
//
//	Document     // embedded: m.Key is its key
//	Distance int // Hamming distance of the fingerprints, in bits
type Match = match.Match

// storedOf returns the stored fingerprint of a document: its fingerprint XOR a hash of its scope.
func storedOf(d *Document) uint64 { return store.Stored(uint64(d.Fingerprint), d.Scope) }

func recordOf(d *Document) store.Record {
	return store.Record{
		ID: d.ID, Fingerprint: uint64(d.Fingerprint), Time: match.Second(d.Added),
		Shingles: d.Shingles, Digest: uint64(d.Digest), Tokens: uint32(d.Tokens), Scope: d.Scope,
		Key: d.Key,
	}
}

// validate returns an error if one of the documents must not be stored.
func (x *Index) validate(docs []Document) error {
	for i := range docs {
		if err := match.Validate(&docs[i]); err != nil {
			return err
		}
		if x.ofTexts && docs[i].Signature() == (fingerprint.Signature{}) {
			return fmt.Errorf("%w: document %d of %d, key %.80q: skip documents with 0 Tokens",
				ErrNoText, i+1, len(docs), docs[i].Key)
		}
	}
	return nil
}

// document returns the document of an entry. found is false if its ID has been removed in the
// snapshot of the reader.
func (r *reader) document(id, stored uint64) (d Document, found bool, err error) {
	if r.v == nil { // the index has no records, and no removed IDs
		return bareDocument(id, stored), true, nil
	}
	switch r.s.lookUpRemoved(id, r.position) {
	case removed:
		return Document{}, false, nil
	case maybeRemoved:
		if gone, err := r.v.IsRemoved(id); err != nil || gone {
			return Document{}, false, err
		}
	}
	if id < r.x.firstRecord.Load() {
		return bareDocument(id, stored), true, nil
	}
	record, recorded, err := r.v.Record(id)
	switch {
	case err != nil:
		return Document{}, false, err
	case recorded:
		d = documentOf(record)
		r.x.shingles.put(id, d.Shingles)
		return d, true, nil
	case !r.x.hasBare.Load():
		return Document{}, false, fmt.Errorf("%w: document %d, fingerprint %016x, has no record",
			ErrCorrupt, id, stored)
	}
	return bareDocument(id, stored), true, nil
}

// byKey returns the document that has a key.
func (r *reader) byKey(key string) (d Document, found bool, err error) {
	hash := store.KeyHash(key)
	if key == "" || !r.s.keys.MayContain(hash) {
		return Document{}, false, nil
	}
	if r.v == nil {
		if err := r.openView(); err != nil {
			return Document{}, false, err
		}
	}
	return documentByKey(r.v, key)
}

func documentByKey(v *store.View, key string) (Document, bool, error) {
	ids, err := v.AppendKey(nil, store.KeyHash(key))
	if err != nil {
		return Document{}, false, err
	}
	for _, id := range ids {
		r, recorded, err := v.Record(id)
		switch {
		case err != nil:
			return Document{}, false, err
		case !recorded:
			return Document{}, false, fmt.Errorf("%w: document %d of key %.80q has no record",
				ErrCorrupt, id, key)
		case r.Key == key:
			return documentOf(r), true, nil
		}
	}
	return Document{}, false, nil
}

// bareDocument returns the document of an entry without a record, so without scope and time.
func bareDocument(id, stored uint64) Document {
	return Document{ID: id, Fingerprint: fingerprint.Fingerprint(stored)}
}

// isBare reports whether a stored document has no record.
func isBare(d *Document) bool { return d.Added.IsZero() }

func documentOf(r store.Record) Document {
	return Document{
		ID:          r.ID,
		Key:         r.Key,
		Fingerprint: fingerprint.Fingerprint(r.Fingerprint),
		Shingles:    r.Shingles,
		Digest:      fingerprint.Digest(r.Digest),
		Tokens:      int(r.Tokens),
		Scope:       r.Scope,
		Added:       time.Unix(int64(r.Time), 0).UTC(),
	}
}

// Get returns the document that has a key. Errors: ErrClosed, ErrCorrupt and the error of the
// context.
func (x *Index) Get(ctx context.Context, key string) (d Document, found bool, err error) {
	if err := x.begin(ctx); err != nil {
		return Document{}, false, err
	}
	defer x.end()
	if key == "" {
		return Document{}, false, nil
	}
	err = x.withView(func(v *store.View) error {
		d, found, err = documentByKey(v, key)
		return err
	})
	return d, found, err
}

// shingleCache holds the Shingles of documents that were candidates, by ID. In a crawl of one
// language and subject, a query has many candidates whose Shingles are far from its own. Without
// the cache, each costs a read of its record.
//
// The Shingles of an ID never change: IDs are not reused, and a recrawl with other Shingles gets a
// new ID. A shingleCache is safe for concurrent use until free is called.
type shingleCache struct {
	slots []shingleSlot // their number is a power of two, or 0
	free  func()
}

// shingleSlot holds the Shingles of one of the documents whose IDs have the same low bits. If a
// reader finds the same owner before and after it reads the Shingles, they belong to this owner.
type shingleSlot struct {
	// bits 41 to 63: number of changes; bit 40: set during a change; bits 0 to 39: the ID without
	// its low bits, plus 1
	owner    atomic.Uint64
	shingles [4]atomic.Uint64
}

const (
	shingleSlotBytes = 40
	changingOwner    = 1 << 40
)

// shingleShare limits the cache to 1/shingleShare of Options.CacheBytes, in addition to CacheBytes.
const shingleShare = 16

const (
	defaultShingleBytes = 4 << 20
	maxShingleBytes     = 1 << 30
)

// newShingleCache returns a cache of at most limit bytes.
func newShingleCache(limit int64) shingleCache {
	n := 0
	if slots := limit / shingleSlotBytes; slots > 0 {
		n = 1 << (bits.Len64(uint64(slots)) - 1)
	}
	slots, free := offheap.Make[shingleSlot](n)
	return shingleCache{slots, free}
}

// slot returns the slot of an ID and the owner value of the ID, or nil if there is no slot.
func (c *shingleCache) slot(id uint64) (slot *shingleSlot, owner uint64) {
	n := uint64(len(c.slots))
	if n == 0 || id/n >= changingOwner-1 {
		return nil, 0
	}
	return &c.slots[id&(n-1)], id/n + 1
}

func (c *shingleCache) get(id uint64) (s fingerprint.ShingleSignature, known bool) {
	slot, owner := c.slot(id)
	if slot == nil {
		return s, false
	}
	before := slot.owner.Load()
	if before&(2*changingOwner-1) != owner {
		return s, false
	}
	for i := range s {
		s[i] = slot.shingles[i].Load()
	}
	return s, slot.owner.Load() == before
}

// put stores Shingles, unless they are zero or another goroutine writes to the slot.
func (c *shingleCache) put(id uint64, s fingerprint.ShingleSignature) {
	slot, owner := c.slot(id)
	if slot == nil || s.IsZero() {
		return
	}
	before := slot.owner.Load()
	if before&changingOwner != 0 || before&(changingOwner-1) == owner ||
		!slot.owner.CompareAndSwap(before, before|changingOwner) {
		return
	}
	for i, word := range s {
		slot.shingles[i].Store(word)
	}
	slot.owner.Store((before>>41+1)<<41 | owner)
}
