// Package testgen generates the input of tests and benchmarks: random, clustered and adversarial
// fingerprints, keys with equal hashes, and records for sorting.
package testgen

import "iter"

// Sequence yields all elements, without errors.
func Sequence[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}
