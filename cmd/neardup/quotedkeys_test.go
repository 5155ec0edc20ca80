package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
)

// hostileKeys are keys that would be read as other records or keys if they were not quoted.
var hostileKeys = []string{
	"http://a.example/plain", "a\nffffffffffffffff\tevil", "a\r\nb", "a\r", "\n", "\t", " ",
	"tab\tand 12", "\x1b[31mred\x1b[0m", "nul\x00",
	"\x7f", "\u009b2J", "\xff\xfe no text", "\u202eevil", "\u2028", `"quoted"`, `"`, `"open`,
	`back\slash \n`, "é漢字😀", strings.Repeat("\x01", match.MaxKeyBytes),
}

func keysIn(t *testing.T, dir string) (keys []string) {
	t.Helper()
	x, err := index.Open(dir, &index.Options{ReadOnly: true})
	must(t, err)
	defer x.Close()
	for d, err := range x.Documents(t.Context()) {
		must(t, err)
		keys = append(keys, d.Key)
	}
	return keys
}

// TestHostileKeys tests that keys with any bytes are exported, imported and deleted unchanged. No
// subcommand may print a key or a file name in a form that a terminal interprets.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ix")
	x, err := index.Open(dir, nil)
	must(t, err)
	for _, key := range append(hostileKeys, "kept") {
		must(t, x.Add(t.Context(), index.Document{Key: key, Fingerprint: 1}))
	}
	must(t, x.Close())
	want := keysIn(t, dir)
	lines, err := list(dir)
	must(t, err)
	for name, export := range map[string]string{
		"export.jsonl": mustRun(t, "export", "--index", dir), "export.txt": lines} {
		onlyPrintable(t, name, export)
		again := filepath.Join(t.TempDir(), "again")
		mustRun(t, "import", "--index", again, writeFile(t, name, export))
		if got := keysIn(t, again); !slices.Equal(got, want) {
			t.Errorf("%s: %q were imported, want %q", name, got, want)
		}
	}
	onlyPrintable(t, "clusters", mustRun(t, "clusters", "--index", dir))
	_, out, diagnostics := runHere("", "fingerprint", writeFile(t, "docs.jsonl",
		`{"url":"a\nffffffffffffffff\tevil\u001b[2J","text":"some words"}`+"\n"+
			`{"url":"\u001b[2J","fingerprint":"no hex \u001b[2J"}`+"\n"+
			`{"url":"\u001b[2J","text":""}`+"\n"))
	onlyPrintable(t, "fingerprint", out+diagnostics)
	if !strings.Contains(out, `"a\nffffffffffffffff\tevil\x1b[2J"`) {
		t.Errorf("fingerprint printed\n%s", out)
	}

	keys := strings.ReplaceAll(strings.ReplaceAll(lines, "0000000000000001\t", ""), "kept\n", "")
	if code, _, said := runHere(keys, "delete", "--index", dir, "-"); code != exitDone {
		t.Fatal(code, said)
	}
	if got := keysIn(t, dir); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("%q are left", got)
	}
}

// onlyPrintable checks that a terminal interprets no character of the output.
func onlyPrintable(t *testing.T, what, out string) {
	t.Helper()
	if at := strings.IndexFunc(out, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t'
	}); at >= 0 {
		t.Errorf("%s printed %.20q at %d", what, out[at:], at)
	}
}
