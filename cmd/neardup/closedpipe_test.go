package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestClosedPipe: when no one reads the output any more, dedup fails, and leaves no
// temporary index behind.
func TestClosedPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("pipes are different there")
	}
	dir := t.TempDir()
	cmd := process("dedup", "-format", "jsonl", "-")
	cmd.Env = append(cmd.Environ(), "TMPDIR="+dir)
	var diagnostics bytes.Buffer
	cmd.Stderr = &diagnostics
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() }).Stop()
	fmt.Fprintln(stdin, `{"id":"first","text":"a page"}`)
	if _, err := bufio.NewReaderSize(stdout, 16).ReadString('\n'); err != nil {
		t.Fatal(err, diagnostics.String())
	}
	stdout.Close()
	go func() {
		io.WriteString(stdin, strings.Repeat(`{"text":"another page"}`+"\n", 1000))
		stdin.Close()
	}()
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != exitFailed || !strings.Contains(diagnostics.String(), "broken pipe") {
		t.Errorf("ended with %v and said\n%s", cmd.ProcessState, &diagnostics)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
