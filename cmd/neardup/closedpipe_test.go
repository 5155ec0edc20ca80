package main

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestBrokenPipeElsewhere: a broken pipe or connection that is not standard output is a failure
// with a message.
func TestBrokenPipeElsewhere(t *testing.T) {
	lost := &url.Error{Op: "Get", URL: "http://127.0.0.1/",
		Err: &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}}
	var diagnostics bytes.Buffer
	a := &app{streams: &streams{strings.NewReader(""), io.Discard, &diagnostics}, call: new(call)}
	code := a.exitCode(t.Context(), "neardup compare", lost)
	if code != exitFailed || !strings.Contains(diagnostics.String(), "broken pipe") {
		t.Errorf("exit code %d: %s", code, &diagnostics)
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
		"query --index DIR --format fingerprints LIST", "query --scan LIST LIST",
		"dedup --keep-duplicates --index DIR --format fingerprints LIST", "dedup LIST",
		"dedup --format fingerprints -", "fingerprint LIST",
		"export --index DIR", "delete --index DIR c", "pairs LIST", "pairs --index DIR",
		"clusters LIST", "clusters --index DIR --removals", "stats --index DIR",
		"compact --index DIR", "checkpoint --index DIR DIR.copy", "plan", "bench --documents 100",
	} {
		r, w, err := os.Pipe()
		must(t, err)
		r.Close()
		words := strings.Fields(strings.NewReplacer("DIR", dir, "LIST", list).Replace(args))
		var diagnostics bytes.Buffer
		code := 0
		if args == "dedup --format fingerprints -" { // also tests the signal handling of main
			cmd := process(words...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(more), w, &diagnostics
			cmd.Run()
			code = cmd.ProcessState.ExitCode()
		} else {
			code = run(t.Context(), words, &streams{strings.NewReader(more), w, &diagnostics})
		}
		w.Close()
		if code != exitUnread || strings.Contains(diagnostics.String(), "pipe") {
			t.Errorf("neardup %s: exit code %d, standard error:\n%s", args, code, &diagnostics)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
