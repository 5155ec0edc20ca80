package fingerprint

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// Any number of bins may be empty, and one bin may have all hashes.
func TestMinHashOfBins(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 0))
	for range 2_000 {
		hashes := map[string]uint64{}
		var names []string
		var got minHash
		got.reset()
		bins := rng.Perm(len(got))[:1+rng.IntN(len(got))]
		for i := range len(bins) + rng.IntN(9) {
			name := fmt.Sprint(i)
			hashes[name] = uint64(bins[i%len(bins)])<<58 | rng.Uint64()>>6
			names = append(names, name, name)
		}
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		hash := func(name string) uint64 { return hashes[name] }
		for _, name := range names {
			got.add(hash(name))
		}
		if got, want := got.fingerprint(), naiveMinHash(names, hash); got != want {
			t.Fatalf("%d bins, %d hashes: %v, want %v", len(bins), len(hashes), got, want)
		}
	}
}

// TestTextsOfBatches tests that windows continue from one batch of tokens to the next.
func TestTextsOfBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 0))
	for _, o := range []Options{{}, {Seed: 5}, {Method: MethodSimhash}} {
		a := newAnalyzer(t, o)
		for _, distinct := range []int{1, 3, 5_000} {
			sizes := []int{3, batchSize, 2 * batchSize, 3 * batchSize, 5 * batchSize}
			for _, around := range sizes[:testenv.Number(3, 5, 5, 5)] {
				for n := around - 3; n < around+4; n++ {
					var b strings.Builder
					for range n {
						word := rng.IntN(distinct)
						b.WriteString([]string{"w%d ", "слово%d\n", "漢字%d,", "e\u0301%d "}[word%4])
						fmt.Fprint(&b, word, " ")
					}
					text := strings.ReplaceAll(b.String(), "%d", "")
					if got, want := a.Text(text), naiveSignature(o, text); got != want {
						t.Fatalf("%s, %d words of %d: %+v, want %+v", a.Name(), n,
							distinct, got, want)
					}
				}
			}
		}
	}
}
