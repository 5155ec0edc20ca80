package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestQueryAnswersANamedPipe writes queries into a named pipe one by one. Each must be answered
// before the next is written.
func TestQueryAnswersANamedPipe(t *testing.T) {
	dir, pipe := filepath.Join(t.TempDir(), "ix"), filepath.Join(t.TempDir(), "queries")
	mustRun(t, "import", "--index", dir, writeFile(t, "list", "00000000000000ff\tkey\n"))
	must(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, answers := io.Pipe()
	go func() {
		code := run(ctx, []string{"query", "--index", dir, "--format", "fingerprints", pipe},
			&streams{nil, answers, io.Discard})
		if answers.Close(); code != exitDone {
			t.Errorf("exit code %d", code)
		}
	}()
	queries, err := os.OpenFile(pipe, os.O_RDWR, 0) // does not wait for the command to open it
	must(t, err)
	lines := bufio.NewReader(out)
	for range 3 {
		queries.WriteString("00000000000000fe\n")
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("%v: no answer before the next query", err)
		}
	}
	queries.Close()
	io.Copy(io.Discard, lines)
}
