package fingerprint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
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
// with strings, maps and 64 counters.
func naiveSignature(o Options, text string) Signature {
	if o.Method == MethodMinHash {
		return naiveMinHashes(o, naiveTokens(text))
	}
	return naiveSimhash(o, naiveTokens(text))
}

func naiveHashOf(o Options) func(token string) uint64 {
	if o.Seed == 0 {
		return func(s string) uint64 { return padded([]byte(s)) }
	}
	return func(s string) uint64 { return mix(padded([]byte(s)) + o.Seed*prime1) }
}

// naiveMinHashes is the oracle for MethodMinHash.
func naiveMinHashes(o Options, tokens []string) Signature {
	hash := naiveHashOf(o)
	if len(tokens) == 0 {
		return Signature{Short: true}
	}
	sig := Signature{naiveMinHash(tokens, hash), naiveShingles(tokens, hash), naiveDigest(tokens),
		len(tokens), naiveUnits(tokens) < 5*12}
	if sig.Short {
		sig.Fingerprint = naiveSequenceHash(tokens, hash)
	}
	return sig
}

// naiveDigest is the oracle for Signature.Digest.
func naiveDigest(tokens []string) Digest {
	var b []byte
	for _, token := range tokens {
		b = binary.LittleEndian.AppendUint64(b, padded([]byte(token)))
	}
	return Digest(xxhash.Sum64(b))
}

// naiveMinHash finds the smallest hash of each bin among all windows.
func naiveMinHash(windows []string, hash func(string) uint64) (f Fingerprint) {
	least := map[int]uint64{}
	for _, window := range windows {
		h := naiveWindowHash(window, hash)
		if other, ok := least[int(h>>58)]; !ok || h < other {
			least[int(h>>58)] = h
		}
	}
	for bin := range 64 {
		h, ok := least[bin]
		if !ok {
			h = math.MaxUint64
			for _, other := range least {
				h = min(h, other*(mix(uint64(bin+1)*prime1)|1))
			}
		}
		if mix(h)%2 == 1 {
			f |= 1 << bin
		}
	}
	return f
}

// naiveShingles is the oracle for Signature.Shingles.
func naiveShingles(tokens []string, hash func(string) uint64) (s ShingleSignature) {
	least := map[int]uint64{}
	for _, window := range naiveWindows(tokens, 2) {
		h := naiveWindowHash(window, hash)
		if other, ok := least[int(h>>56)]; !ok || h < other {
			least[int(h>>56)] = h
		}
	}
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

// naiveSimhash is the oracle for MethodSimhash.
func naiveSimhash(o Options, tokens []string) Signature {
	hash := naiveHashOf(o)
	if len(tokens) == 0 {
		return Signature{Short: true}
	}
	sum := func(features []string) Fingerprint {
		counts := map[string]int{}
		for _, f := range features {
			counts[f]++
		}
		var s counters
		for f, n := range counts {
			s.add(naiveWindowHash(f, hash), n)
		}
		return s.fingerprint()
	}
	sig := Signature{sum(naiveWindows(tokens, max(o.Window, 1))), naiveShingles(tokens, hash),
		naiveDigest(tokens), len(tokens), naiveUnits(tokens) < 50*12}
	if sig.Short {
		sig.Fingerprint = naiveSequenceHash(tokens, hash)
	}
	return sig
}

// naiveUnits returns the length of a text in twelfths of a word.
func naiveUnits(tokens []string) (units int) {
	for _, token := range tokens {
		units += naiveUnitsOf([]rune(token)[0])
	}
	return units
}

func naiveUnitsOf(r rune) int {
	switch page := r >> 8; {
	case !property(r).is(singleProperty | unknownProperty):
		return 12
	case page == 0x30:
		return 4
	case page == 0x0E || page == 0x10 || page == 0x17 || page == 0x19 || page == 0x1A ||
		page == 0x1B || page == 0xA9 || page == 0xAA:
		return 3
	}
	return 8
}

func naiveWindows(tokens []string, k int) (features []string) {
	if len(tokens) < k && len(tokens) > 0 {
		return []string{strings.Join(tokens, "\n")}
	}
	for i := 0; i+k <= len(tokens); i++ {
		features = append(features, strings.Join(tokens[i:i+k], "\n"))
	}
	return features
}

func naiveWindowHash(window string, hash func(string) uint64) uint64 {
	var sum uint64
	for _, token := range strings.Split(window, "\n") {
		sum = sum*prime1 + hash(token)
	}
	return sum
}

func naiveSequenceHash(tokens []string, hash func(string) uint64) Fingerprint {
	h := uint64(prime5)
	for _, token := range tokens {
		h ^= hash(token)
		h = bits.RotateLeft64(h, 27)*prime1 + prime4
	}
	return Fingerprint(mix(h + uint64(len(tokens))))
}

func goldenTexts(t *testing.T) map[string]string {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no texts in %s, %v", goldenDir, err)
	}
	texts := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(b)
	}
	return texts
}

