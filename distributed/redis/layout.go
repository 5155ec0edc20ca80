package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
)

// What docs/distributed.md says of the bytes in Redis.

const (
	format      = 1
	formatLine  = "neardup-redis 1"
	seqBytes    = 6
	idBytes     = 8
	dead        = "x"
	hasShingle  = 1
	hasScope    = 2
	hasLength   = 4
	maxSeq      = 1<<(8*seqBytes) - 1
	ticksSecond = 100_000
)

// b64 keeps braces out of keys, which Redis looks for a hash tag in.
func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// id is a sequence number and, in the low 16 bits, the tag.
type id uint64

func (n id) seq() uint64 { return uint64(n) >> 16 }

func (n id) seqBytes() string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n))[:seqBytes])
}

func idOf(seq uint64, tag uint16) id { return id(seq<<16 | uint64(tag)) }

// names makes the keys of an index.
type names string

func (n names) meta() string     { return string(n) + ":m" }
func (n names) sequence() string { return string(n) + ":s" }

func (n names) tagged(tag uint16) string {
	return string(n) + ":{" + b64(binary.BigEndian.AppendUint16(nil, tag)) + "}"
}

func (n names) cell(of id) string       { return n.tagged(uint16(of)) + "d" + b64([]byte(of.seqBytes())) }
func (n names) floor(tag uint16) string { return n.tagged(tag) + "f" }
func (n names) key(hash [16]byte) string {
	return n.tagged(binary.BigEndian.Uint16(hash[:])) + "k" + b64(hash[2:])
}

func hashOf(key string) [16]byte {
	sum := sha256.Sum256([]byte(key))
	return [16]byte(sum[:16])
}

// tagOf is the tag of a document's ID.
func tagOf(d *index.Document) uint16 {
	if d.Key == "" {
		return uint16(d.Fingerprint)
	}
	hash := hashOf(d.Key)
	return binary.BigEndian.Uint16(hash[:])
}

// bucket names the one that a stored fingerprint has in a table.
func (n names) bucket(table int, t *plan.Table, stored uint64) string {
	first, _ := t.PrefixRange(t.Permute(stored))
	b := binary.BigEndian.AppendUint64([]byte{byte(table)}, first)
	return string(n) + ":b" + b64(b[:1+(t.Prefix+7)/8])
}

// parseBucket undoes bucket: the table, and the prefix that its entries share.
func (n names) parseBucket(p *plan.Plan, key string) (table int, prefix uint64, err error) {
	b, err := base64.RawURLEncoding.DecodeString(key[min(len(key), len(n)+len(":b")):])
	if err != nil || len(b) == 0 || int(b[0]) >= len(p.Tables) || len(b) != 1+(p.Tables[b[0]].Prefix+7)/8 {
		return 0, 0, fmt.Errorf("%w: %.80q is no bucket of the plan", index.ErrCorrupt, key)
	}
	return int(b[0]), binary.BigEndian.Uint64(append(b[1:], make([]byte, 8)...)[:8]), nil
}

// parseCell undoes cell.
func (n names) parseCell(key string) (id, error) {
	rest, bad := key[min(len(key), len(n)+len(":{")):], fmt.Errorf("%w: %.80q is no cell", index.ErrCorrupt, key)
	const tagLen, seqLen = 3, 8
	if len(rest) != tagLen+len("}d")+seqLen {
		return 0, bad
	}
	tag, err := base64.RawURLEncoding.DecodeString(rest[:tagLen])
	seq, err2 := base64.RawURLEncoding.DecodeString(rest[tagLen+2:])
	if err != nil || err2 != nil {
		return 0, bad
	}
	return id(binary.BigEndian.Uint64(append(seq, tag...))), nil
}

// restBytes is how many bytes of a fingerprint stand in an entry.
func restBytes(t *plan.Table) int { return (64 - t.Prefix + 7) / 8 }

func entryBytes(t *plan.Table) int { return restBytes(t) + idBytes }

func appendEntry(b []byte, t *plan.Table, stored uint64, of id) []byte {
	rest := t.Permute(stored) << (t.Prefix & 63)
	if t.Prefix == 64 {
		rest = 0
	}
	var full [8]byte
	binary.BigEndian.PutUint64(full[:], rest)
	return binary.BigEndian.AppendUint64(append(b, full[:restBytes(t)]...), uint64(of))
}

// entries calls yield with each entry of a bucket, with the bits of the table's order. prefix is that of the bucket.
func entries(t *plan.Table, prefix uint64, bucket string, yield func(permuted uint64, of id)) error {
	width, rest := entryBytes(t), restBytes(t)
	if len(bucket)%width != 0 {
		return fmt.Errorf("%w: a bucket of %d bytes has entries of %d", index.ErrCorrupt, len(bucket), width)
	}
	for ; len(bucket) > 0; bucket = bucket[width:] {
		var full [8]byte
		copy(full[:], bucket[:rest])
		low := uint64(0)
		if t.Prefix < 64 {
			low = binary.BigEndian.Uint64(full[:]) >> t.Prefix
		}
		yield(prefix|low, id(binary.BigEndian.Uint64([]byte(bucket[rest:width]))))
	}
	return nil
}

func storedOf(fp fingerprint.Fingerprint, scope string) uint64 {
	return store.Stored(uint64(fp), scope)
}

// record is what a cell holds of a document.
func record(d *index.Document) string {
	flags := byte(0)
	if d.Shingle != 0 {
		flags |= hasShingle
	}
	if d.Scope != "" {
		flags |= hasScope
	}
	if d.Tokens != 0 {
		flags |= hasLength
	}
	b := binary.BigEndian.AppendUint64([]byte{flags}, uint64(d.Fingerprint))
	b = binary.AppendUvarint(b, uint64(d.Added.Unix()))
	if d.Shingle != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(d.Shingle))
	}
	if d.Tokens != 0 {
		b = binary.AppendUvarint(b, uint64(d.Tokens))
	}
	if d.Scope != "" {
		b = append(binary.AppendUvarint(b, uint64(len(d.Scope))), d.Scope...)
	}
	return string(append(b, d.Key...))
}

var errRecord = errors.New("cut short, or with flags of another format")

// parseRecord undoes record.
func parseRecord(of id, cell string) (index.Document, error) {
	r := recordReader{rest: []byte(cell)}
	flags := r.bytes(1)
	d := index.Document{ID: uint64(of), Fingerprint: fingerprint.Fingerprint(r.uint64())}
	d.Added = time.Unix(int64(r.uvarint()), 0).UTC()
	if r.bad || flags[0] > hasShingle|hasScope|hasLength {
		return index.Document{}, fmt.Errorf("%w: record of document %d: %w", index.ErrCorrupt, of, errRecord)
	}
	if flags[0]&hasShingle != 0 {
		d.Shingle = fingerprint.Fingerprint(r.uint64())
	}
	if flags[0]&hasLength != 0 {
		d.Tokens = int(r.uvarint())
	}
	if flags[0]&hasScope != 0 {
		d.Scope = string(r.bytes(r.uvarint()))
	}
	d.Key = string(r.rest)
	if r.bad || d.Tokens < 0 || d.Tokens > index.MaxTokens {
		return index.Document{}, fmt.Errorf("%w: record of document %d: %w", index.ErrCorrupt, of, errRecord)
	}
	return d, nil
}

// recordReader takes a record apart; bad once it is too short.
type recordReader struct {
	rest []byte
	bad  bool
}

func (r *recordReader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad = true
		return make([]byte, min(n, 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *recordReader) uint64() uint64 { return binary.BigEndian.Uint64(r.bytes(8)) }

func (r *recordReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}
