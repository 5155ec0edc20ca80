package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/match"
)

// TestReadyFingerprints tests that a fingerprint whose key is too long is skipped.
func TestReadyFingerprints(t *testing.T) {
	list := writeFile(t, "list.jsonl", `{"key":"a","fingerprint":"00000000000000ff"}
{"key":"`+strings.Repeat("x", match.MaxKeyBytes+1)+`","fingerprint":"00000000ffff00ff"}
{"key":"b","fingerprint":"ff000000000000ff"}
`)
	for _, command := range []string{"--keep-duplicates", "--keep-duplicates=false"} {
		dir := filepath.Join(t.TempDir(), "ix")
		mustRun(t, "dedup", command, "--index", dir, list)
		if stored := exported(t, dir); len(stored) != 2 {
			t.Errorf("%s: %q are stored", command, stored)
		}
	}
	long := writeFile(t, "list", "00000000000000ff\ta\n00000000000000ff\t"+
		strings.Repeat("x", match.MaxKeyBytes+1)+"\n")
	code, _, errs := runHere("", "import", "--index", filepath.Join(t.TempDir(), "ix"), long)
	if code != exitFailed || !strings.Contains(errs, long+" line 2: ") {
		t.Errorf("import: %d, %s", code, errs)
	}
}

// If the temporary index cannot be created, the error must say what to do.
func TestNoPlaceForTheTemporaryIndex(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	t.Setenv("TMPDIR", nowhere)
	t.Setenv("TMP", nowhere)
	code, _, errs := runHere("", "dedup", writeFile(t, "page.txt", "some words"))
	if code != exitFailed || !strings.Contains(errs, nowhere) ||
		!strings.Contains(errs, "set --index, or another TMPDIR") {
		t.Errorf("%d, %s", code, errs)
	}
}
