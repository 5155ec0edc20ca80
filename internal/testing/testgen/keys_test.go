package testgen

import (
	"testing"

	"github.com/cespare/xxhash/v2"
)

func TestCollidingKeysCollide(t *testing.T) {
	seen := make(map[uint64]bool)
	for n := range uint64(10) {
		keys := CollidingKeys(n)
		sum := xxhash.Sum64String(keys[0])
		if keys[0] == keys[1] || sum != xxhash.Sum64String(keys[1]) || seen[sum] {
			t.Errorf("pair %d: %x and %x", n, sum, xxhash.Sum64String(keys[1]))
		}
		seen[sum] = true
	}
}
