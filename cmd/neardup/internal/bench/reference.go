package bench

import (
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// reference is the paper's k+1 tables as sorted arrays in memory. The key of a table begins with
// one of k+1 blocks of bits. A directory has the start and the end of each bucket of leading bits.
type reference []referenceTable

// referenceTable has all fingerprints rotated to the left, so that their block comes first.
type referenceTable struct {
	rotate        int
	block         uint64 // the bits of the block in a fingerprint
	sorted        []uint64
	directoryBits int
	directory     []uint32 // starts of the buckets, and the end of the last one
}

func newReference(c collection, k int) (r reference) {
	for first, i := 0, 0; i <= k; i++ {
		width := (64 + k - i) / (k + 1)
		t := referenceTable{rotate: first, block: ^uint64(0) << (64 - width) >> first,
			sorted: make([]uint64, c.n), directoryBits: min(width, bits.Len(uint(c.n)))}
		t.directory = make([]uint32, 1<<t.directoryBits+1)
		for i := range t.sorted {
			t.sorted[i] = bits.RotateLeft64(at(seed, i), first)
			t.directory[t.sorted[i]>>(64-t.directoryBits)+1]++
		}
		slices.Sort(t.sorted)
		for i := range len(t.directory) - 1 {
			t.directory[i+1] += t.directory[i]
		}
		r, first = append(r, t), first+width
	}
	return r
}

// query appends the fingerprints within k bits. Each one comes from the first table whose block is
// equal.
func (r reference) query(fp uint64, k int, found []uint64) []uint64 {
	for i := range r {
		t := &r[i]
		v := bits.RotateLeft64(fp, t.rotate)
		bucket := v >> (64 - t.directoryBits)
		for _, candidate := range t.sorted[t.directory[bucket]:t.directory[bucket+1]] {
			if bits.OnesCount64(candidate^v) > k {
				continue
			}
			candidate = bits.RotateLeft64(candidate, -t.rotate)
			if slices.IndexFunc(r, func(t referenceTable) bool {
				return (candidate^fp)&t.block == 0
			}) == i {
				found = append(found, candidate)
			}
		}
	}
	return found
}

// collection is n uniform, distinct fingerprints. Each one is computed from its position.
type collection struct {
	n        int
	shingles bool // documents have Shingles
}

const seed = 1

// at returns fingerprint i: the finalizer of SplitMix64 over a Weyl sequence. Both are bijections.
func at(seed uint64, i int) uint64 {
	x := seed + uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// document returns document i. Its key has 60 bytes, like a URL.
func (c collection) document(i int, key bool) index.Document {
	d := index.Document{Fingerprint: fingerprint.Fingerprint(at(seed, i))}
	if c.shingles {
		for word := range d.Shingles {
			d.Shingles[word] = at(^uint64(seed+word), i)
		}
	}
	if key {
		d.Key = fmt.Sprintf("https://www.%05d.example/archive/2026/%021d", at(seed, i)%50_000, i)
	}
	return d
}

// documents yields all n documents. In a new index, document i has the ID i+1.
func (c collection) documents(keys bool) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for i := 0; i < c.n && yield(c.document(i, keys), nil); i++ {
		}
	}
}

// near returns a stored document with 0 to k bits flipped. i chooses the document and the bits.
func (c collection) near(i, k int) index.Document {
	random := rand.New(rand.NewPCG(seed, uint64(i)))
	d := c.document(random.IntN(c.n), false)
	for _, bit := range random.Perm(64)[:random.IntN(k+1)] {
		d.Fingerprint ^= 1 << bit
	}
	return d
}

// queries returns n random fingerprints. Every second one is within k bits of a stored one.
func (c collection) queries(random *rand.Rand, n, k int) []fingerprint.Fingerprint {
	asked := make([]fingerprint.Fingerprint, n)
	for i := range asked {
		if asked[i] = fingerprint.Fingerprint(random.Uint64()); i%2 == 1 {
			asked[i] = c.near(int(random.Uint64()>>1), k).Fingerprint
		}
	}
	return asked
}
