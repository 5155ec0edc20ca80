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

func TestShingles(t *testing.T) {
	for tokens, want := range map[string][]string{
		"a": {"a"}, "a b c d": {"a b c d"}, "a b c d e f": {"a b c d", "b c d e", "c d e f"},
	} {
		if got := shingles(strings.Fields(tokens)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", tokens, got, want)
		}
	}
}

func TestTokenDigest(t *testing.T) {
	if !slices.Equal(tokenDigest([]string{"a", "b"}, 0), tokenDigest([]string{"a", "b"}, 1)) {
		t.Error("equal tokens, other digests")
	}
	if slices.Equal(tokenDigest([]string{"a", "b"}, 0), tokenDigest([]string{"b", "a"}, 0)) {
		t.Error("another order, one digest")
	}
}

// The share of equal min-hashes is the Jaccard similarity, here 10 of 30, within five standard
// deviations.
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
	if !slices.Equal(a, minHash(append(reversed, features[3]), n, 1)) {
		t.Error("the min-hashes of a set depend on order or repetition")
	}
	if slices.Equal(a, minHash(features[:20], n, 2)) {
		t.Error("two seeds have the same permutations")
	}
}

func TestSimhash(t *testing.T) {
	if got, want := simhash(strings.Fields("x y x"), 0),
		(sketch{xxhash.Sum64String("x")}); !slices.Equal(got, want) {
		t.Errorf("%x, want %x: x has the majority", got, want)
	}
	least := sketchers[2].thresholds[0]
	if equalBits(sketch{0}, sketch{7}) < least || equalBits(sketch{0}, sketch{15}) >= least {
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
	if got := l.scoreFound(l.findSketches(t.Context(), sketches, agreeing, 2),
		2); got.Recall != 0 || got.FalsePairs != 0 || got.Precision != 1 {
		t.Errorf("digests: %+v", got)
	}
	report := measured(t, l, match.Rule{MaxDistance: MaxDistance, MaxShingleDistance: -1,
		MaxLengthRatio: -1})
	methods, err := l.Compare(t.Context(), report, []*page.Signer{signer})
	if err != nil || len(methods) != 4 {
		t.Fatalf("%d methods, %v", len(methods), err)
	}
	for name, want := range map[string]float64{"neardup, k=16": 44,
		"digest of all tokens": 16 * 5. / 6, "MinHash, Jaccard >= 0.88": 512 * 5. / 6,
		"simhash of words, k=3": 8 * 5. / 6} {
		i := slices.IndexFunc(methods, func(m Method) bool { return m.Name == name })
		if i < 0 || !approx(methods[i].BytesPerDocument, want) || methods[i].MBPerSecond <= 0 {
			t.Errorf("%q: want %v bytes of a document in %+v", name, want, methods)
		}
	}
	if methods[0].Score != report.Default.Score {
		t.Errorf("%+v is not ours", methods[0])
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Compare(canceled, report, []*page.Signer{signer}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	docs[0].Text = ""
	if _, err := l.Compare(t.Context(), report, nil); !errors.Is(err, ErrDocuments) {
		t.Errorf("a ready fingerprint: %v", err)
	}
}

// TestBestMethod scores three positive pairs and one negative pair. A higher threshold finds
// fewer of both. Among the thresholds with enough precision, the one with the most positive pairs
// is the best.
func TestBestMethod(t *testing.T) {
	var docs []*Document
	for i := range 5 {
		docs = append(docs, &Document{
			ID: string(rune('a' + i)), Signatures: []fingerprint.Signature{{Tokens: 9}},
			tokens: digest{byte(i)},
		})
	}
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
		t.Errorf("without a precise one: threshold %d, %+v", threshold, best)
	}
}

// TestCrawl counts dropped and stored documents. The fingerprints 0, 1 and 2 are near each other.
// All others are far.
func TestCrawl(t *testing.T) {
	var docs []*Document
	for i, f := range []fingerprint.Fingerprint{0, 1, 0xff, 2, 0xff00, 3, 4, 0, 0xfe03} {
		docs = append(docs, &Document{
			ID:         string(rune('a' + i)),
			Signatures: []fingerprint.Signature{{Fingerprint: f, Tokens: 9}},
			tokens:     digest{byte(i)},
		})
	}
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
