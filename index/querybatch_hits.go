package index

import (
	"cmp"
	"errors"
	"slices"

	"github.com/neardup/neardup/internal/store"
)

// batchHit is a hit of one of the queries of a window.
type batchHit struct {
	stored   uint64
	id       uint64 // the only document, if that is known; else 0
	query    uint32
	block    int32
	at       uint16
	distance uint8
}

// maxBatchHits bounds the hits of a window in memory.
var maxBatchHits int64 = 4 << 20

var errManyHits = errors.New("too many probes or hits for one window")

// batchParts is the number of parts in which what is to be sorted is divided, for the
// workers to sort one after the other.
const batchParts = 256

// parted is what one worker has for each part.
type parted[T any] [batchParts][]T

// gather returns what all workers have for a part, and lets go of it.
func gather[T any](workers []*parted[T], part int) []T {
	var all []T
	for _, w := range workers {
		if all == nil {
			all = w[part]
		} else {
			all = append(all, w[part]...)
		}
		w[part] = nil
	}
	return all
}

// batchHits are the hits of a window, sorted by (query, distance, fingerprint) and
// without those that were found twice.
type batchHits struct {
	queries int
	parts   [batchParts][]batchHit
}

// partOf returns the part of a query.
func partOf(query uint32, queries int) int { return int(uint64(query) * batchParts / uint64(queries)) }

func sortHits(hits []batchHit) []batchHit {
	slices.SortFunc(hits, func(a, b batchHit) int {
		return cmp.Or(cmp.Compare(a.query, b.query), cmp.Compare(a.distance, b.distance), cmp.Compare(a.stored, b.stored))
	})
	// A packed fingerprint with new documents has an entry in both parts of table 0.
	return slices.CompactFunc(hits, func(a, b batchHit) bool { return a.query == b.query && a.stored == b.stored })
}

// of appends the hits of a query, nearest first.
func (h *batchHits) of(dst []hit, query int) []hit {
	hits := h.parts[partOf(uint32(query), h.queries)]
	i, _ := slices.BinarySearchFunc(hits, uint32(query), func(h batchHit, q uint32) int { return cmp.Compare(h.query, q) })
	for ; i < len(hits) && hits[i].query == uint32(query); i++ {
		b := &hits[i]
		found := hit{stored: b.stored, distance: int(b.distance), block: int(b.block), at: int(b.at)}
		if b.id != 0 {
			ids := store.NewIDs(b.id)
			found.posting = &ids
		}
		dst = append(dst, found)
	}
	return dst
}
