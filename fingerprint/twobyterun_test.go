package fingerprint

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTwoByteRuns takes text of which nearly all is of two bytes, and characters in it that
// end a run or nearly look like two bytes.
func TestTwoByteRuns(t *testing.T) {
	const seed = 43
	rng := rand.New(rand.NewPCG(seed, 0))
	letters := []rune("абвгдеёжзийАБВГДЕЖЙαβγδςάΣΩأبتثجمنوياאבגדהוզէთßÿıİ×«»\u00a0\u00ad\u064b\u05b0\u0640٣")
	odd := []string{"\u0301", "\u0308", "ǆ", "Ⱥ", "ΐ", "²", "ª", "\xc0\xaf", "\xc1\x81", "\xd0", "\x80", "\xd0\xd0\xb0", "中", "ẹ", "—", "…", "😀", "\u0378", "7", "x", "Z", "\n"}
	for n := 0; n < 20_000 && !t.Failed(); n++ {
		var b strings.Builder
		for range 20 + rng.IntN(40) {
			switch k := rng.IntN(60); {
			case k == 0:
				b.WriteString(odd[rng.IntN(len(odd))])
			case k < 10:
				b.WriteByte(" .,\n"[k%4])
			default:
				b.WriteRune(letters[rng.IntN(len(letters))])
			}
		}
		checkHashes(t, b.String())
	}
}
