package redis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
)

// This file implements the log of a group that docs/format-redis.md specifies.

// The first byte of an entry is its type. The first byte of a record also has its flags.
const (
	isKilled  = 0
	isDropped = 1
	isFloor   = 2
	isRecord  = 0x80

	hasShingles = 1
	hasScope    = 2
	hasLength   = 4
	hasEarlier  = 8
	hasDigest   = 16
)

// state is the state of a document in a log. A pending document has the state nil.
type state struct {
	doc       index.Document // of a record; its strings are parts of the log
	committed bool           // the document is or was a record
	dead      bool
	token     string // identifies the call that dropped it
}

// groupLog is the state that the entries of a group's log define. The first entry about a document
// counts.
type groupLog struct {
	key, value string // in Redis

	states []*state // of committed documents
	bySeq  map[uint64]*state
	byKey  map[string]*state // of records that are not dead
	floor  uint64            // pending documents up to here are dead
}

func (l *groupLog) state(seq uint64) *state {
	s := l.bySeq[seq]
	if s == nil && seq <= l.floor {
		return &state{dead: true}
	}
	return s
}

// record returns the record of a document, or nil if the document is pending or dead.
func (l *groupLog) record(seq uint64) *index.Document {
	if s := l.bySeq[seq]; s != nil && !s.dead {
		return &s.doc
	}
	return nil
}

// earlier returns the sequence number of a key's record, or 0 if there is none.
func (l *groupLog) earlier(key string) uint64 {
	if s := l.byKey[key]; s != nil {
		return s.doc.ID
	}
	return 0
}

// replay reads a log from its beginning.
func replay(key, log string) (*groupLog, error) {
	l := &groupLog{key: key, value: log, bySeq: make(map[uint64]*state),
		byKey: make(map[string]*state)}
	for r := (reader{rest: log}); r.rest != ""; {
		at := len(log) - len(r.rest)
		entry := reader{rest: r.bytes(r.uvarint())}
		l.apply(&entry)
		if r.bad || entry.bad {
			return nil, fmt.Errorf("%w: key %q: the entry at byte %d of a log of %d is truncated, "+
				"or has another format", index.ErrCorrupt, key, at, len(log))
		}
	}
	return l, nil
}

// log replays the log that a command has read.
func (c *command) log() (*groupLog, error) { return replay(c.key, c.value) }

func (l *groupLog) apply(r *reader) {
	what, seq := byte(r.number(1)), r.number(seqBytes)
	said := l.state(seq)
	switch {
	case what == isFloor:
		l.floor = max(l.floor, seq)
	case what <= isDropped && said == nil: // a drop without a record comes from a rewritten log
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

// commit adds a record. The record is dead if its key has another earlier version by then.
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

// rewritten returns the log without dead documents. It has an entry for each dead document above
// the floor.
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

// rewrite returns a command that rewrites a log without dead documents, and raises its floor. No
// document up to the floor can commit after that. The entries for dead documents up to the new
// floor remain until the next rewrite, since entries that other processes append meanwhile precede
// the new floor.
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

// logEntry returns an entry other than a record.
func logEntry(what byte, seq uint64, token string) string {
	return string(appendEntry(nil, append(appendSeq([]byte{what}, seq), token...)))
}

// commitEntry returns an entry that makes a document a record if earlier is still the record of its
// key.
func commitEntry(d *index.Document, earlier uint64) string {
	return string(appendEntry(nil, appendRecord(nil, d, earlier)))
}

func appendRecord(b []byte, d *index.Document, earlier uint64) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(appendSeq(append(b, isRecord), d.ID), uint64(d.Fingerprint))
	b = binary.AppendUvarint(b, uint64(d.Added.Unix()))
	if !d.Shingles.IsZero() {
		b[start] |= hasShingles
		for _, word := range d.Shingles {
			b = binary.BigEndian.AppendUint64(b, word)
		}
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

// reader decodes bytes. It sets bad if bytes are missing or invalid.
type reader struct {
	rest string
	bad  bool
}

// record decodes the result of appendRecord.
func (r *reader) record(flags byte, seq uint64) (d index.Document, earlier uint64) {
	d = index.Document{ID: seq, Fingerprint: fingerprint.Fingerprint(r.number(8))}
	d.Added = time.Unix(int64(r.uvarint()), 0).UTC()
	if flags&hasShingles != 0 {
		for i := range d.Shingles {
			d.Shingles[i] = r.number(8)
		}
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
	if flags > isRecord|hasShingles|hasScope|hasLength|hasEarlier|hasDigest ||
		match.Validate(&d) != nil {
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
