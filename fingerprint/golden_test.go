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

func goldenOptions() (options []Options) {
	for _, p := range goldenPapers() {
		if p.name == "" {
			options = append(options, p.Options)
		}
	}
	return options
}

// goldenPapers are the lines of the goldens.
func goldenPapers() []paper {
	stop := tokenSet("the", "a", "of", "and", "der", "die", "und", "le", "la", "и", "в", "في", "的", "है")
	phrases := map[string]bool{}
	for _, phrase := range []string{"the keeper's", "third of may", "two windows and", "на дело", "修伞", "Blue ANNA", "большой дом"} {
		phrases[strings.Join(naiveTokens(phrase), " ")] = true
	}
	firstFive := func(token string) string { return token[:min(len(token), 5)] }
	rarity := func(feature string, n int) int { return len(feature)*n - 6 } // common words are short; some weights are negative
	return []paper{
		{Options: Options{Method: MethodSimhash}},
		{Options: Options{Cap: 2}},
		{Options: Options{Weight: "count"}},
		{Options: Options{Weight: "sqrt"}},
		{Options: Options{Weight: "log"}},
		{Options: Options{Weight: "once"}},
		{weigh: rarity, Options: Options{Method: MethodSimhash}, name: "weigher=length/1"},
		{Options: Options{Window: 2}},
		{Options: Options{Window: 4, Weight: "once", ShortWords: -1}},
		{fnv1: true, Options: Options{Weight: "count", ShortWords: -1}, name: "weight=count hash=fnv1 short=0"},
		{stop: stop, Options: Options{Method: MethodSimhash}, name: "stop=10696203a794e001"},
		{stem: firstFive, Options: Options{Method: MethodSimhash}, name: "stem=first-five-bytes/1"},
		{stop: stop, stem: firstFive, phrases: phrases, Options: Options{Method: MethodSimhash}, name: "stop=10696203a794e001 stem=first-five-bytes/1 phrases=c6f2807410c14cba"},
		{phrases: phrases, replace: true, Options: Options{Window: 2}, name: "window=2 replace=c6f2807410c14cba"},
		{Options: Options{Method: MethodSimhash, ShortWords: 5}},
		{},
		{Options: Options{Seed: 7, ShortWords: 30}},
	}
}

func tokenSet(words ...string) map[string]bool {
	set := map[string]bool{}
	for _, token := range naiveTokens(strings.Join(words, " ")) {
		set[token] = true
	}
	return set
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
		fmt.Fprintf(&got, "# fingerprint, shingle, tokens, short, analyzer. Part of the disk format: see golden_test.go.\n")
		for _, p := range goldenPapers() {
			a := newAnalyzer(t, p.Options)
			s, name := a.Text(string(text)), a.Name()
			if p.name != "" {
				s, name = p.signature(Tokens(string(text))), simhashVersion+" "+p.name
			}
			fmt.Fprintf(&got, "%v %v %d %v %s\n", s.Fingerprint, s.Shingle, s.Tokens, s.Short, name)
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
