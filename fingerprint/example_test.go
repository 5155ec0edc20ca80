package fingerprint_test

import (
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/stem"
	"github.com/neardup/neardup/fingerprint/stopwords"
)

func ExampleAnalyzer() {
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{})
	if err != nil {
		panic(err)
	}
	s := a.Text("The quick brown fox jumps over the lazy dog.")
	t := a.Text("The QUICK brown fox – jumps over the lazy dog!")
	u := a.Text("The quick brown fox jumps over the lazy cat.")
	fmt.Println(a.Name())
	fmt.Println(s.Fingerprint, s.Tokens)
	fmt.Println(s.Fingerprint.Distance(t.Fingerprint), s.Fingerprint.Distance(u.Fingerprint))
	// Output:
	// text/5
	// 799efa77b2e0dcaa 9
	// 0 2
}

// The following examples show the features of section 2 of the paper.

func ExampleTokens() {
	fmt.Printf("%q\n", fingerprint.Tokens("Don't STOP – 中文, ﬁne"))
	// Output: ["don" "t" "stop" "中" "文" "fine"]
}

// This example drops stop words.
func ExampleTokens_stopWords() {
	stop, err := stopwords.For("en")
	if err != nil {
		panic(err)
	}
	tokens := slices.DeleteFunc(fingerprint.Tokens("The fox and the dog"),
		func(token string) bool { return stop[token] })
	fmt.Printf("%q\n", tokens)
	// Output: ["fox" "dog"]
}

// This example reduces words to their stems.
func ExampleTokens_stemming() {
	stemmer, err := stem.For("en", "ru")
	if err != nil {
		panic(err)
	}
	tokens := fingerprint.Tokens("Running dogs, книгами")
	for i, token := range tokens {
		tokens[i] = stemmer.Stem(token)
	}
	fmt.Printf("%q\n", tokens)
	// Output: ["run" "dog" "книг"]
}

// This example adds phrases as features.
func ExampleTokens_phrases() {
	phrases := map[string]bool{"new york": true}
	tokens := fingerprint.Tokens("A boat to New York")
	features := slices.Clone(tokens)
	for i := range tokens[1:] {
		if phrase := tokens[i] + " " + tokens[i+1]; phrases[phrase] {
			features = append(features, phrase)
		}
	}
	fmt.Printf("%q\n", features)
	// Output: ["a" "boat" "to" "new" "york" "new york"]
}

// This example weights words by their rarity in a collection (IDF).
func ExampleAccumulator_weights() {
	rarity := map[string]int{"the": 1, "fox": 740, "dog": 610}
	var sum fingerprint.Accumulator
	for _, token := range fingerprint.Tokens("the fox and the dog") {
		sum.Add(xxhash.Sum64String(token), rarity[token])
	}
	fmt.Println(sum.Fingerprint())
	// Output: bce6c02d5136f238
}

// With MethodSimhash, windows of words are features.
func ExampleOptions_shingles() {
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{Method: fingerprint.MethodSimhash,
		Window: 3})
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Name(), a.Text("The quick brown fox jumps").Tokens)
	// Output: simhash/2 window=3 5
}

func ExampleAccumulator() {
	// Tools that use FNV-1 over UTF-16 compute this fingerprint.
	var sum fingerprint.Accumulator
	for _, token := range []string{"the", "cat", "sat", "on", "the", "mat"} {
		sum.Add(fingerprint.FNV1(token), 1)
	}
	fmt.Println(sum.Fingerprint())
	// Output: d89fc1186bf9bc7f
}
