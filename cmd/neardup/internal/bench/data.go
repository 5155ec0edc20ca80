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

// shingle returns the Shingle of document i, 0 if there are none.
func (c collection) shingle(i int) fingerprint.Fingerprint {
	if !c.shingles {
		return 0
	}
	return fingerprint.Fingerprint(collection{seed: ^c.seed}.at(i))
}

// documents yields the documents from one place to another. Into an empty index,
// document i goes under the ID i+1.
func (c collection) documents(from, to int, keys bool) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for i := from; i < to; i++ {
			d := index.Document{Fingerprint: fingerprint.Fingerprint(c.at(i)), Shingle: c.shingle(i)}
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

// questions are what an index is asked: by turns a uniform fingerprint, and a stored
// one with 0 to k bits flipped.
type questions struct {
	of     collection
	k      int
	random *rand.Rand
	every  int // every so many-th is near to a stored one; 0: none
}

func (c collection) questions(k int, stream uint64) *questions {
	return &questions{c, k, rand.New(rand.NewPCG(c.seed, stream)), 2}
}

// strangers are questions that are all uniform.
func (c collection) strangers(stream uint64) *questions {
	q := c.questions(0, stream)
	q.every = 0
	return q
}

// near are questions that are all near to a stored one.
func (c collection) near(k int, stream uint64) *questions {
	q := c.questions(k, stream)
	q.every = 1
	return q
}

func (q *questions) next(n int) []fingerprint.Fingerprint {
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
func (q *questions) flip(fp uint64) uint64 {
	changed := fp
	for d := q.random.IntN(q.k + 1); bits.OnesCount64(changed^fp) < d; {
		changed ^= 1 << q.random.IntN(64)
	}
	return changed
}
