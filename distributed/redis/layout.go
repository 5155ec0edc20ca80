package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// This file implements the keys and buckets that docs/format-redis.md specifies.

const (
	format      = 3
	kind        = "neardup-redis"
	seqBytes    = 6
	idBytes     = seqBytes + 3
	maxSeq      = 1<<(8*seqBytes) - 1
	maxBits     = 24
	maxTables   = 256 // a key has a byte for its table
	ticksSecond = 100_000
)

// id is a document: its sequence number, and the group whose log has its record.
type id struct {
	seq   uint64
	group uint32
}

func appendID(b []byte, of id) []byte {
	b = binary.BigEndian.AppendUint32(appendSeq(b, of.seq), of.group<<8)
	return b[:len(b)-1]
}

func appendSeq(b []byte, seq uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, seq<<16)
	return b[:len(b)-2]
}

// bigEndian returns the number in at most 8 bytes.
func bigEndian(b string) (n uint64) {
	for i := range len(b) {
		n = n<<8 | uint64(b[i])
	}
	return n
}

// names returns the keys of an index. Its value is the name of the index.
type names string

func (n names) meta() string     { return string(n) + ":m" }
func (n names) sequence() string { return string(n) + ":s" }

func (n names) group(g uint32) string {
	return string(n) + ":g" +
		base64.RawURLEncoding.EncodeToString([]byte{byte(g >> 16), byte(g >> 8), byte(g)})
}

// bucket returns the key of the bucket of a stored fingerprint in a table.
func (n names) bucket(table int, t *plan.Table, stored uint64) string {
	first, _ := t.PrefixRange(t.Permute(stored))
	b := binary.BigEndian.AppendUint64([]byte{byte(table)}, first)
	return string(n) + ":b" + base64.RawURLEncoding.EncodeToString(b[:1+(t.Prefix+7)/8])
}

// idOf returns the id of a stored document.
func (x *Index) idOf(d *index.Document) id { return id{d.ID, x.groupOf(d)} }

// groupOf returns the group of a document. It depends on the key, so that one log has all documents
// of a key.
func (x *Index) groupOf(d *index.Document) uint32 {
	spread := storedOf(d) * 0x9e3779b97f4a7c15
	if d.Key != "" {
		sum := sha256.Sum256([]byte(d.Key))
		spread = binary.BigEndian.Uint64(sum[:])
	}
	return uint32(spread >> (64 - x.groupBits))
}

func storedOf(d *index.Document) uint64 { return store.Stored(uint64(d.Fingerprint), d.Scope) }

// restBytes returns the number of bytes of the fingerprint in an entry.
func restBytes(t *plan.Table) int { return (64 - t.Prefix + 7) / 8 }

func entryBytes(t *plan.Table) int { return restBytes(t) + idBytes }

func entryOf(t *plan.Table, stored uint64, of id) string {
	rest := binary.BigEndian.AppendUint64(nil, t.Permute(stored)<<t.Prefix)
	return string(appendID(rest[:restBytes(t)], of))
}

// entries calls yield with each entry of a bucket that was read, and its permuted fingerprint.
func (x *Index) entries(read *command, yield func(entry string, permuted uint64, of id)) error {
	b, err := base64.RawURLEncoding.DecodeString(
		read.key[min(len(read.key), len(x.name)+len(":b")):])
	if err != nil || len(b) == 0 || int(b[0]) >= len(x.plan.Tables) ||
		len(b) != 1+(x.plan.Tables[b[0]].Prefix+7)/8 {
		return fmt.Errorf("%w: %.80q is not a bucket of the plan", index.ErrCorrupt, read.key)
	}
	t, prefix := &x.plan.Tables[b[0]], bigEndian(string(b[1:]))<<(64-8*(len(b)-1))
	width, rest := entryBytes(t), restBytes(t)
	if len(read.value)%width != 0 {
		return fmt.Errorf("%w: bucket %q of %d bytes has entries of %d", index.ErrCorrupt, read.key,
			len(read.value), width)
	}
	for bucket := read.value; len(bucket) > 0; bucket = bucket[width:] {
		low := bigEndian(bucket[:rest]) << (64 - 8*rest) >> t.Prefix
		at := bucket[rest:width]
		yield(bucket[:width], prefix|low, id{bigEndian(at[:seqBytes]),
			uint32(bigEndian(at[seqBytes:]))})
	}
	return nil
}
