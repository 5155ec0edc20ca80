package selfjoin

import "iter"

// memberList is members in memory; if there is no room, the first of them are in a file.
type memberList struct {
	scratch *scratch
	room    int
	first   *recordFile[[3]uint64] // nil: none
	rest    []Member
}

const memberBytes = 24

func (l *memberList) add(m Member) (err error) {
	if len(l.rest) < l.room {
		l.rest = append(l.rest, m)
		return nil
	}
	if l.first == nil {
		if l.first, err = newRecordFile[[3]uint64](l.scratch); err != nil {
			return err
		}
	}
	for _, m := range l.rest {
		if err := l.first.add([3]uint64{uint64(m.Fingerprint), uint64(m.Place), uint64(m.Copies)}); err != nil {
			return err
		}
	}
	l.rest = append(l.rest[:0], m)
	return l.first.finish()
}

func (l *memberList) all() iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		if l.first != nil {
			for r, err := range l.first.each() {
				if !yield(Member{fp(r[0]), int64(r[1]), int64(r[2])}, err) || err != nil {
					return
				}
			}
		}
		for _, m := range l.rest {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (l *memberList) clear() error {
	l.rest = l.rest[:0]
	if l.first == nil {
		return nil
	}
	first := l.first
	l.first = nil
	return first.remove()
}
