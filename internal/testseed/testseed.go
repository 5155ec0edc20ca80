// Package testseed gives random tests their seed.
package testseed

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Of is the same by default, so that a test passes today if it did yesterday, and with
// NEARDUP_LONG another one each time. It is in the log of a test that fails, and
// NEARDUP_SEED repeats the run.
func Of(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if os.Getenv("NEARDUP_LONG") != "" {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("NEARDUP_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("NEARDUP_SEED: %v", err)
		}
	}
	t.Logf("NEARDUP_SEED=%d", seed)
	return seed
}
