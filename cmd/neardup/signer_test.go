package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
)

// An index that a program makes with the Signer of the README is one that the command
// opens, and the other way round: both record one name and make the same fingerprints.
func TestOneAnalyzer(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	body := []byte("<title>Ferries</title><nav>Home</nav><p>" + strings.Repeat("The ferry leaves at nine, at noon & at five. ", 30))
	file := writeFile(t, "ferries.html", string(body))
	signer, err := page.NewSigner(page.Visible, fingerprint.Options{})
	if err != nil {
		t.Fatal(err)
	}

	made := filepath.Join(dir, "made by a program")
	x, err := index.Open(made, &index.Options{Analyzer: signer.Name()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := signer.Sign("text/html", body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.CheckAndAdd(ctx, index.Document{Key: "a", Fingerprint: s.Fingerprint, Shingle: s.Shingle, Tokens: s.Tokens}); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	verdicts := verdictsOf(t, []string{"dedup", "-index", made, file}, 1)
	if len(verdicts) != 1 || verdicts[0].Verdict != "duplicate" || verdicts[0].Of.Key != "a" || verdicts[0].Of.Distance != 0 {
		t.Errorf("the command: %+v", verdicts)
	}

	made = filepath.Join(dir, "made by the command")
	verdictsOf(t, []string{"dedup", "-index", made, "-text", "main", file}, 1)
	if _, err := index.Open(made, &index.Options{Analyzer: signer.Name(), MaxDistance: 6}); err == nil {
		t.Error("an index of main texts was opened for visible ones")
	}
	if x, err = index.Open(made, &index.Options{MaxDistance: 6}); err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if signer, err = page.ParseSigner(x.Stats().Analyzer); err != nil {
		t.Fatal(err)
	}
	if s, err = signer.Sign("text/html", body); err != nil {
		t.Fatal(err)
	}
	matches, err := x.Query(ctx, index.Query{Signature: s})
	if err != nil || len(matches) != 1 || matches[0].Distance != 0 {
		t.Errorf("the program: %+v, %v", matches, err)
	}
}
