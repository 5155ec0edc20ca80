package fingerprint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/internal/testing/testenv"
)

func newAnalyzer(tb testing.TB, o Options) *Analyzer {
	tb.Helper()
	a, err := NewAnalyzer(o)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// naiveSignature is the oracle for all options. It follows the definitions in the documentation,
// with slices, maps and 64 counters.
func naiveSignature(o Options, text string) Signature {
	tokens := naiveTokens(text)
	if len(tokens) == 0 {
		return Signature{Short: true}
	}
	var hashes []uint64
	var unseeded []byte
	for _, token := range tokens {
		h := padded([]byte(token))
		unseeded = binary.LittleEndian.AppendUint64(unseeded, h)
		if o.Seed != 0 {
			h = mix(h + o.Seed*prime1)
		}
		hashes = append(hashes, h)
	}
	least := 5 // words
	if o.Method == MethodSimhash {
		least = 50
	}
	sig := Signature{Shingles: naiveShingles(naiveWindows(hashes, 2)),
		Digest: Digest(xxhash.Sum64(unseeded)), Tokens: len(tokens),
		Short: naiveUnits(tokens) < 12*least}
	switch {
	case sig.Short:
		sig.Fingerprint = naiveSequenceHash(hashes)
	case o.Method == MethodMinHash:
		sig.Fingerprint = naiveMinHash(hashes)
	default:
		var sum counters
		for _, window := range naiveWindows(hashes, max(o.Window, 1)) {
			sum.add(window, 1)
		}
		sig.Fingerprint = sum.fingerprint()
	}
	return sig
}

// naiveWindows returns the hashes of all windows of k tokens, or of all tokens if there are fewer.
func naiveWindows(tokens []uint64, k int) (hashes []uint64) {
	k = min(k, len(tokens))
	for i := range len(tokens) - k + 1 {
		var sum uint64
		for _, h := range tokens[i : i+k] {
			sum = sum*prime1 + h
		}
		hashes = append(hashes, sum)
	}
	return hashes
}

// leastOf returns the smallest hash of each bin that has one. The upper bits select the bin.
func leastOf(hashes []uint64, bits int) map[int]uint64 {
	least := make(map[int]uint64)
	for _, h := range hashes {
		bin := int(h >> (64 - bits))
		if other, ok := least[bin]; !ok || h < other {
			least[bin] = h
		}
	}
	return least
}

func naiveMinHash(hashes []uint64) (f Fingerprint) {
	least := leastOf(hashes, 6)
	for bin := range 64 {
		h, ok := least[bin]
		if !ok {
			h = math.MaxUint64
			for _, other := range least {
				h = min(h, other*(mix(uint64(bin+1)*prime1)|1))
			}
		}
		f |= Fingerprint(mix(h)%2) << bin
	}
	return f
}

func naiveShingles(hashes []uint64) (s ShingleSignature) {
	least := leastOf(hashes, 8)
	for bin := range 256 {
		for t := range 256 {
			distance := t * (t + 1) / 2
			word, bit := (bin/64+distance/64)%4, (bin%64-distance%64+64)%64
			if h, ok := least[64*word+bit]; ok {
				subset := t ^ t>>1 // the Gray code of t
				if (bits.OnesCount64(mix(h)>>56&uint64(subset))+int(mix(h)))%2 != 0 {
					s[bin/64] |= 1 << (bin % 64)
				}
				break
			}
		}
	}
	return s
}

func naiveSequenceHash(hashes []uint64) Fingerprint {
	h := uint64(prime5)
	for _, token := range hashes {
		h ^= token
		h = bits.RotateLeft64(h, 27)*prime1 + prime4
	}
	return Fingerprint(mix(h + uint64(len(hashes))))
}

// naiveUnits returns the length of a text in twelfths of a word.
func naiveUnits(tokens []string) (units int) {
	for _, token := range tokens {
		r := []rune(token)[0]
		switch page := r >> 8; {
		case !property(r).is(singleProperty | unknownProperty):
			units += 12
		case page == 0x30:
			units += 4
		case slices.Contains([]rune{0x0E, 0x10, 0x17, 0x19, 0x1A, 0x1B, 0xA9, 0xAA}, page):
			units += 3
		default:
			units += 8
		}
	}
	return units
}

// TestAnalyzerEqualsNaive compares signatures with the oracle. Windows continue from one batch of
// tokens to the next, and any number of bins may be empty.
func TestAnalyzerEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 0))
	texts := slices.Collect(maps.Values(goldenTexts(t)))
	length, random := 8_000, 120
	if testenv.Race {
		length, random = 3_000, 30 // one goroutine, which the race detector slows
	}
	for _, l := range languages {
		texts = append(texts, l.write(rng, length), l.write(rng, 150))
	}
	pool := runePool()
	for range random {
		texts = append(texts, mixedText(rng, 300, pool, pool))
	}
	sizes := []int{1, 3, batchSize, 2 * batchSize, 3 * batchSize, 5 * batchSize}
	for _, around := range sizes[:testenv.Number(4, 6, 6, 6)] {
		for n := max(1, around-3); n < around+4; n++ {
			for _, distinct := range []int{1, 3, 5_000} {
				var b strings.Builder
				for range n {
					word := rng.IntN(distinct)
					fmt.Fprint(&b, []string{"w", "слово", "漢字,", "e\u0301"}[word%4], word, " ")
				}
				texts = append(texts, b.String())
			}
		}
	}
	options := append(goldenOptions(), Options{Seed: 1},
		Options{Method: MethodSimhash, Seed: math.MaxUint64, Window: 2})
	for _, o := range options {
		a := newAnalyzer(t, o)
		for _, text := range texts {
			if got, want := a.Text(text), naiveSignature(o, text); got != want &&
				!beyondOracle(text) {
				t.Errorf("%s, seed %d, %.200q: %+v, want %+v", a.Name(), o.Seed, text, got, want)
			}
		}
	}
}