func TestAnalyzerEqualsNaive(t *testing.T) {
	const seed = 23
	rng := rand.New(rand.NewPCG(seed, 0))
	texts := goldenTexts(t)
	length, random := 8_000, 120
	if testenv.Race {
		length, random = 3_000, 30 // one goroutine, which the race detector slows
	}
	for _, l := range languages {
		texts[l.name+" generated"] = l.write(rng, length)
		texts[l.name+" short"] = l.write(rng, 150)
	}
	texts["repetitive"] = strings.Repeat("spam ham eggs spam ", 400)
	texts["one word"], texts["two words"], texts["three words"] = "spam", "spam ham",
		"spam ham eggs"
	pool := runePool()
	for n := range random {
		var b strings.Builder
		for range rng.IntN(400) {
			if rng.IntN(5) == 0 {
				b.WriteByte(' ')
			}
			b.WriteRune(pool[rng.IntN(len(pool))])
		}
		texts[fmt.Sprintf("random %d", n)] = b.String()
	}
	options := append(goldenOptions(), Options{Seed: 1},
		Options{Method: MethodSimhash, Seed: math.MaxUint64, Window: 2})
	for _, o := range options {
		a := newAnalyzer(t, o)
		for name, text := range texts {
			if got, want := a.Text(text), naiveSignature(o, text); got != want {
				t.Errorf("%s, %s, seed %d: %+v, want %+v", a.Name(), name, seed, got, want)
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
		{words(49), true}, {words(50), false},
		{strings.Repeat("字", 74), true}, {strings.Repeat("字", 75), false},
		{strings.Repeat("か", 149), true}, {strings.Repeat("か", 150), false},
		{strings.Repeat("ก", 199), true}, {strings.Repeat("ก", 200), false},
		{strings.Repeat("กิ", 199), true}, {strings.Repeat("กิ", 200), false},
	} {
		if got := a.Text(c.text); got.Short != c.short {
			t.Errorf("%.10q..., %d bytes: %+v, want Short %v", c.text, len(c.text), got, c.short)
		}
	}
	if got := a.Text(" … "); got != (Signature{Short: true}) {
		t.Errorf("no token: %+v", got)
	}
	if a.Text("one Two three") != a.Text("ONE, two; three!") {
		t.Error("equal tokens, different signatures")
	}
	near := a.Text("one two three").Fingerprint.Distance(a.Text("one two four").Fingerprint)
	if near < 10 {
		t.Errorf("short texts that differ in a word are at distance %d", near)
	}
	for o, want := range map[Options]bool{{}: false, {Method: MethodSimhash}: true} {
		if got := newAnalyzer(t, o).Text(words(5)); got.Short != want ||
			!newAnalyzer(t, o).Text(words(4)).Short {
			t.Errorf("%+v: five words are %+v", o, got)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]Options{}
	all := append(goldenOptions(), Options{Seed: 1}, Options{Seed: 16},
		Options{Method: MethodSimhash, Window: 2}, Options{Method: MethodSimhash, Seed: 16})
	for _, o := range all {
		name := newAnalyzer(t, o).Name()
		if other, ok := seen[name]; ok {
			t.Errorf("%+v and %+v are both %q", o, other, name)
		}
		seen[name] = o
	}
	for o, want := range map[Options]string{
		{}: "text/5", {Seed: 31}: "text/5 seed=1f", {Method: MethodSimhash}: "simhash/2",
		{Method: MethodSimhash, Window: 1}:          "simhash/2",
		{Method: MethodSimhash, Window: 2, Seed: 1}: "simhash/2 window=2 seed=1",
	} {
		if got := newAnalyzer(t, o).Name(); got != want {
			t.Errorf("%+v is %q, want %q", o, got, want)
		}
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

// TestTextIsNotKept tests that nothing keeps or changes the text. Text reads a string through a
// slice, which is only sound under this condition.
func TestTextIsNotKept(t *testing.T) {
	for _, o := range goldenOptions() {
		a := newAnalyzer(t, o)
		for name, text := range goldenTexts(t) {
			b := []byte(text)
			want := a.Text(text)
			if got := a.Bytes(b); got != want {
				t.Errorf("%s, %s: Bytes %+v, Text %+v", a.Name(), name, got, want)
			}
			if string(b) != text {
				t.Fatalf("%s, %s: the text was changed", a.Name(), name)
			}
			for i := range b {
				b[i] = 'x'
			}
			if got := a.Text(text); got != want {
				t.Errorf("%s, %s: %+v after another text was overwritten, want %+v", a.Name(),
					name, got, want)
			}
		}
	}
}

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
				for name := range maps.Keys(texts) {
					if got := a.Text(texts[name]); got != want[name] {
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
