package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExitCodes tests that the exit codes distinguish success, failure and an invalid command
// line.
func TestExitCodes(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	broken := writeFile(t, "broken.jsonl.gz", "\x1f\x8b\x08rest")
	damaged := filepath.Join(t.TempDir(), "damaged")
	mustRun(t, "import", "--index", damaged, writeFile(t, "list.txt", "00000000000000ff\ta\n"))
	options, err := filepath.Glob(filepath.Join(damaged, "OPTIONS-*"))
	must(t, err)
	for _, name := range options {
		must(t, os.WriteFile(name, []byte("damaged"), 0o600))
	}
	verified := filepath.Join(t.TempDir(), "verified")
	for args, want := range map[string]int{
		"help":                      exitDone,
		"--version":                 exitDone,
		"query -h":                  exitDone,
		"plan --documents 1e6":      exitDone,
		"stats --index " + nowhere:  exitFailed,
		"stats --index " + damaged:  exitDamaged,
		"verify --index " + damaged: exitDamaged,
		"fingerprint " + broken:     exitDamaged,
		"dedup " + broken:           exitDamaged,
		"import --index " + verified + " " + broken: exitDamaged,
		"fingerprint " + nowhere:                    exitFailed,
		"":                                          exitDone,
		"nosuch":                                    exitUsage,
		"stats":                                     exitUsage,
		"stats --nosuch":                            exitUsage,
		"query --max-distance -1 --index a " + nowhere: exitUsage,
	} {
		got, _, said := runHere("", strings.Fields(args)...)
		if got != want {
			t.Errorf("neardup %s: exit code %d, not %d: %s", args, got, want, said)
		}
		if want != exitDone && said == "" {
			t.Errorf("neardup %s: nothing says why", args)
		}
	}
}

// TestErrorsOnce tests that an error of several parts of a run is printed once.
func TestErrorsOnce(t *testing.T) {
	full := errors.New("no space left\x1b")
	if got := printable(errors.Join(fmt.Errorf("add: %w", full), full, errors.New("another"),
		full)); got != "add: no space left\\x1b\nno space left\\x1b\nanother" {
		t.Errorf("%q", got)
	}
}
