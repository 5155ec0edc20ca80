package store

import (
	"errors"
	"iter"
)

// SurveyedPosting is a fingerprint of table 0 with its documents.
type SurveyedPosting struct {
	Posting
	Live, Packed bool // where it has an entry
}

// livePosting is a live entry of table 0.
type livePosting struct {
	stored         uint64
	added, removed IDs
}

// Postings yields the fingerprints of table 0 in order, also those without documents. It
// returns what Packed does.
func (s *Survey) Postings(yield func(SurveyedPosting) bool) (info PackedTableInfo, err error) {
	var liveErr error
	next, stop := iter.Pull(func(yield func(livePosting) bool) {
		liveErr = s.LivePostings(func(stored uint64, added, removed IDs) bool {
			return yield(livePosting{stored, added, removed})
		})
	})
	defer stop()
	l, more := next()
	goOn := true
	liveUpTo := func(end uint64, all bool) {
		for goOn && more && (all || l.stored < end) {
			goOn = yield(SurveyedPosting{Posting: Posting{l.stored, l.added}, Live: true})
			l, more = next()
		}
	}
	info, err = s.PackedPostings(func(stored uint64, ids IDs) bool {
		liveUpTo(stored, false)
		if !goOn {
			return false
		}
		p := SurveyedPosting{Posting: Posting{stored, ids}, Packed: true}
		if more && l.stored == stored {
			p.IDs, p.Live = ids.Union(l.added).Without(l.removed), true
			l, more = next()
		}
		goOn = yield(p)
		return goOn
	})
	if err == nil {
		liveUpTo(0, true)
	}
	return info, errors.Join(err, liveErr)
}
