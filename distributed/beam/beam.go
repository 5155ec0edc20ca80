// Package beam finds near-duplicates among fingerprints with Apache Beam: all pairs of a
// collection, its clusters, and the matches of many queries. It runs on Flink, Spark or Dataflow,
// or on one machine with Prism. If the fingerprints fit on one machine, `neardup pairs` is faster:
// see docs/distributed.md.
//
// Pairs and Scan are exact. They return every pair of different fingerprints within the distance
// once, for any collection and for any bundles and retries of the runner. They neither sample
// fingerprints nor truncate buckets.
//
// If two fingerprints differ in at most k bits, then at least one of k+1 blocks of bits is equal in
// both. This is the principle of Manku, Jain and Das Sarma, WWW 2007, section 3.1. Therefore each
// fingerprint belongs to one group in each of k+1 tables, by the leading bits of a block. Each
// group is joined separately. A bundle emits one packed blob per group, not a record per
// fingerprint.
//
// Equal fingerprints count as one. Join documents to the results by their fingerprints, with
// beam.CoGroupByKey.
package beam

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/neardup/neardup/fingerprint"
)

type fp = fingerprint.Fingerprint

// Options configures all transforms.
type Options struct {
	// MaxDistance is k: 0 to 64, or 0 to 16 for Scan. There is no default.
	MaxDistance int

	// Groups is the number of groups per table, a power of two. A table has fewer groups if a
	// block of bits has fewer values. Use about one group per million fingerprints. Default: 16.
	Groups int

	// MemoryBytes bounds the memory of a worker for one group of Pairs, at 24 bytes per
	// fingerprint, or for the edges of Components. If a group needs more, Pairs fails with
	// ErrMemory. Edges that need more are in temporary files. Default: 1 GiB. Minimum: 16 MiB.
	MemoryBytes int64
}

const maxGroups = 1 << 16

var (
	// ErrOptions means that a distance or another number is out of range.
	ErrOptions = errors.New("beam: option out of range")

	// ErrMemory means that a group of fingerprints does not fit in Options.MemoryBytes.
	ErrMemory = errors.New("beam: group exceeds MemoryBytes")
)

// must sets defaults. If an option is invalid, it panics, as Beam's own transforms do, since the
// construction of a pipeline cannot return errors.
func (o *Options) must(most int) {
	o.Groups, o.MemoryBytes = cmp.Or(o.Groups, 16), cmp.Or(o.MemoryBytes, 1<<30)
	switch {
	case o.MaxDistance < 0 || o.MaxDistance > most:
		panic(fmt.Errorf("%w: MaxDistance is %d, not in 0..%d", ErrOptions, o.MaxDistance, most))
	case o.Groups < 1 || o.Groups > maxGroups || o.Groups&(o.Groups-1) != 0:
		panic(fmt.Errorf("%w: Groups is %d, not a power of two up to %d", ErrOptions,
			o.Groups, maxGroups))
	case o.MemoryBytes < 16<<20:
		panic(fmt.Errorf("%w: MemoryBytes is %d, less than 16 MiB", ErrOptions, o.MemoryBytes))
	}
}

// Batch is an element of a collection of fingerprints: several fingerprints in any order.
type Batch struct{ Fingerprints []fingerprint.Fingerprint }

// Pair is a pair of near fingerprints.
type Pair struct{ First, Second fingerprint.Fingerprint } // First < Second

// Distance returns the Hamming distance of the two fingerprints, in bits.
func (p Pair) Distance() int { return p.First.Distance(p.Second) }

// Match is a fingerprint of a collection and a near query.
type Match struct{ Query, Found fingerprint.Fingerprint }

// Member is a fingerprint and its cluster, which is named by its smallest fingerprint.
type Member struct{ Cluster, Fingerprint fingerprint.Fingerprint }

func init() {
	beam.RegisterCoder(reflect.TypeFor[Batch](), func(b Batch) []byte {
		return packed(b.Fingerprints)
	}, func(data []byte) (Batch, error) {
		fps, err := unpacked(data)
		return Batch{fps}, err
	})
}

// errData means that a runner passed damaged data to a transform.
var errData = errors.New("beam: broken data")

// packed returns fingerprints in 8 bytes each, in little-endian order.
func packed(fps []fp) []byte {
	data := make([]byte, 0, 8*len(fps))
	for _, f := range fps {
		data = binary.LittleEndian.AppendUint64(data, uint64(f))
	}
	return data
}

func unpacked(data []byte) ([]fp, error) {
	if len(data)%8 != 0 {
		return nil, fmt.Errorf("%w: %d bytes of fingerprints", errData, len(data))
	}
	fps := make([]fp, len(data)/8)
	for i := range fps {
		fps[i] = fp(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return fps, nil
}

// tables are disjoint blocks of bits. Two fingerprints within the distance are in the same group of
// at least one table.
type tables struct {
	N    int // tables
	Step int // bits from one block to the next
	Bits int // bits of the number of a group, at most Step
}

func tablesFor(k, groups int) tables {
	step := 64 / (k + 1)
	t := tables{N: k + 1, Step: step, Bits: min(bits.Len(uint(groups))-1, step)}
	if t.Bits == 0 {
		t.N = 1 // one group with all fingerprints
	}
	return t
}

// turned rotates a fingerprint so that the block of a table leads. This does not change distances.
func (t *tables) turned(table int, f fp) fp {
	return fp(bits.RotateLeft64(uint64(f), table*t.Step))
}

func (t *tables) back(table int, f fp) fp { return fp(bits.RotateLeft64(uint64(f), -table*t.Step)) }

// group returns the group of a turned fingerprint.
func (t *tables) group(turned fp) int { return int(turned >> (64 - t.Bits)) }

func (t *tables) key(table, group int) int { return table<<t.Bits | group }

// tableOf returns the table of a key.
func (t *tables) tableOf(key int) int { return key >> t.Bits }

// first reports whether no earlier table has both fingerprints in one group.
func (t *tables) first(table int, f, g fp) bool {
	for before := range table {
		if t.group(t.turned(before, f^g)) == 0 {
			return false
		}
	}
	return true
}
