package index

import (
	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/store"
)

// documentCheck is what the records, the keys and the postings say of the documents.
type documentCheck struct {
	firstClock uint64            // the first ID that the clock knows; 0: none
	recorded   *roaring64.Bitmap // documents with a record
	posted     *roaring64.Bitmap // documents in a posting
	records    tally             // (id, stored fingerprint) of the records
	keys       tally             // (hash of the key, id) of the records
	bare       uint64            // documents in a posting without a record
}

// checkDocuments reads the records.
func (v *verifier) checkDocuments() error {
	v.docs.recorded, v.docs.posted = roaring64.New(), roaring64.New()
	return each(v.s.Records(0), func(r store.DocumentRecord) bool {
		v.docs.recorded.Add(r.ID)
		v.docs.records.add(v.seeds, r.ID, store.Stored(r.Fingerprint, r.Scope))
		if r.Key != "" {
			v.docs.keys.add(v.seeds, store.KeyHash(r.Key), r.ID)
		}
		if r.ID >= v.counters.NextID {
			v.problem(Unexpected, "document", documentKey(r.ID), "a document with ID %d, and the next ID is %d", r.ID, v.counters.NextID)
		}
		if r.ID < v.docs.firstClock || v.docs.firstClock == 0 {
			v.problem(Missing, "clock", clockKey(r.ID), "no entry says when document %d arrived", r.ID)
		}
		return true
	})
}

// checkKeys compares the entries of the keys with the records.
func (v *verifier) checkKeys() error {
	var found tally
	var shared []store.IDs
	err := each(v.s.Keys(), func(k store.KeyEntry) bool {
		hash, ids := k.Hash, k.IDs
		for id := range ids.All() {
			found.add(v.seeds, hash, id)
		}
		if ids.Len() > 1 {
			shared = append(shared, ids)
		}
		return true
	})
	if err != nil || !v.complete("keys with records", "key", "document") {
		return err
	}
	for _, ids := range shared {
		if err := v.checkShared(ids); err != nil {
			return err
		}
	}
	if found == v.docs.keys {
		return nil
	}
	return v.differences(&v.docs.keys, &found,
		func(add func(a, b uint64)) error {
			return each(v.s.Records(0), func(r store.DocumentRecord) bool {
				if r.Key != "" {
					add(store.KeyHash(r.Key), r.ID)
				}
				return true
			})
		},
		func(add func(a, b uint64)) error {
			return each(v.s.Keys(), func(k store.KeyEntry) bool {
				hash, ids := k.Hash, k.IDs
				for id := range ids.All() {
					add(hash, id)
				}
				return true
			})
		},
		func(inRecords bool, hash, id uint64) {
			if inRecords {
				v.problem(Missing, "key", keyKey(hash), "document %d has a key of this hash, and the entry does not name it", id)
			} else {
				v.problem(Unexpected, "key", keyKey(hash), "the entry names document %d, which has no key of this hash", id)
			}
		})
}

// checkShared sees to it that the documents whose keys have one hash have different keys.
func (v *verifier) checkShared(ids store.IDs) error {
	return v.x.withView(func(view *store.View) error {
		seen := map[string]uint64{}
		for id := range ids.All() {
			r, found, err := view.Record(id)
			if err != nil || !found {
				continue // told already, or deleted meanwhile
			}
			if other, again := seen[r.Key]; again {
				v.problem(Unexpected, "document", documentKey(id), "document %d has the key of document %d", id, other)
			}
			seen[r.Key] = id
		}
		return v.ctx.Err()
	})
}

// checkPosting checks the documents of a fingerprint, and adds those that have a record
// to a tally.
func (v *verifier) checkPosting(key string, stored uint64, ids store.IDs, t *tally) {
	for id := range ids.All() {
		switch {
		case id >= v.counters.NextID:
			v.problem(Unexpected, "table", key, "document %d, and the next ID is %d", id, v.counters.NextID)
		case !v.docs.posted.CheckedAdd(id):
			v.problem(Unexpected, "table", key, "document %d, which another fingerprint has as well", id)
		}
		if v.docs.recorded.Contains(id) {
			t.add(v.seeds, id, stored)
			continue
		}
		v.docs.bare++
		if id < v.docs.firstClock || v.docs.firstClock == 0 {
			v.problem(Missing, "clock", clockKey(id), "no entry says when document %d arrived", id)
		}
	}
}

// compareDocuments compares what the postings have with the records and the counters.
func (v *verifier) compareDocuments(posted tally, postings func(yield func(stored uint64, ids store.IDs) bool) error) error {
	if !v.complete("postings with records and counters", "table", "packed", "document") {
		return nil
	}
	lost := roaring64.AndNot(v.docs.recorded, v.docs.posted)
	for it := lost.Iterator(); it.HasNext(); {
		id := it.Next()
		v.problem(Missing, "table", documentKey(id), "document %d has a record, and is in no posting", id)
	}
	documents := v.docs.posted.GetCardinality()
	if documents != v.counters.Documents || v.docs.bare != v.counters.Bare {
		v.problem(Miscounted, "meta", "", "%d documents, %d of them bare, were counted; the counters say %d and %d",
			documents, v.docs.bare, v.counters.Documents, v.counters.Bare)
	}
	if posted == v.docs.records {
		return nil
	}
	return v.differences(&v.docs.records, &posted,
		func(add func(a, b uint64)) error {
			return each(v.s.Records(0), func(r store.DocumentRecord) bool {
				if !lost.Contains(r.ID) {
					add(r.ID, store.Stored(r.Fingerprint, r.Scope))
				}
				return true
			})
		},
		func(add func(a, b uint64)) error {
			return postings(func(stored uint64, ids store.IDs) bool {
				for id := range ids.All() {
					if v.docs.recorded.Contains(id) {
						add(id, stored)
					}
				}
				return true
			})
		},
		func(inRecords bool, id, stored uint64) {
			if inRecords {
				v.problem(Missing, "table", tableKey('t', 0, stored), "document %d has this fingerprint, and is not in its posting", id)
			} else {
				v.problem(Unexpected, "table", tableKey('t', 0, stored), "document %d, whose record has another fingerprint", id)
			}
		})
}
