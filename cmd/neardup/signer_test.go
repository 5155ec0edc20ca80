package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/check"
)

// TestOneAnalyzer tests that the command and package neardup can open each other's indexes. They
// must compute the same signature of a page, without options for the text.
func TestOneAnalyzer(t *testing.T) {
	dir := t.TempDir()
	body := "<title>Ferries</title><nav>Home</nav><p>" +
		strings.Repeat("The ferry leaves at nine, at noon & at five. ", 30)
	file := writeFile(t, "ferries.html", body)
	main, err := page.NewSigner(page.Main, fingerprint.Options{})
	must(t, err)
	for what, opts := range map[string]*neardup.Options{"visible": nil, "main": {Signer: main}} {
		ferries := neardup.Page{URL: "a", ContentType: "text/html", Body: []byte(body)}
		made := filepath.Join(dir, what, "made by a program")
		x, err := neardup.Open(made, opts)
		must(t, err)
		if v, err := x.Check(t.Context(), ferries); err != nil || v.Status != neardup.New {
			t.Fatalf("%v, %v", v.Status, err)
		}
		must(t, x.Close())
		for _, args := range [][]string{{}, {"--text", what}} {
			verdicts := verdictsOf(t, append([]string{"dedup", "--index", made, file}, args...)...)
			if len(verdicts) != 1 || verdicts[0].Verdict != "duplicate" ||
				verdicts[0].Of.Key != "a" || verdicts[0].Of.Distance != 0 {
				t.Errorf("%q: %+v", args, verdicts)
			}
		}
		if out := mustRun(t, "query", "--index", made, file); !strings.Contains(out, `"key":"a"`) {
			t.Errorf("query: %s", out)
		}

		made = filepath.Join(dir, what, "made by the command")
		verdictsOf(t, "dedup", "--index", made, "--text", what, file)
		x, err = neardup.Open(made, nil)
		must(t, err)
		ferries.URL = "b"
		v, err := x.Check(t.Context(), ferries)
		if err != nil || v.Status != neardup.Duplicate || v.Of.Distance != 0 || v.Of.Key != file {
			t.Errorf("the program: %+v, %v", v, err)
		}
		if k := x.Plan().MaxDistance; k != check.DefaultMaxDistance {
			t.Errorf("k = %d", k)
		}
		must(t, x.Close())
	}
}
