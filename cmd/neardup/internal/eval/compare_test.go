package eval

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

func TestShinglesAndCharacters(t *testing.T) {
	for _, c := range []struct {
		features func([]string) []string
		tokens   string
		want     []string
	}{
		{shingles, "a", []string{"a"}},
		{shingles, "a b c d", []string{"a b c d"}},
		{shingles, "a b c d e f", []string{"a b c d", "b c d e", "c d e f"}},
		{characters, "abc", []string{"abc"}},
		{characters, "ab cd e", []string{"abcd", "bcde"}},
		{characters, "été là", []string{"étél", "télà"}},
	} {
		if got := c.features(strings.Fields(c.tokens)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.tokens, got, c.want)
		}
	}
}

func TestTokenDigest(t *testing.T) {
	if !equal(tokenDigest([]string{"a", "b"}, 0), tokenDigest([]string{"a", "b"}, 1)) {
		t.Error("equal tokens, other digests")
	}
	if equal(tokenDigest([]string{"a", "b"}, 0), tokenDigest([]string{"b", "a"}, 0)) {
		t.Error("another order, one digest")
	}
}

// TestMinHash tests that the share of equal min-hashes is the Jaccard similarity, here 10 of 30,
// within five standard deviations.
func TestMinHash(t *testing.T) {
	features := hashes(strings.Fields(
		"a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4"), 0)
	const n = 4000
	a, b := minHash(features[:20], n, 1), minHash(features[10:], n, 1)
	if got, want := float64(agreeing(a, b))/n,
		1./3; math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/n) {
		t.Errorf("%v of the min-hashes are equal, want %v", got, want)
	}
	reversed := slices.Clone(features[:20])
	slices.Reverse(reversed)
	if !equal(a, minHash(append(reversed, features[3]), n, 1)) {
		t.Error("the min-hashes of a set depend on order or repetition")
	}
	if equal(a, minHash(features[:20], n, 2)) {
		t.Error("two seeds have the same permutations")
	}
}

// TestSuperShingles tests that a super-shingle is equal in two texts with probability J^14, since
// it combines 14 min-hashes. J is the Jaccard similarity of the texts.
func TestSuperShingles(t *testing.T) {
	text := func(words string) []string { return strings.Fields(words) }
	a := superShingles(text("a b c d e f g"), 3)
	if len(a) != 6 || agreeing(a, superShingles(text("a b c d e f g"), 3)) != 6 {
		t.Errorf("%v of equal tokens", a)
	}
	if n := agreeing(a, superShingles(text("g f e d c b a"), 3)); n != 0 {
		t.Errorf("%d of 6 super-shingles of different shingles are equal", n)
	}
	// 1,000 pairs share 20 of 21 shingles. On average 6·(20/21)^14 = 3.03 super-shingles are
	// equal.
	sum := 0
	words := make([]string, 24)
	for i := range 1000 {
		for j := range words {
			words[j] = string(rune('a'+j)) + string(rune('0'+i))
		}
		sum += agreeing(superShingles(words[:23], uint64(i)), superShingles(words, uint64(i)))
	}
	if sum < 2700 || sum > 3350 {
		t.Errorf("%d super-shingles of 1000 pairs agree, want 3030", sum)
	}
}

