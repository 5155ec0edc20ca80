package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
)

// hostileKeys would be other records or other keys if they were written without quotes.
var hostileKeys = []string{
	"http://a.example/plain", "a\nffffffffffffffff\tevil", "a\r\nb", "a\r", "\n", "\t", " ",
	"tab\tand 12", "\x1b[31mred\x1b[0m", "nul\x00",
	"\x7f", "\u009b2J", "\xff\xfe no text", "\u202eevil", "\u2028", `"quoted"`, `"`, `"open`,
	`back\slash \n`, "é漢字😀", strings.Repeat("\x01", match.MaxKeyBytes),
}

// hostileIndex returns an index of documents with these keys and equal fingerprints.
func hostileIndex(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "ix")
	x, err := index.Open(dir, nil)
	must(t, err)
	docs := []index.Document{{Key: "kept", Fingerprint: 1}}
	for _, key := range hostileKeys {
		docs = append(docs, index.Document{Key: key, Fingerprint: 1})
	}
	must(t, x.Add(context.Background(), docs...), x.Close())
	return dir
}

func keysIn(t *testing.T, dir string) (keys []string) {
	t.Helper()
	x, err := index.Open(dir, &index.Options{ReadOnly: true})
	must(t, err)
	defer x.Close()
	for d, err := range x.Documents(context.Background()) {
		must(t, err)
		if d.Fingerprint != 1 {
			t.Errorf("%q has fingerprint %v", d.Key, d.Fingerprint)
		}
		keys = append(keys, d.Key)
	}
	slices.Sort(keys)
	return keys
}

// TestExportOfHostileKeys tests that every exported key is imported unchanged, whatever bytes it
// has. Lists must have no bytes that a terminal interprets.
func TestExportOfHostileKeys(t *testing.T) {
	dir := hostileIndex(t)
	for format, export := range map[string]string{"jsonl": mustRun(t, "export", "--index", dir),
		"txt": listed(t, dir)} {
		onlyPrintable(t, "export", export, 0)
		again := filepath.Join(t.TempDir(), "again")
		mustRun(t, "import", "--index", again, writeFile(t, "export."+format, export))
		if got, want := keysIn(t, again), keysIn(t, dir); !slices.Equal(got, want) {
			t.Errorf("%s: export and import made %d keys of %d:\n%q\n%q", format, len(got),
				len(want), got, want)
		}
	}
}

// TestRemovalOfHostileKeys tests that delete reads keys as export writes them, and deletes
// exactly these documents.
func TestRemovalOfHostileKeys(t *testing.T) {
	dir := hostileIndex(t)
	var list strings.Builder
	for _, line := range exported(t, dir) {
		if _, key, _ := strings.Cut(line, "\t"); key != "kept" {
			list.WriteString(key + "\n")
		}
	}
	onlyPrintable(t, "the list of keys", list.String(), len(hostileKeys))
	if code, _, diagnostics := runHere(list.String(), "delete", "--index", dir,
		"-"); code != exitDone {
		t.Fatal(code, diagnostics)
	}
	if got := keysIn(t, dir); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("%q are left", got)
	}
}

// TestHostileKeysOnATerminal tests that no subcommand prints a key or a file name in a form that
// a terminal interprets.
func TestHostileKeysOnATerminal(t *testing.T) {
	t.Parallel()
	dir := hostileIndex(t)
	onlyPrintable(t, "clusters", mustRun(t, "clusters", "--index", dir), 0)
	input := writeFile(t, "docs.jsonl",
		`{"url":"a\nffffffffffffffff\tevil\u001b[2J","text":"some words"}`+"\n"+
			`{"url":"\u001b[2J","fingerprint":"no hex \u001b[2J"}`+"\n"+
			`{"url":"\u001b[2J","text":""}`+"\n")
	_, out, diagnostics := runHere("", "fingerprint", input)
	onlyPrintable(t, "fingerprint", out+diagnostics, 0)
	if !strings.Contains(out, `"a\nffffffffffffffff\tevil\x1b[2J"`) {
		t.Errorf("fingerprint printed\n%s", out)
	}
}

// onlyPrintable checks that the output is printable and, if lines is not 0, its number of lines.
func onlyPrintable(t *testing.T, what, out string, lines int) {
	t.Helper()
	for n, r := range []rune(out) {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			t.Errorf("%s printed %q at %d", what, r, n)
			return
		}
	}
	if got := strings.Count(out, "\n"); lines > 0 && got != lines {
		t.Errorf("%s printed %d lines, want %d", what, got, lines)
	}
}

// TestKeyBytes tests that keys that are not UTF-8, such as file names in Latin-1, are printed
// unchanged.
func TestKeyBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ix")
	list := writeFile(t, filepath.Join(t.TempDir(), "list.txt"),
		"0000000000000001\ta\xe9\n0000000000000001\ta\xe8\n")
	mustRun(t, "import", "--index", dir, list)
	const first, second = "\"key\":\"a\ufffd\",\"keyBytes\":\"Yek=\"",
		"\"key\":\"a\ufffd\",\"keyBytes\":\"Yeg=\""
	for command, want := range map[string][]string{
		"dedup --format fingerprints": {"{" + first + `,"fingerprint"`,
			"{" + second + `,"fingerprint"`, `"of":{` + first + `,"distance":0,"id":1}`},
		"query --index " + dir: {"{" + first + `,"fingerprint"`,
			`"matches":[{"id":1,` + first},
		"query --scan " + list:      {"{" + first, `"matches":[{"id":1,` + first},
		"clusters --max-distance 3": {`"kept":{"id":1,` + first, second},
	} {
		out := mustRun(t, append(strings.Fields(command), list)...)
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s: no %s in\n%s", command, part, out)
			}
		}
	}
}
