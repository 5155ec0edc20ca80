// Package beam finds near-duplicates among fingerprints with Apache Beam: all pairs of a
// collection, its clusters, and the matches of many queries, on the machines of Flink, Spark
// or Dataflow, or on one with Prism. For what fits on one machine, `neardup pairs` takes less:
// see docs/distributed.md.
//
// Pairs and Scan are exact: every pair of different fingerprints within the distance is there
// once, whatever the collection looks like and however the runner bundles and retries.
// Nothing is sampled, and no bucket is cut off.
//
// Of two fingerprints that differ in at most k bits, at least one of k+1 blocks of bits is
// equal (Manku, Jain and Das Sarma, WWW 2007, section 3.1). So each fingerprint goes to a
// group of each of k+1 tables, by leading bits of a block, and each group is joined by
// itself. What a bundle has for a group is one packed blob, not a record a fingerprint.
//
// Equal fingerprints count as one. Documents are joined to what is found by
// their fingerprints, with beam.CoGroupByKey.
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

// Options of all transforms.
type Options struct {
	// MaxDistance is k: 0 to 64, for Scan to 16. There is no default.
	MaxDistance int

	// Groups is into how many groups each table is divided, a power of two; fewer if a block
	// of bits has fewer values. Default 16; one for each million fingerprints is good.
	Groups int

	// MemoryBytes bounds the memory of a worker for one group of Pairs, 24 bytes per
	// fingerprint, or for the edges of Components. A larger group is ErrMemory; edges that
	// exceed it go through temporary files. Default 1 GiB, at least 16 MiB.
	MemoryBytes int64
}

const maxGroups = 1 << 16

var (
	// ErrOptions: a distance or another number is out of range.
	ErrOptions = errors.New("beam: option out of range")

	// ErrMemory: a group of fingerprints does not fit in Options.MemoryBytes.
	ErrMemory = errors.New("beam: group exceeds MemoryBytes")
)

// must fills in defaults. It panics as Beam's own transforms do on a pipeline that cannot be: there is nothing
// else that takes an error while one is built.
func (o *Options) must(most int) {
	o.Groups, o.MemoryBytes = cmp.Or(o.Groups, 16), cmp.Or(o.MemoryBytes, 1<<30)
	switch {
	case o.MaxDistance < 0 || o.MaxDistance > most:
		panic(fmt.Errorf("%w: MaxDistance is %d, not in 0..%d", ErrOptions, o.MaxDistance, most))
	case o.Groups < 1 || o.Groups > maxGroups || o.Groups&(o.Groups-1) != 0:
		panic(fmt.Errorf("%w: Groups is %d, not a power of two up to %d", ErrOptions, o.Groups, maxGroups))
	case o.MemoryBytes < 16<<20:
		panic(fmt.Errorf("%w: MemoryBytes is %d, less than 16 MiB", ErrOptions, o.MemoryBytes))
	}
}

// Batch is some fingerprints, in any order: an element of a collection of fingerprints.
type Batch struct{ Fingerprints []fingerprint.Fingerprint }

// Pair is two fingerprints near each other.
type Pair struct{ First, Second fingerprint.Fingerprint } // First < Second

// Distance is the number of bits in which the two differ.
func (p Pair) Distance() int { return p.First.Distance(p.Second) }

// Match is a fingerprint of a collection near one of the queries.
type Match struct{ Query, Found fingerprint.Fingerprint }

// Member says in which cluster a fingerprint is, by the smallest one of the cluster.
type Member struct{ Cluster, Fingerprint fingerprint.Fingerprint }

func init() {
	beam.RegisterCoder(reflect.TypeFor[Batch](), func(b Batch) []byte { return packed(b.Fingerprints) }, func(data []byte) (Batch, error) {
		fps, err := unpacked(data)
		return Batch{fps}, err
	})
}

// errData: what a runner hands over is not what was given to it.
var errData = errors.New("beam: broken data")

// packed is fingerprints of 8 bytes each, the lowest first.
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

// tables are blocks of bits, none of which overlap: two fingerprints within the distance are
// in one group of at least one table.
type tables struct {
	N    int // tables
	Step int // bits from one block to the next
	Bits int // that tell the groups of a table apart, at most Step
}

func tablesFor(k, groups int) tables {
	step := 64 / (k + 1)
	t := tables{N: k + 1, Step: step, Bits: min(bits.Len(uint(groups))-1, step)}
	if t.Bits == 0 {
		t.N = 1 // of one group with all
	}
	return t
}

// turned returns a fingerprint with the block of a table leading, which does not change distances.
func (t *tables) turned(table int, f fp) fp { return fp(bits.RotateLeft64(uint64(f), table*t.Step)) }

func (t *tables) back(table int, f fp) fp { return fp(bits.RotateLeft64(uint64(f), -table*t.Step)) }

// group is that of a turned fingerprint.
func (t *tables) group(turned fp) int { return int(turned >> (64 - t.Bits)) }

func (t *tables) key(table, group int) int { return table<<t.Bits | group }

// tableOf is that of a key.
func (t *tables) tableOf(key int) int { return key >> t.Bits }

// first reports whether no table before has both fingerprints in one group.
func (t *tables) first(table int, f, g fp) bool {
	for before := range table {
		if t.group(t.turned(before, f^g)) == 0 {
			return false
		}
	}
	return true
}
