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
	"github.com/neardup/neardup/internal/testenv"
)

func newAnalyzer(tb testing.TB, o Options) *Analyzer {
	tb.Helper()
	a, err := NewAnalyzer(o)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// naiveSignature is the oracle for all options: strings, maps and 64 counters, from the
// definitions in the documentation.
func naiveSignature(o Options, text string) Signature {
	if o.method() == MethodMinHash {
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
	limit := o.ShortWords
	if limit == 0 {
		limit = 5
	}
	sig := Signature{naiveMinHash(tokens, hash), naiveMinHash(naiveWindows(tokens, 4), hash), naiveDigest(tokens), len(tokens), naiveUnits(tokens) < limit*12}
	if sig.Short {
		h := uint64(prime5)
		for _, token := range tokens {
			h ^= hash(token)
			h = bits.RotateLeft64(h, 27)*prime1 + prime4
		}
		sig.Fingerprint = Fingerprint(mix(h + uint64(len(tokens))))
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

// naiveMinHash looks for the least hash of each bin among all windows.
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

// naiveSimhash is the oracle for MethodSimhash.
func naiveSimhash(o Options, tokens []string) Signature {
	hash := naiveHashOf(o)
	features := naiveWindows(tokens, max(o.Window, 1))
	if len(features) == 0 {
		return Signature{Short: true}
	}
	counts := map[string]int{}
	for _, f := range features {
		counts[f]++
	}
	var text64, shingle64 sums
	for f, n := range counts {
		h := hash(f)
		if o.Window > 1 {
			h = naiveWindowHash(f, hash)
		}
		text64.add(h, naiveWeight(o, n))
	}
	mixed := o.Window == 0 && o.Weight == ""
	seen := map[string]bool{}
	for i := 0; i+4 <= len(tokens); i++ {
		window := strings.Join(tokens[i:i+4], "\n")
		if seen[window] {
			continue
		}
		seen[window] = true
		shingle64.add(naiveWindowHash(window, hash), 1)
		if mixed {
			text64.add(naiveWindowHash(strings.Join(tokens[i:i+2], "\n"), hash), 1)
		}
	}
	if len(tokens) < 4 {
		shingle64.add(naiveWindowHash(strings.Join(tokens, "\n"), hash), 1)
	}
	limit := o.ShortWords
	if limit == 0 {
		limit = 50
	}
	sig := Signature{text64.fingerprint(), shingle64.fingerprint(), naiveDigest(tokens), len(features), naiveUnits(tokens) < limit*12}
	if sig.Short {
		sig.Fingerprint = naiveSequenceHash(tokens, hash)
	}
	return sig
}

// sums are the counters of simhash where no overflow threatens.
type sums [64]int64

func (s *sums) add(hash uint64, weight int) {
	for i := range s {
		s[i] += int64(weight) * (int64(hash>>i&1)*2 - 1)
	}
}

func (s *sums) fingerprint() (f Fingerprint) {
	for i := range s {
		if s[i] >= 0 {
			f |= 1 << i
		}
	}
	return f
}

// naiveUnits are the twelfths of words in a text.
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
	case page == 0x0E || page == 0x10 || page == 0x17 || page == 0x19 || page == 0x1A || page == 0x1B || page == 0xA9 || page == 0xAA:
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
	h := uint64(prime5) + uint64(len(tokens))
	for _, token := range tokens {
		h ^= hash(token)
		h = (h<<27|h>>37)*prime1 + prime4
	}
	return Fingerprint(mix(h))
}

func naiveWeight(o Options, n int) int {
	switch {
	case o.Weight == "count":
		return n
	case o.Weight == "sqrt":
		return int(math.Floor(16*math.Sqrt(float64(n)) + 0.5))
	case o.Weight == "log":
		return int(math.Floor(16*(1+math.Log(float64(n))) + 0.5))
	case o.Weight == "once":
		return 1
	case o.Cap > 0:
		return min(n, o.Cap)
	case o.Window > 0:
		return min(n, 16)
	}
	return min(n, 100)
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
		length, random = 3_000, 30 // one goroutine
	}
	for _, l := range languages {
		texts[l.name+" generated"] = l.write(rng, length)
		texts[l.name+" short"] = l.write(rng, 150)
	}
	texts["repetitive"] = strings.Repeat("spam ham eggs spam ", 400)
	texts["one word"], texts["two words"], texts["three words"] = "spam", "spam ham", "spam ham eggs"
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
	options := append(goldenOptions(), Options{Seed: 1}, Options{Seed: math.MaxUint64, Window: 2, Weight: "log"}, Options{ShortWords: 101})
	for _, o := range options {
		a := newAnalyzer(t, o)
		for name, text := range texts {
			if got, want := a.Text(text), naiveSignature(o, text); got != want {
				t.Errorf("%s, %s, seed %d: %+v, want %+v", a.Name(), name, seed, got, want)
			}
		}
	}
}

// A text longer than a segment is as its segments are, one after the other.
func TestSegments(t *testing.T) {
	const seed = 37
	rng := rand.New(rand.NewPCG(seed, 0))
	tokens := naiveTokens(languages[0].write(rng, 20_000))
	text := strings.Join(tokens, " ")
	for _, size := range []int{1, 2, 3, 4, 5, 7, 100, batchSize, 1000, len(tokens), len(tokens) + 1} {
		var text64, shingle64 sums
		for start := 0; start < len(tokens); start += size {
			counts, seen := map[string]int{}, map[string]bool{}
			for i := start; i < min(start+size, len(tokens)); i++ {
				if counts[tokens[i]]++; counts[tokens[i]] <= 100 {
					text64.add(padded([]byte(tokens[i])), 1)
				}
				if i < 3 || seen[strings.Join(tokens[i-3:i+1], "\n")] {
					continue
				}
				seen[strings.Join(tokens[i-3:i+1], "\n")] = true
				hash := func(s string) uint64 { return padded([]byte(s)) }
				shingle64.add(naiveWindowHash(strings.Join(tokens[i-3:i+1], "\n"), hash), 1)
				text64.add(naiveWindowHash(strings.Join(tokens[i-3:i-1], "\n"), hash), 1)
			}
		}
		a := newAnalyzer(t, Options{Method: MethodSimhash})
		a.segment = size
		want := Signature{text64.fingerprint(), shingle64.fingerprint(), a.Text(text).Digest, len(tokens), false}
		if got := a.Text(text); got != want {
			t.Errorf("seed %d, segments of %d: %+v, want %+v", seed, size, got, want)
		}
		a = newAnalyzer(t, Options{Method: MethodSimhash})
		a.segment, a.streaming = size, false
		if got := a.Text(text); got.Shingle != want.Shingle {
			t.Errorf("seed %d, segments of %d: %+v by the whole text, want %+v", seed, size, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	a := newAnalyzer(t, Options{ShortWords: 50})
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
		if got := newAnalyzer(t, o).Text(words(5)); got.Short != want || !newAnalyzer(t, o).Text(words(4)).Short {
			t.Errorf("%+v: five words are %+v", o, got)
		}
	}
	if got := newAnalyzer(t, Options{Method: MethodSimhash, ShortWords: -1}).Text("word"); got.Short || got.Fingerprint != Fingerprint(padded([]byte("word"))) {
		t.Errorf("ShortWords -1: %+v", got)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]Options{}
	all := append(goldenOptions(),
		Options{Cap: 3}, Options{Cap: 16}, Options{Cap: 32}, Options{Window: 1}, Options{Window: 1, Cap: 64}, Options{Window: 3}, Options{Seed: 1}, Options{Seed: 16}, Options{ShortWords: 51})
	for _, o := range all {
		name := newAnalyzer(t, o).Name()
		if other, ok := seen[name]; ok {
			t.Errorf("%+v and %+v are both %q", o, other, name)
		}
		seen[name] = o
	}
	for o, want := range map[Options]string{{}: "text/4", {ShortWords: 5}: "text/4", {Method: MethodSimhash}: "text/3", {Cap: 100, ShortWords: 50}: "text/3", {Weight: capped}: "text/4", {Window: 2}: "text/3 window=2"} {
		if got := newAnalyzer(t, o).Name(); got != want && want != "text/3" || !strings.HasPrefix(got, want) {
			t.Errorf("%+v is %q, want %q", o, got, want)
		}
	}
}

// Fingerprints of one text under different seeds are as far apart as random
// numbers, whichever pipeline makes them.
func TestSeedsHaveNothingInCommon(t *testing.T) {
	text := goldenTexts(t)["english.txt"]
	const seeds = 200
	for _, o := range []Options{{}, {Method: MethodSimhash}, {ShortWords: maxShortWords}, {Window: 2}} {
		var sigs []Signature
		for seed := range uint64(seeds) {
			o.Seed = seed
			sigs = append(sigs, newAnalyzer(t, o).Text(text))
		}
		var sum, shingles float64
		for i, a := range sigs {
			for _, b := range sigs[:i] {
				sum += float64(a.Fingerprint.Distance(b.Fingerprint))
				shingles += float64(a.Shingle.Distance(b.Shingle))
				if a.Fingerprint.Distance(b.Fingerprint) < 10 || a.Shingle.Distance(b.Shingle) < 10 {
					t.Errorf("%s: two seeds come within %v and %v", newAnalyzer(t, o).Name(), a, b)
				}
			}
		}
		const pairs = seeds * (seeds - 1) / 2
		if math.Abs(sum/pairs-32) > 0.3 || math.Abs(shingles/pairs-32) > 0.3 {
			t.Errorf("%s: mean distances %.2f and %.2f, want 32", newAnalyzer(t, o).Name(), sum/pairs, shingles/pairs)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{
		{Method: -1}, {Method: 2}, {Window: -1}, {Window: maxWindow + 1}, {Weight: "heavy"}, {Cap: -1}, {Cap: 3, Weight: "log"},
		{ShortWords: maxShortWords + 1},
	} {
		if _, err := NewAnalyzer(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestTextIsNotKept: Text reads a string through a slice, which is only sound
// while nothing keeps it or writes to it.
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
				t.Errorf("%s, %s: %+v after another text was overwritten, want %+v", a.Name(), name, got, want)
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
	for _, a := range []*Analyzer{newAnalyzer(t, Options{}), newAnalyzer(t, Options{Method: MethodSimhash})} {
		for name, text := range goldenTexts(t) {
			if n := testing.AllocsPerRun(20, func() { a.Text(text) }); n >= 1 && !testenv.Race {
				t.Errorf("%s, %s: %v allocations a call", a.Name(), name, n)
			}
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "Hello, world", "İstanbul ñ 中文 กำ น้ํา ｶﾞ ﷺ", "a\xff\xc0\x80\xed\xa0\x80b", "a\u0345\u0301", "i\u09cb\u0307", "\u1e9e\u0327", "ก" + strings.Repeat("\u0e38", 3000)} {
		f.Add(s)
	}
	plain, simhash, listed := newAnalyzer(f, Options{}), newAnalyzer(f, Options{Method: MethodSimhash}), newAnalyzer(f, Options{Method: MethodSimhash})
	listed.streaming = false
	f.Fuzz(func(t *testing.T, s string) {
		got := plain.Text(s)
		if again := plain.Text(s); again != got {
			t.Fatalf("%+v, then %+v", got, again)
		}
		if streamed, whole := simhash.Text(s), listed.Text(s); streamed != whole {
			t.Fatalf("%+v, by the whole text %+v", streamed, whole)
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
			if got, want := a.Text(s), naiveSignature(a.options, s); got != want && !beyondOracle(s) {
				t.Fatalf("%s: %+v, want %+v", a.Name(), got, want)
			}
		}
	})
}