func TestShort(t *testing.T) {
	a := newAnalyzer(t, Options{Method: MethodSimhash}) // Short below 50 words
	words := func(n int) string { return strings.Repeat("word ", n) }
	for _, c := range []struct {
		text  string
		short bool
	}{
		{strings.Repeat("字", 74), true}, {strings.Repeat("字", 75), false},
		{strings.Repeat("か", 149), true}, {strings.Repeat("か", 150), false},
		{strings.Repeat("ก", 199), true}, {strings.Repeat("ก", 200), false},
		{strings.Repeat("กิ", 199), true}, {strings.Repeat("กิ", 200), false},
	} {
		if got := a.Text(c.text); got.Short != c.short {
			t.Errorf("%.10q..., %d bytes: %+v, want Short %v", c.text, len(c.text), got, c.short)
		}
	}
	for o, want := range map[Options]int{{}: 5, {Method: MethodSimhash}: 50} {
		a := newAnalyzer(t, o)
		if !a.Text(words(want-1)).Short || a.Text(words(want)).Short {
			t.Errorf("%+v: want Short below %d words", o, want)
		}
	}
	if got := a.Text(" … "); got != (Signature{Short: true}) {
		t.Errorf("no token: %+v", got)
	}
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{
		{Method: -1}, {Method: 2}, {Method: MethodSimhash, Window: -1},
		{Method: MethodSimhash, Window: maxWindow + 1}, {Window: 2},
	} {
		if _, err := NewAnalyzer(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestConcurrentUse tests that Text and Bytes return equal results on several goroutines. Nothing
// keeps or changes the text: Text reads a string through a slice, which is only sound under this
// condition.
func TestConcurrentUse(t *testing.T) {
	texts := goldenTexts(t)
	for _, o := range goldenOptions() {
		a := newAnalyzer(t, o)
		want := map[string]Signature{}
		for name, text := range texts {
			want[name] = a.Text(text)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for name, text := range texts {
					b := []byte(text)
					if got := a.Bytes(b); got != want[name] || string(b) != text {
						t.Errorf("%s, %s: %+v, want %+v", a.Name(), name, got, want[name])
					}
					clear(b) // the next text must not depend on it
					if got := a.Text(text); got != want[name] {
						t.Errorf("%s, %s: %+v, want %+v", a.Name(), name, got, want[name])
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestNoAllocations(t *testing.T) {
	a := newAnalyzer(t, Options{})
	for name, text := range goldenTexts(t) {
		if n := testing.AllocsPerRun(20, func() { a.Text(text) }); n >= 1 && !testenv.Race {
			t.Errorf("%s: %v allocations per call", name, n)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "Hello, world", "İstanbul ñ 中文 กำ น้ํา ｶﾞ ﷺ",
		"a\xff\xc0\x80\xed\xa0\x80b", "a\u0345\u0301", "i\u09cb\u0307", "\u1e9e\u0327",
		"ก" + strings.Repeat("\u0e38", 3000)} {
		f.Add(s)
	}
	plain, simhash := newAnalyzer(f, Options{}), newAnalyzer(f, Options{Method: MethodSimhash})
	f.Fuzz(func(t *testing.T, s string) {
		got := plain.Text(s)
		if again := plain.Text(s); again != got {
			t.Fatalf("%+v, then %+v", got, again)
		}
		if other := plain.Text(strings.ToValidUTF8(s, "\ufffd")); other != got {
			t.Fatalf("%+v, with U+FFFD for invalid bytes %+v", got, other)
		}
		if other := plain.Text(" " + s + "."); other != got {
			t.Fatalf("%+v, between separators %+v", got, other)
		}
		if (got.Tokens == 0) != (got == Signature{Short: true}) {
			t.Fatalf("%+v", got)
		}
		for _, a := range []*Analyzer{plain, simhash} {
			if got, want := a.Text(s), naiveSignature(a.options, s); got != want &&
				!beyondOracle(s) {
				t.Fatalf("%s: %+v, want %+v", a.Name(), got, want)
			}
		}
	})
}
