package fingerprint_test

import (
	"fmt"
	"maps"

	"github.com/neardup/neardup/fingerprint"
)

func ExampleAnalyzer() {
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{ShortWords: -1})
	if err != nil {
		panic(err)
	}
	s := a.Text("The quick brown fox jumps over the lazy dog.")
	t := a.Text("The QUICK brown fox – jumps over the lazy dog!")
	u := a.Text("The quick brown fox jumps over the lazy cat.")
	fmt.Println(a.Name())
	fmt.Println(s.Fingerprint, s.Features)
	fmt.Println(s.Fingerprint.Distance(t.Fingerprint), s.Fingerprint.Distance(u.Fingerprint))
	// Output:
	// text/3 short=0
	// 7b4c14e4e276d7bc 9
	// 0 8
}

// idf is a Weigher by inverse document frequency, in hundredths.
type idf struct {
	name    string
	weights map[string]int
}

func (w idf) Name() string { return w.name }

func (w idf) Weight(feature []byte, count int) int {
	return count * w.weights[string(feature)] // features without a weight are left out
}

func ExampleWeigher() {
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{
		Weigher:    idf{"idf-2026-11", map[string]int{"the": 1, "fox": 740, "dog": 610}},
		ShortWords: -1,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Name())
	fmt.Println(a.Text("the fox and the dog").Fingerprint == a.Text("THE dog, a fox, the").Fingerprint)
	// Output:
	// text/3 weigher=idf-2026-11 short=0
	// true
}

func ExampleSimhash() {
	f := fingerprint.Simhash(maps.All(map[string]int{"title:rain": 5, "rain": 2, "sea": 1}))
	fmt.Println(f)
	// Output: 2833b677a7df2211
}

func ExampleAccumulator() {
	// Fingerprints as tools with FNV-1 over UTF-16 make them.
	var sum fingerprint.Accumulator
	for _, token := range []string{"the", "cat", "sat", "on", "the", "mat"} {
		sum.Add(fingerprint.FNV1(token), 1)
	}
	fmt.Println(sum.Fingerprint())
	// Output: d89fc1186bf9bc7f
}
