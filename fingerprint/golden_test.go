package fingerprint

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// The golden fingerprints are part of the disk format: an index has fingerprints of older builds.
// A change of testdata/fingerprints/*.golden is a change of the format and requires a new version
// in the Analyzer's name.
var update = flag.Bool(
	"update", false, "rewrite the golden fingerprints: this is a change of format")

const goldenDir = "../testdata/fingerprints"

// goldenOptions returns the options of the lines of a golden file.
func goldenOptions() []Options {
	return []Options{
		{},
		{Seed: 7},
		{Method: MethodSimhash},
		{Method: MethodSimhash, Window: 3},
	}
}

// goldenTexts returns the texts by file name.
func goldenTexts(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.txt"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d texts in %s, %v", len(files), goldenDir, err)
	}
	texts := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		testenv.Must(t, err)
		texts[filepath.Base(file)] = string(b)
	}
	return texts
}

func TestGolden(t *testing.T) {
	for name, text := range goldenTexts(t) {
		var got strings.Builder
		got.WriteString("# fingerprint, shingles, digest, tokens, short, analyzer. Part of the " +
			"disk format: see golden_test.go.\n")
		for _, o := range goldenOptions() {
			a := newAnalyzer(t, o)
			s := a.Text(text)
			fmt.Fprintf(&got, "%v %v %v %d %v %s\n", s.Fingerprint, s.Shingles, s.Digest, s.Tokens,
				s.Short, a.Name())
		}
		golden := filepath.Join(goldenDir, strings.TrimSuffix(name, ".txt")+".golden")
		if *update {
			testenv.Must(t, os.WriteFile(golden, []byte(got.String()), 0o644))
			continue
		}
		b, err := os.ReadFile(golden)
		testenv.Must(t, err)
		// A checkout may change line ends.
		if want := strings.ReplaceAll(string(b), "\r\n", "\n"); got.String() != want {
			t.Errorf("%s: a change of format.\n got:\n%swant:\n%s", name, &got, want)
		}
	}
}