func TestSample(t *testing.T) {
	tokens := strings.Fields(strings.Repeat(
		"a b c d e f g h i j k l m n o p q r s t u v w x y z ", 40))
	var want sketch
	for _, s := range shingles(tokens[:29]) { // each occurs once
		if h := xxhash.Sum64String(s); h%25 == 0 {
			want = append(want, h)
		}
	}
	slices.Sort(want)
	if got := sample(tokens, 0); !equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	kept := 0
	for seed := range uint64(1000) {
		kept += len(sample(tokens, seed))
	}
	if kept < 880 || kept > 1200 { // 26 shingles, of which one in 25 is kept
		t.Errorf("%d of 26,000 shingles are kept", kept)
	}
	for _, c := range []struct {
		a, b sketch
		want float64
	}{{sketch{1, 2, 3}, sketch{2, 3, 4}, .5}, {sketch{1, 2}, sketch{1, 2}, 1},
		{sketch{1}, sketch{2, 3}, 0}, {sketch{2, 4, 6, 8}, sketch{8}, .25}} {
		if got := jaccard(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestIMatch tests four documents. A word in all of them has idf 0, a word in two has 1/2, and a
// word in one has 1.
func TestIMatch(t *testing.T) {
	var docs []*Document
	for _, text := range []string{"the cat sat, the cat", "the cat", "the dog", "the"} {
		docs = append(docs, &Document{Text: text})
	}
	counts := wordCounts(docs)
	if counts["the"] != 4 || counts["cat"] != 2 || counts["dog"] != 1 {
		t.Fatal(counts)
	}
	middle, high := iMatch(counts, 4, .2, .8), iMatch(counts, 4, .1, 1)
	cat := middle([]string{"the", "cat"}, 0)
	for _, text := range []string{"cat the cat", "sat cat", "dog cat the"} {
		if got := middle(strings.Fields(text), 0); !equal(got, cat) {
			t.Errorf("%q is not about the cat", text)
		}
	}
	if equal(high([]string{"sat", "cat"}, 0), high([]string{"cat"}, 0)) ||
		!equal(high([]string{"the", "cat"}, 0), high([]string{"cat"}, 0)) {
		t.Error("idf 0.1 to 1 must keep only the rare words")
	}
	if got := middle([]string{"the", "dog"}, 0); got != nil {
		t.Errorf("%v of no words that count", got)
	}
}

func TestSimhash(t *testing.T) {
	words := simhash(slices.Clone[[]string])
	if got, want := words(strings.Fields("x y x"), 0),
		(sketch{xxhash.Sum64String("x")}); !equal(got, want) {
		t.Errorf("%x, want %x: x has the majority", got, want)
	}
	var sum fingerprint.Accumulator
	for _, part := range []string{"abcd", "abcd", "bcda", "cdab", "dabc"} {
		sum.Add(xxhash.Sum64String(part), 1)
	}
	if got, want := simhash(characters)(strings.Fields("abcd abcd"), 0),
		sum.Fingerprint(); got[0] != uint64(want) {
		t.Errorf("%x, want %x", got, want)
	}
	if !withinThree(sketch{0}, sketch{7}) || withinThree(sketch{0}, sketch{15}) {
		t.Error("k is not 3")
	}
}

// TestCompare tests that Compare scores the same pairs as Measure.
func TestCompare(t *testing.T) {
	long := strings.Fields("one two three four five six seven eight nine ten eleven twelve " +
		"thirteen fourteen fifteen sixteen")
	texts := []string{
		strings.Join(long, " "),
		strings.Join(long[1:], " "),    // positive with the first
		strings.Join(long, ", ") + ".", // equal tokens
		"another text of quite other words",
		strings.Join(long[2:], " "), // negative with the first, between with the second
		"",
	}
	signer, err := page.NewSigner(page.Visible, fingerprint.Options{})
	must(t, err)
	var docs []*Document
	for i, text := range texts {
		docs = append(docs, &Document{
			ID: string(rune('a' + i)), Text: text, tokens: digestOf(fingerprint.Tokens(text)),
			Signatures: []fingerprint.Signature{signer.Analyzer().Text(text)},
		})
	}
	l, err := Label(docs, []Pair{{.95, "a", "b"}, {.95, "b", "c"}, {.7, "a", "e"}, {.7, "c", "e"},
		{.85, "b", "e"}, {1, "a", "c"}})
	must(t, err)
	all := func(a, b sketch) int { return 1 }
	sketches := l.sketches(t.Context(), tokenDigest, 0)
	// Of the 10 pairs of documents with a text, one has equal tokens, one is between, and two are
	// positive.
	if got := l.scoreFound(l.findSketches(t.Context(), sketches, all, 1), 1); got.Recall != 1 ||
		got.FalsePairs != 6 || got.Precision != .25 {
		t.Errorf("all pairs: %+v", got)
	}
	if got := l.scoreFound(l.findSketches(t.Context(), sketches, whether(equal), 1),
		1); got.Recall != 0 || got.FalsePairs != 0 || got.Precision != 1 {
		t.Errorf("digests: %+v", got)
	}
	report := measured(t, l, match.Rule{MaxDistance: MaxDistance, MaxShingleDistance: -1,
		MaxLengthRatio: -1})
	methods, err := l.Compare(t.Context(), report, []*page.Signer{signer})
	if err != nil || len(methods) != 8 {
		t.Fatalf("%d methods, %v", len(methods), err)
	}
	for name, want := range map[string]float64{"neardup, k=16": 44,
		"digest of all tokens": 16 * 5. / 6, "MinHash, Jaccard >= 0.88": 512 * 5. / 6,
		"super-shingles, 2 of 6": 40, "simhash of words, k=3": 8 * 5. / 6} {
		i := slices.IndexFunc(methods, func(m Method) bool { return m.Name == name })
		if i < 0 || !approx(methods[i].BytesPerDocument, want) || methods[i].MBPerSecond <= 0 {
			t.Errorf("%q: want %v bytes per document in %+v", name, want, methods)
		}
	}
	if methods[0].Score != report.Default.Score {
		t.Errorf("%+v, want the score of the report", methods[0])
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Compare(canceled, report, []*page.Signer{signer}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	docs[0].Text = ""
	if _, err := l.Compare(t.Context(), report, nil); !errors.Is(err, ErrDocuments) {
		t.Errorf("a document without a text: %v", err)
	}
}

// fingerprinted returns documents a, b, c and so on with fingerprints and with different tokens.
func fingerprinted(fps ...fingerprint.Fingerprint) (docs []*Document) {
	for i, f := range fps {
		docs = append(docs, &Document{ID: string(rune('a' + i)), tokens: digest{byte(i)},
			Signatures: []fingerprint.Signature{{Fingerprint: f, Tokens: 9}}})
	}
	return docs
}

// TestBestMethod scores three positive pairs and one negative pair. A higher threshold finds
// fewer of both. Among the thresholds with enough precision, the one with the most positive pairs
// is the best.
func TestBestMethod(t *testing.T) {
	docs := fingerprinted(0, 0, 0, 0, 0)
	l, err := Label(docs, []Pair{{.95, "a", "b"}, {.95, "a", "c"}, {.95, "b", "c"}})
	must(t, err)
	found := [][][]found{{nil, {{0, 9}}, {{0, 8}, {1, 4}}, nil, {{0, 6}}}}
	best, threshold := l.bestMethod(found, []int{4, 6, 7, 8, 9})
	if threshold != 7 || best.Precision != 1 || !approx(best.Recall, 2./3) {
		t.Errorf("threshold %d with precision %v and recall %v, want 7 with 1 and 2/3", threshold,
			best.Precision, best.Recall)
	}
	if best, threshold := l.bestMethod(found, []int{4, 6}); threshold != 4 || best.Recall != 1 ||
		best.Crawl.Dropped != 1 {
		t.Errorf("no threshold is precise: threshold %d, %+v", threshold, best)
	}
}

// TestCrawl counts dropped and stored documents. The fingerprints 0, 1 and 2 are near each other.
// All others are far.
func TestCrawl(t *testing.T) {
	docs := fingerprinted(0, 1, 0xff, 2, 0xff00, 3, 4, 0, 0xfe03)
	docs[5].tokens = docs[0].tokens
	docs[7].Signatures[0].Tokens = 0
	l, err := Label(docs, []Pair{
		{.95, "a", "b"},                  // found
		{.95, "a", "c"},                  // missed
		{.85, "e", "a"},                  // neither
		{.95, "f", "b"},                  // f has the tokens of a
		{.95, "b", "g"}, {.85, "a", "g"}, // found
		{.95, "h", "a"}, // nothing to compare
	})
	must(t, err)
	rule := match.Rule{MaxDistance: 2, MaxShingleDistance: -1, MaxLengthRatio: -1}
	// d is dropped. The ninth document is near only d, which is not stored.
	want := Crawl{
		Distinct: 3, Dropped: 1, DroppedPerMillion: 1e6 / 3., Duplicates: 3, Stored: 1,
		StoredPerMillion: 1e6 / 3.,
		LossPerMillion:   11e6 / 6,
	}
	if got := measured(t, l, rule).Crawl; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
