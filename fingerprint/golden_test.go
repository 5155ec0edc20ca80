package fingerprint

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The golden fingerprints are part of the disk format: an index holds what an
// older build computed. A change in testdata/fingerprints/*.golden is a change of format and
// takes a new version in the Analyzer's name.
var update = flag.Bool("update", false, "rewrite the golden fingerprints: this is a change of format")

const goldenDir = "../testdata/fingerprints"

// firstFive is a stemmer and rarity a weigher for tests.
type firstFive struct{}

func (firstFive) Name() string { return "first-five-bytes/1" }
func (firstFive) Stem(dst, token []byte) []byte {
	return append(dst, token[:min(len(token), 5)]...)
}

type rarity struct{}

func (rarity) Name() string { return "length/1" }
func (rarity) Weight(feature []byte, count int) int {
	return len(feature)*count - 6 // common words are short; some weights are negative
}

func goldenOptions(t *testing.T) []Options {
	stop := NewStopWords("the", "a", "of", "and", "der", "die", "und", "le", "la", "и", "в", "في", "的", "है")
	phrases, err := NewPhrases("the keeper's", "third of may", "two windows and", "на дело", "修伞", "Blue ANNA", "большой дом")
	if err != nil {
		t.Fatal(err)
	}
	return []Options{
		{},
		{Cap: 2},
		{Weight: Count},
		{Weight: Sqrt},
		{Weight: Log},
		{Weight: Once},
		{Weigher: rarity{}},
		{Window: 2},
		{Window: 4, Weight: Once, ShortWords: -1},
		{Hash: HashFNV1, Weight: Count, ShortWords: -1},
		{StopWords: stop},
		{Stemmer: firstFive{}},
		{StopWords: stop, Stemmer: firstFive{}, Phrases: phrases},
		{Phrases: phrases, ReplacePhrases: true, Window: 2},
		{ShortWords: 5},
	}
}

func TestGolden(t *testing.T) {
	texts, err := filepath.Glob(filepath.Join(goldenDir, "*.txt"))
	if err != nil || len(texts) < 20 {
		t.Fatalf("%d texts in %s, %v", len(texts), goldenDir, err)
	}
	for _, file := range texts {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// A checkout may change line ends; they are separators either way.
		var got bytes.Buffer
		fmt.Fprintf(&got, "# fingerprint, shingle, features, short, analyzer. Part of the disk format: see golden_test.go.\n")
		for _, o := range goldenOptions(t) {
			a := newAnalyzer(t, o)
			s := a.Text(string(text))
			fmt.Fprintf(&got, "%v %v %d %v %s\n", s.Fingerprint, s.Shingle, s.Features, s.Short, a.Name())
		}
		golden := strings.TrimSuffix(file, ".txt") + ".golden"
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: a change of format.\n got:\n%swant:\n%s", filepath.Base(file), got.Bytes(), want)
		}
	}
}
