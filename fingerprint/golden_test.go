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

// The golden fingerprints are part of the disk format: an index holds fingerprints of older builds.
// A change of testdata/fingerprints/*.golden is a change of the format and requires a new version
// in the Analyzer's name.
var update = flag.Bool(
	"update", false, "rewrite the golden fingerprints: this is a change of format")

const goldenDir = "../testdata/fingerprints"

// goldenOptions are the lines of the goldens.
func goldenOptions() []Options {
	return []Options{
		{},
		{Seed: 7},
		{Method: MethodSimhash},
		{Method: MethodSimhash, Window: 3},
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
		fmt.Fprintf(&got, "# fingerprint, shingles, digest, tokens, short, analyzer. Part of the "+
			"disk format: see golden_test.go.\n")
		for _, o := range goldenOptions() {
			a := newAnalyzer(t, o)
			s := a.Text(string(text))
			fmt.Fprintf(&got, "%v %v %v %d %v %s\n", s.Fingerprint, s.Shingles, s.Digest, s.Tokens,
				s.Short, a.Name())
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
			t.Errorf("%s: a change of format.\n got:\n%swant:\n%s", filepath.Base(file),
				got.Bytes(), want)
		}
	}
}
