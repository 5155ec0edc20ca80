package verify

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/filter"
	"github.com/neardup/neardup/store"
)

// checkDocuments reads the records.
func (v *verifier) checkDocuments() {
	for r := range values(v, v.View.Records(0)) {
		v.recorded.Add(r.ID)
		v.records.add(r.ID, store.Stored(r.Fingerprint, r.Scope))
		if r.Key != "" {
			v.recordKeys.add(store.KeyHash(r.Key), r.ID)
		}
		if r.ID >= v.Counters.NextID {
			v.problem(Unexpected, "document", documentKey(r.ID), "a document with ID %d, and the next ID is %d", r.ID, v.Counters.NextID)
		}
		v.checkArrival(r.ID)
	}
}

func (v *verifier) checkArrival(id uint64) {
	if id < v.firstClock || v.firstClock == 0 {
		v.problem(Missing, "clock", clockKey(id), "no entry says when document %d arrived", id)
	}
}

// checkKeys compares the entries of the keys with the records.
func (v *verifier) checkKeys() {
	found := tally{seeds: v.recordKeys.seeds}
	var shared []store.IDs
	for k := range values(v, v.View.Keys()) {
		for id := range k.IDs.All() {
			found.add(k.Hash, id)
		}
		if k.IDs.Len() > 1 {
			shared = append(shared, k.IDs)
		}
	}
	for _, ids := range shared {
		if v.failed == nil {
			v.checkShared(ids)
		}
	}
	v.compare(&v.recordKeys, &found,
		func(add func(a, b uint64)) {
			for r := range values(v, v.View.Records(0)) {
				if r.Key != "" {
					add(store.KeyHash(r.Key), r.ID)
				}
			}
		},
		func(add func(a, b uint64)) {
			for k := range values(v, v.View.Keys()) {
				for id := range k.IDs.All() {
					add(k.Hash, id)
				}
			}
		},
		func(inRecords bool, hash, id uint64) {
			if inRecords {
				v.problem(Missing, "key", keyKey(hash), "document %d has a key of this hash, and the entry does not name it", id)
			} else {
				v.problem(Unexpected, "key", keyKey(hash), "the entry names document %d, which has no key of this hash", id)
			}
		})
}

// checkShared sees to it that documents whose keys have one hash have different keys.
func (v *verifier) checkShared(ids store.IDs) {
	v.fail(v.ctx.Err())
	seen := map[string]uint64{}
	for id := range ids.All() {
		r, found, err := v.View.Record(id)
		if err != nil || !found {
			continue // told already
		}
		if other, again := seen[r.Key]; again {
			v.problem(Unexpected, "document", documentKey(id), "document %d has the key of document %d", id, other)
		}
		seen[r.Key] = id
	}
}

// checkPostings reads table 0, and compares its documents with the records and the
// counters.
func (v *verifier) checkPostings() {
	saved := v.savedFilter(0, v.Plan.Tables[0].Prefix)
	found := tally{seeds: v.records.seeds}
	for p := range values(v, v.View.Postings(0)) {
		key := tableKey('t', 0, p.Stored)
		if p.Packed {
			v.packed.add(p.Stored, 0)
			v.checkPackedFilters(saved, 0, p.Stored)
		}
		if p.Spread {
			v.live.add(p.Stored, 0)
		}
		if p.Live && !slices.ContainsFunc(v.Live, func(s *filter.Set) bool { return s.MayContain(p.Stored) }) {
			v.problem(FalseNegative, "filter", key, "the filters of live entries say no to one")
		}
		for id := range p.IDs.All() {
			if id >= v.Counters.NextID {
				v.problem(Unexpected, "table", key, "document %d, and the next ID is %d", id, v.Counters.NextID)
			} else if !v.posted.CheckedAdd(id) {
				v.problem(Unexpected, "table", key, "document %d, which another fingerprint has as well", id)
			}
			if v.recorded.Contains(id) {
				found.add(id, p.Stored)
				continue
			}
			v.bare++
			v.checkArrival(id)
		}
	}
	v.checkBlocks(0)
	if v.failed == nil {
		v.compareDocuments(&found)
	}
}

// compareDocuments compares the documents of the postings, where found are those with a
// record, with the records and the counters.
func (v *verifier) compareDocuments(found *tally) {
	lost := roaring64.AndNot(v.recorded, v.posted)
	for it := lost.Iterator(); it.HasNext(); {
		id := it.Next()
		v.problem(Missing, "table", documentKey(id), "document %d has a record, and is in no posting", id)
	}
	if documents := v.posted.GetCardinality(); documents != v.Counters.Documents || v.bare != v.Counters.Bare {
		v.problem(Miscounted, "meta", "", "%d documents, %d of them bare, were counted; the counters say %d and %d",
			documents, v.bare, v.Counters.Documents, v.Counters.Bare)
	}
	v.compare(&v.records, found,
		func(add func(a, b uint64)) {
			for r := range values(v, v.View.Records(0)) {
				if !lost.Contains(r.ID) {
					add(r.ID, store.Stored(r.Fingerprint, r.Scope))
				}
			}
		},
		func(add func(a, b uint64)) {
			for p := range values(v, v.View.Postings(0)) {
				for id := range p.IDs.All() {
					if v.recorded.Contains(id) {
						add(id, p.Stored)
					}
				}
			}
		},
		func(inRecords bool, id, stored uint64) {
			if inRecords {
				v.problem(Missing, "table", tableKey('t', 0, stored), "document %d has this fingerprint, and is not in its posting", id)
			} else {
				v.problem(Unexpected, "table", tableKey('t', 0, stored), "document %d, whose record has another fingerprint", id)
			}
		})
}
