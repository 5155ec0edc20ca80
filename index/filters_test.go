package index

import (
	"math/rand/v2"
	"testing"

	"github.com/neardup/neardup/internal/testgen"
)

// TestQueryIsExactWhereNearGivesUp: where what is live does not fit in a Hash any more, the
// tables answer.
func TestQueryIsExactWhereNearGivesUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 0))
	plan := mustParse(t, "k=6 0-63/13 13-29,0-12,30-63/17~1 30-46,0-29,47-63/17~1 47-63,0-46/17~1")
	x, oracle := openMem(t, Options{Plan: plan, Durability: NoSync, FilterBytes: 1 << 20}), &scanEverything{}
	held, given := false, false
	for _, set := range testgen.Sets(rng, 4096) {
		fill(t, x, oracle, set.Fingerprints, 1000)
		checkQueries(t, x, oracle, testgen.Queries(rng, oracle.fps, 8, 6), 6)
		_, known := x.live.AppendNear(nil, 0, 6)
		held, given = held || known, given || !known
	}
	if !held || !given {
		t.Errorf("all in a Hash at first: %v, and not any more: %v", held, given)
	}
}
