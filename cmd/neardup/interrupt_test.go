package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// interrupted starts the command and writes some lines to it. When ready returns, it sends a
// signal. It returns the output.
func interrupted(
	t *testing.T, sig os.Signal, input string, ready func(stdout *bufio.Reader), args ...string,
) (stdout, stderr string) {
	t.Helper()
	cmd := process(args...)
	var printed, diagnostics bytes.Buffer
	cmd.Stderr = &diagnostics
	stdin, err := cmd.StdinPipe()
	must(t, err)
	defer stdin.Close() // the command must not see the end of the input before
	out, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	defer time.AfterFunc(6*time.Minute, func() { cmd.Process.Kill() }).Stop()
	go io.WriteString(stdin, input)
	ready(bufio.NewReaderSize(io.TeeReader(out, &printed), 16))
	if err := cmd.Process.Signal(sig); err != nil {
		cmd.Process.Kill()
		t.Skip("this system cannot signal a process:", err)
	}
	io.Copy(&printed, out)
	cmd.Wait()
	stderr = diagnostics.String()
	if got, want := cmd.ProcessState.ExitCode(), exitSignal+
		int(sig.(syscall.Signal)); got != want || !strings.Contains(stderr, "interrupted; ") {
		t.Fatalf("%v: exit code %d, want %d, standard error:\n%s", cmd.Args[1:], got, want, stderr)
	}
	return printed.String(), stderr
}

// signals are the signals that end a command. nohup makes a process and its children ignore
// SIGHUP.
var signals = func() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}()

// TestSignalKeepsPrintedVerdicts ends dedup with a signal. dedup must store all printed verdicts,
// print the summary, and exit with the code for the signal. Before the signal, dedup must answer a
// slow input line by line, and no other process can open the index.
func TestSignalKeepsPrintedVerdicts(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	for n := range 300 {
		fmt.Fprintf(&input, "{\"url\":\"http://a.example/%d\",\"text\":\"page %d of many, each "+
			"with words of its own %d %d\"}\n", n, n, n*n, n*7919)
	}
	for i, sig := range signals {
		keep := fmt.Sprintf("--keep-duplicates=%t", i > 0)
		dir := filepath.Join(t.TempDir(), "ix")
		firstLine := func(out *bufio.Reader) {
			if _, err := out.ReadString('\n'); err != nil {
				t.Fatal(keep, err)
			}
			if code, _, said := runHere("", "stats", "--index", dir); code != exitFailed ||
				!strings.Contains(said, "open elsewhere") {
				t.Errorf("a second process: %d, %s", code, said)
			}
		}
		stdout, stderr := interrupted(t, sig, input.String(), firstLine, "dedup", keep,
			"--index", dir, "--format", "jsonl", "-")
		printed := linesOf(t, stdout)
		if want := fmt.Sprintf("\n%d records in 1 file: ", len(printed)); !strings.Contains(
			stderr, want) || !strings.Contains(stderr, ", 0 skipped") {
			t.Errorf("%v: no summary of %d records:\n%s", sig, len(printed), stderr)
		}
		stored := exported(t, dir)
		for _, line := range printed {
			if line.Verdict != "duplicate" &&
				!slices.Contains(stored, line.Fingerprint.String()+"\t"+line.Key) {
				t.Errorf("%v: %s printed %s, and it is not stored", sig, keep, line.Key)
			}
		}
	}
}
