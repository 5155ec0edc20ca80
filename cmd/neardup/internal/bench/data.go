package bench

import (
	"iter"
	"math/bits"
	"math/rand/v2"
	"strconv"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// collection is the fingerprints that an index holds: uniform, distinct, each of
// them computed from its place when it is asked for, so that they take no memory.
type collection struct {
	seed     uint64
	n        int
	shingles bool // the documents have them
}

// at returns fingerprint i: the finalizer of SplitMix64 over a Weyl sequence, both
// of them one to one.
func (c collection) at(i int) uint64 {
	x := c.seed + uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// document returns document i, without a key.
func (c collection) document(i int) index.Document {
	d := index.Document{Fingerprint: fingerprint.Fingerprint(c.at(i))}
	if c.shingles {
		d.Shingle = fingerprint.Fingerprint(collection{seed: ^c.seed}.at(i))
	}
	return d
}

// documents yields the documents from one place to another. Into an empty index,
// document i goes under the ID i+1.
func (c collection) documents(from, to int, keys bool) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for i := from; i < to; i++ {
			d := c.document(i)
			if keys {
				d.Key = c.key(i)
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

const keyBytes = 60

// key returns a name of 60 bytes, like a URL.
func (c collection) key(i int) string {
	key := append(make([]byte, 0, keyBytes), "https://www."...)
	key = strconv.AppendUint(key, c.at(i)%50_000, 10)
	key = append(key, ".example/archive/2026/"...)
	number := strconv.Itoa(i)
	for len(key)+len(number) < keyBytes {
		key = append(key, '0')
	}
	return string(append(key, number...))
}

// Each purpose has a stream of queries of its own, so that no two ask the same.
const (
	streamVerify = iota + 1
	streamReference
	streamWarm
	streamTimed
)

// queries are what an index is asked: uniform fingerprints, and stored ones with 0 to k
// bits flipped.
type queries struct {
	of     collection
	k      int
	random *rand.Rand
	every  int // every so many-th is near to a stored one; 0: none
}

// queries are by turns uniform and near to a stored one.
func (c collection) queries(k int, stream uint64) *queries {
	return &queries{c, k, rand.New(rand.NewPCG(c.seed, stream)), 2}
}

func (q *queries) next(n int) []fingerprint.Fingerprint {
	asked := make([]fingerprint.Fingerprint, n)
	for i := range asked {
		if q.every == 0 || (i+1)%q.every != 0 {
			asked[i] = fingerprint.Fingerprint(q.random.Uint64())
		} else {
			asked[i] = fingerprint.Fingerprint(q.flip(q.of.at(q.random.IntN(q.of.n))))
		}
	}
	return asked
}

// flip changes 0 to k bits.
func (q *queries) flip(fp uint64) uint64 {
	changed := fp
	for d := q.random.IntN(q.k + 1); bits.OnesCount64(changed^fp) < d; {
		changed ^= 1 << q.random.IntN(64)
	}
	return changed
}
