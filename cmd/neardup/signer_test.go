package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
)

// TestOneAnalyzer tests that the command and package neardup can open each other's indexes. They
// must compute the same signature of a page, without options for the text.
func TestOneAnalyzer(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	body := []byte("<title>Ferries</title><nav>Home</nav><p>" +
		strings.Repeat("The ferry leaves at nine, at noon & at five. ", 30))
	file, list := writeFile(t, "ferries.html", string(body)),
		writeFile(t, "list.fingerprints", "00000000000000ff\tq\n")
	main, err := page.NewSigner(page.Main, fingerprint.Options{})
	must(t, err)
	for what, opts := range map[string]*neardup.Options{"visible": nil, "main": {Signer: main}} {
		made := filepath.Join(dir, what, "made by a program")
		x, err := neardup.Open(made, opts)
		must(t, err)
		if v, err := x.Check(ctx, neardup.Page{URL: "a", ContentType: "text/html",
			Body: body}); err != nil || v.Status != neardup.New {
			t.Fatalf("%v, %v", v.Status, err)
		}
		must(t, x.Close())
		for _, args := range [][]string{{"dedup", "--index", made},
			{"dedup", "--index", made, "--text", what}} {
			verdicts := verdictsOf(t, append(args, file))
			if len(verdicts) != 1 || verdicts[0].Verdict != "duplicate" ||
				verdicts[0].Of.Key != "a" || verdicts[0].Of.Distance != 0 {
				t.Errorf("%q: %+v", args, verdicts)
			}
		}
		if code, out, errs := runHere("", "query", "--index", made, file); code != exitDone ||
			!strings.Contains(out, `"key":"a"`) {
			t.Errorf("query: %d, %s%s", code, out, errs)
		}

		made = filepath.Join(dir, what, "made by the command")
		verdictsOf(t, []string{"dedup", "--index", made, "--text", what, file})
		if x, err = neardup.Open(made, nil); err != nil {
			t.Fatal(err)
		}
		v, err := x.Check(ctx, neardup.Page{URL: "b", ContentType: "text/html", Body: body})
		if err != nil || v.Status != neardup.Duplicate || v.Of.Distance != 0 || v.Of.Key != file {
			t.Errorf("the program: %+v, %v", v, err)
		}
		if k := x.Plan().MaxDistance; k != check.DefaultMaxDistance {
			t.Errorf("k = %d", k)
		}
		must(t, x.Close())
	}
	if code, _, errs := runHere("", "dedup", "--index",
		filepath.Join(dir, "main", "made by a program"), "--text", "visible",
		file); code != exitFailed || !strings.Contains(errs, "analyzer") {
		t.Errorf("main texts compared with visible ones: %d, %s", code, errs)
	}

	// Fingerprint lists have no analyzer. An index of them compares fingerprints but refuses
	// texts.
	bare := filepath.Join(dir, "bare")
	if code, _, errs := runHere("", "import", "--index", bare, list); code != exitDone {
		t.Fatal(errs)
	}
	if code, out, errs := runHere("", "query", "--index", bare, list); code != exitDone ||
		!strings.Contains(out, `"id":1,"key":"q"`) {
		t.Errorf("query: %d, %s%s", code, out, errs)
	}
	for _, args := range [][]string{{"query", "--index", bare, file},
		{"dedup", "--index", bare, file}} {
		if code, out, errs := runHere("", args...); code != exitFailed || out != "" ||
			!strings.Contains(errs, "analyzer") {
			t.Errorf("%q: %d, %s%s", args, code, out, errs)
		}
	}
}

// TestIndexOfAnEarlierAnalyzer opens an index of an earlier version with another text mode or
// other features. The index opens, but pages are not compared with it, and the error says what to
// do.
func TestIndexOfAnEarlierAnalyzer(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	made, list, file := filepath.Join(dir, "ix"), writeFile(t, "list.fingerprints",
		"00000000000000ff\tq\n"), writeFile(t, "a.txt", "some text\n")
	x, err := index.Open(made, &index.Options{Analyzer: "visible/2 text/3", MaxDistance: 6})
	must(t, err)
	if _, err := x.CheckAndAdd(ctx, index.Document{Key: "a", Fingerprint: 0xff,
		Shingles: fingerprint.ShingleSignature{3}, Tokens: 100}); err != nil {
		t.Fatal(err)
	}
	must(t, x.Close())
	for _, test := range []struct {
		args []string
		want string // expected output
	}{
		{[]string{"query", "--index", made, list}, `"key":"a"`},
		{[]string{"export", "--index", made}, `"key":"a","fingerprint":"00000000000000ff"`},
		{[]string{"stats", "--index", made}, "visible/2 text/3"},
		{[]string{"compact", "--index", made}, ""},
		{[]string{"verify", "--index", made}, ""},
		{[]string{"repair", "--index", made, filepath.Join(dir, "repaired")}, ""},
		{[]string{"stats", "--index", filepath.Join(dir, "repaired")}, "visible/2 text/3"},
	} {
		if code, out, errs := runHere("", test.args...); code != exitDone ||
			!strings.Contains(out, test.want) {
			t.Errorf("%q: %d, %s%s", test.args, code, out, errs)
		}
	}
	for _, args := range [][]string{
		{"dedup", "--index", made, file}, {"query", "--index", made, file},
		{"dedup", "--index", made, "--text", "visible", file},
	} {
		if code, out, errs := runHere("", args...); code != exitFailed || out != "" ||
			!strings.Contains(errs, "a new index from the documents") {
			t.Errorf("%q: %d, %s%s", args, code, out, errs)
		}
	}
	if _, err := neardup.Open(made, nil); !errors.Is(err, index.ErrMismatch) {
		t.Errorf("Open: %v", err)
	}
}
