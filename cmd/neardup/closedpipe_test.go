package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestClosedPipe: when no one reads the output any more, dedup ends as cat does, and leaves no
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
	if got := cmd.ProcessState.ExitCode(); got != exitUnread || strings.Contains(diagnostics.String(), "broken pipe") {
		t.Errorf("ended with %v and said\n%s", cmd.ProcessState, &diagnostics)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// Every subcommand ends so, quietly, whatever it writes with.
func TestClosedPipeEverywhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("pipes are different there")
	}
	t.Parallel()
	list := writeFile(t, "list.txt", "0000000000000001\ta\n0000000000000003\tb\n0000000000000001\tc\n")
	dir := filepath.Join(t.TempDir(), "ix")
	mustRun(t, "import", "-index", dir, list)
	for _, args := range []string{
		"query -index DIR -format fingerprints LIST", "query -scan LIST LIST", "add -index DIR -format fingerprints LIST", "dedup LIST", "fingerprint LIST",
		"export -index DIR", "delete -index DIR c", "pairs LIST", "pairs -index DIR", "pairs -output-format csv LIST",
		"clusters LIST", "clusters -index DIR -output-format removals", "stats -index DIR", "stats -index DIR -output-format text",
		"compact -index DIR", "checkpoint -index DIR DIR.copy", "plan", "plan -scale", "bench -n 100 -seconds 0.001 -only load", "version", "completion bash", "help",
		"help dedup",
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		words := strings.Fields(strings.NewReplacer("DIR", dir, "LIST", list).Replace(args))
		cmd := process(words...)
		var diagnostics bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &diagnostics
		cmd.Run()
		w.Close()
		if got := cmd.ProcessState.ExitCode(); got != exitUnread || strings.Contains(diagnostics.String(), "pipe") {
			t.Errorf("neardup %s ended with %v and said\n%s", args, cmd.ProcessState, &diagnostics)
		}
	}
}
