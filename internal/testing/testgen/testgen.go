// Package testgen makes the input of tests and benchmarks: texts of one template, short texts in
// several scripts, random, clustered and adversarial fingerprints, and records for sorting. Its
// own tests make pages and archives of them.
//
// The same seed gives the same bytes on any platform and with any Go release. Only the
// compression of gzip members may differ. Nothing was taken from a real site. The directory text
// has the sentences, and every host has a reserved name (RFC 2606).
package testgen

import (
	"hash/fnv"
	"iter"
	"math/rand/v2"
)

// rng draws by remainder from a PCG source, whose output Go guarantees. The methods of rand.Rand
// have no such guarantee, and the crawl must not change with the Go release. The bias of the
// remainder does not matter here.
type rng struct{ source *rand.PCG }

// newRNG returns a separate stream per name, so that a new document does not change any other.
func newRNG(seed uint64, name string) *rng {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &rng{rand.NewPCG(seed, h.Sum64())}
}

// intn returns a number in [0, n).
func (r *rng) intn(n int) int { return int(r.source.Uint64() % uint64(n)) }

// between returns a number in [low, high].
func (r *rng) between(low, high int) int { return low + r.intn(high-low+1) }

// permutation returns the numbers below n in random order.
func (r *rng) permutation(n int) []int {
	order := make([]int, n)
	for i := range order {
		j := r.intn(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	return order
}

// Sequence yields all elements, without errors.
func Sequence[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}
