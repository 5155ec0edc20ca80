package redis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
)

// What docs/distributed.md says of the log of a group.

// The first byte of an entry: what it says of a document. A record has its flags there.
const (
	isKilled  = 0
	isDropped = 1
	isFloor   = 2
	isRecord  = 0x80

	hasShingle = 1
	hasScope   = 2
	hasLength  = 4
	hasEarlier = 8
	hasDigest  = 16
)

// state is what a log says of a document; nil: nothing yet, so it is pending.
type state struct {
	doc       index.Document // of a record; its strings are parts of the log
	committed bool           // it is, or was, a record
	dead      bool
	token     string // of who dropped it
}

// groupLog is what the entries of a group come to. What is said first of a document counts.
type groupLog struct {
	key, value string // in Redis

	states []*state // that have a record, or had
	bySeq  map[uint64]*state
	byKey  map[string]*state // of records that are not dead
	floor  uint64            // what is pending up to here is dead
}

func (l *groupLog) state(seq uint64) *state {
	s := l.bySeq[seq]
	if s == nil && seq <= l.floor {
		return &state{dead: true}
	}
	return s
}

// record is nil for a document that is pending, or dead.
func (l *groupLog) record(seq uint64) *index.Document {
	if s := l.bySeq[seq]; s != nil && !s.dead {
		return &s.doc
	}
	return nil
}

// earlier is the sequence number of a key's record; 0: there is none.
func (l *groupLog) earlier(key string) uint64 {
	if s := l.byKey[key]; s != nil {
		return s.doc.ID
	}
	return 0
}

// replay reads a log from its beginning.
func replay(key, log string) (*groupLog, error) {
	l := &groupLog{key: key, value: log, bySeq: make(map[uint64]*state), byKey: make(map[string]*state)}
	for r := (reader{rest: log}); r.rest != ""; {
		at := len(log) - len(r.rest)
		entry := reader{rest: r.bytes(r.uvarint())}
		l.apply(&entry)
		if r.bad || entry.bad {
			return nil, fmt.Errorf("%w: key %q: the entry at byte %d of a log of %d is cut short, or of another format", index.ErrCorrupt, key, at, len(log))
		}
	}
	return l, nil
}

// log replays what a command has read.
func (c *command) log() (*groupLog, error) { return replay(c.key, c.value) }

func (l *groupLog) apply(r *reader) {
	what, seq := byte(r.number(1)), r.number(seqBytes)
	said := l.state(seq)
	switch {
	case what == isFloor:
		l.floor = max(l.floor, seq)
	case what <= isDropped && said == nil: // of a drop, this is what a rewriting has left
		l.bySeq[seq] = &state{dead: true, committed: what == isDropped, token: r.rest}
	case what == isDropped && said.committed && !said.dead:
		said.dead, said.token = true, r.rest
		delete(l.byKey, said.doc.Key)
	case what <= isDropped:
	case what >= isRecord:
		d, earlier := r.record(what, seq)
		if said == nil && !r.bad {
			l.commit(d, earlier)
		}
	default:
		r.bad = true
	}
}

// commit makes a record, unless its key has another earlier self by now.
func (l *groupLog) commit(d index.Document, earlier uint64) {
	s := &state{doc: d}
	l.bySeq[d.ID] = s
	if s.dead = l.earlier(d.Key) != earlier; s.dead {
		return
	}
	if l.states, s.committed = append(l.states, s), true; d.Key != "" {
		if old := l.byKey[d.Key]; old != nil {
			old.dead = true
		}
		l.byKey[d.Key] = s
	}
}

