package block

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/fault"
)

// sparseValues returns n consecutive values of a table of total random values.
func sparseValues(n, total int, seed uint64) []uint64 {
	random := rand.New(rand.NewPCG(seed, 0))
	mean := math.Exp2(64) / float64(total)
	values := make([]uint64, n)
	at := uint64(0x9e37) << 40
	for i := range values {
		at += 1 + uint64(random.ExpFloat64()*mean)
		values[i] = at
	}
	return values
}

// FuzzBlock tests that no input causes a panic. If Verify accepts a block, all methods must return
// the same fingerprints.
func FuzzBlock(f *testing.F) {
	for _, fps := range [][]uint64{
		{0}, {math.MaxUint64}, {0, math.MaxUint64}, {1 << 62, 1 << 63}, {1, 2, 3, 4, 5, 6, 7},
		sparseValues(30, 100_000_000, 1), sparseValues(200, 2000, 2), sparseValues(20, 60, 2),
	} {
		ids := make([]IDs, len(fps))
		for i, fp := range fps {
			ids[i] = NewIDs(uint64(i + 1))
			if i%7 == 0 {
				ids[i] = NewIDs(sparseValues(1+i, 1<<20, fp)...)
			}
		}
		for _, postings := range [][]IDs{nil, ids} {
			f.Add(pack(f, 0, fps, postings)[0], fps[0], fps[len(fps)/2])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, first, last uint64) {
		var b Block
		if err := b.Open(slices.Clip(data)); err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		verified := b.Verify()
		if verified != nil && !errors.Is(verified, fault.ErrCorrupt) {
			t.Fatal(verified)
		}
		if b.Len() > 1000 {
			return
		}
		fps := b.AppendTo(nil)
		for i := range b.Len() {
			if fp := b.At(i); verified == nil && fp != fps[i] {
				t.Fatalf("fingerprint %d: %016x, want %016x", i, fp, fps[i])
			}
			if _, err := b.Posting(i); verified == nil && err != nil && b.HasPostings() {
				t.Fatal(err)
			}
		}
		for _, r := range [][2]uint64{{first, last}, {last, first}, {0, last},
			{first, math.MaxUint64}, {b.First(), b.Last()}} {
			if verified == nil {
				checkRange(t, &b, fps, r[0], r[1])
				continue
			}
			b.AppendRange(nil, r[0], r[1])
			from, to, _ := b.Positions(r[0], r[1])
			checkNear(t, &b, from, to, r[0], 6)
		}
	})
}
