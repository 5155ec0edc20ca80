package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestErrors tests that a broken connection, which is not standard output, is a failure, and that
// a cause of several errors of a run is printed once.
func TestErrors(t *testing.T) {
	lost := os.NewSyscallError("write", syscall.EPIPE)
	var diagnostics bytes.Buffer
	a := &app{streams: &streams{nil, io.Discard, &diagnostics}, call: new(call)}
	code := a.exitCode(t.Context(), "neardup compare", lost)
	if code != exitFailed || !strings.Contains(diagnostics.String(), "broken pipe") {
		t.Errorf("exit code %d: %s", code, &diagnostics)
	}
	full := errors.New("no space left\x1b")
	if got := printable(errors.Join(fmt.Errorf("add: %w", full), full, errors.New("another"),
		full)); got != "add: no space left\\x1b\nanother" {
		t.Errorf("%q", got)
	}
}

// TestClosedPipe tests that each subcommand ends without a message, as cat does, if standard
// output is closed. This must also work if there is more input, and no temporary index may
// remain.
func TestClosedPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("pipes are different there")
	}
	list := writeFile(t, "list.txt",
		"0000000000000001\ta\n0000000000000003\tb\n0000000000000001\tc\n")
	dir, temporary := filepath.Join(t.TempDir(), "ix"), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	mustRun(t, "import", "--index", dir, list)
	more := strings.Repeat("0000000000000001\tagain\n", 100_000)
	for _, args := range []string{
		"dedup --format fingerprints -", "query --index DIR --format fingerprints LIST",
		"query --scan LIST LIST", "dedup --keep-duplicates --index DIR --format fingerprints LIST",
		"dedup LIST", "fingerprint LIST", "export --index DIR", "delete --index DIR c",
		"pairs LIST", "pairs --index DIR", "clusters LIST", "clusters --index DIR --removals",
		"stats --index DIR", "compact --index DIR", "checkpoint --index DIR DIR.copy", "plan",
		"bench --documents 100",
	} {
		r, w, err := os.Pipe()
		must(t, err, r.Close())
		words := strings.NewReplacer("DIR", dir, "LIST", list).Replace(args)
		cmd, diagnostics := process(strings.Fields(words)...), new(bytes.Buffer)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(more), w, diagnostics
		cmd.Run()
		w.Close()
		if code := cmd.ProcessState.ExitCode(); code != exitUnread ||
			strings.Contains(diagnostics.String(), "pipe") {
			t.Errorf("neardup %s: exit code %d, standard error:\n%s", args, code, diagnostics)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("files remain: %v (%v)", left, err)
	}
}