// rewritten is the log without what is dead; of that above a floor it says so.
func (l *groupLog) rewritten(floor uint64) string {
	var b, tombstones []byte
	for _, s := range l.states {
		if !s.dead {
			b = appendEntry(b, appendRecord(nil, &s.doc, 0))
		}
	}
	for _, seq := range sortedKeys(l.bySeq) {
		if s := l.bySeq[seq]; s.dead && seq > floor {
			what := byte(isKilled)
			if s.committed {
				what = isDropped
			}
			tombstones = append(tombstones, logEntry(what, seq, s.token)...)
		}
	}
	if b = append(b, tombstones...); l.floor > 0 {
		b = append(b, logEntry(isFloor, l.floor, "")...)
	}
	return string(b)
}

// rewrite writes a log anew without what is dead, and lets nothing up to the floor commit any more. That it is dead stands
// there until the next time, since what is said in between comes before this floor.
func (l *groupLog) rewrite(floor uint64) *command {
	raised := ""
	for seq, s := range l.bySeq {
		if s.dead && seq <= floor {
			raised = logEntry(isFloor, floor, "")
		}
	}
	return newCommand(amend, l.key, l.value, l.rewritten(l.floor), raised)
}

func appendEntry(b, entry []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(entry))), entry...)
}

// logEntry is one that is no record.
func logEntry(what byte, seq uint64, token string) string {
	return string(appendEntry(nil, append(appendSeq([]byte{what}, seq), token...)))
}

// commitEntry makes a document a record if what its key has is still the earlier one.
func commitEntry(d *index.Document, earlier uint64) string {
	return string(appendEntry(nil, appendRecord(nil, d, earlier)))
}

func appendRecord(b []byte, d *index.Document, earlier uint64) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(appendSeq(append(b, isRecord), d.ID), uint64(d.Fingerprint))
	b = binary.AppendUvarint(b, uint64(d.Added.Unix()))
	if d.Shingle != 0 {
		b[start] |= hasShingle
		b = binary.BigEndian.AppendUint64(b, uint64(d.Shingle))
	}
	if d.Digest != 0 {
		b[start] |= hasDigest
		b = binary.BigEndian.AppendUint64(b, uint64(d.Digest))
	}
	if d.Tokens != 0 {
		b[start] |= hasLength
		b = binary.AppendUvarint(b, uint64(d.Tokens))
	}
	if d.Scope != "" {
		b[start] |= hasScope
		b = append(binary.AppendUvarint(b, uint64(len(d.Scope))), d.Scope...)
	}
	if earlier != 0 {
		b[start] |= hasEarlier
		b = appendSeq(b, earlier)
	}
	return append(b, d.Key...)
}

// reader takes bytes apart; bad once they are too few, or say what nobody writes.
type reader struct {
	rest string
	bad  bool
}

// record undoes appendRecord.
func (r *reader) record(flags byte, seq uint64) (d index.Document, earlier uint64) {
	d = index.Document{ID: seq, Fingerprint: fingerprint.Fingerprint(r.number(8))}
	d.Added = time.Unix(int64(r.uvarint()), 0).UTC()
	if flags&hasShingle != 0 {
		d.Shingle = fingerprint.Fingerprint(r.number(8))
	}
	if flags&hasDigest != 0 {
		d.Digest = fingerprint.Digest(r.number(8))
	}
	if flags&hasLength != 0 {
		d.Tokens = int(r.uvarint())
	}
	if flags&hasScope != 0 {
		d.Scope = r.bytes(r.uvarint())
	}
	if flags&hasEarlier != 0 {
		earlier = r.number(seqBytes)
	}
	d.Key, r.rest = r.rest, ""
	if flags > isRecord|hasShingle|hasScope|hasLength|hasEarlier|hasDigest || match.Validate(&d) != nil {
		r.bad = true
	}
	return d, earlier
}

func (r *reader) bytes(n uint64) string {
	if n > uint64(len(r.rest)) {
		r.bad, n = true, 0
		r.rest = ""
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number(bytes uint64) uint64 { return bigEndian(r.bytes(bytes)) }

func (r *reader) uvarint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := r.number(1)
		if v |= b & 0x7f << shift; b < 0x80 {
			return v
		}
	}
	r.bad = true
	return 0
}
