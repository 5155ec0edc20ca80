package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// interrupted starts the command, hands it some lines, sends it a signal once ready
// says so, and returns what it printed.
func interrupted(t *testing.T, sig os.Signal, input string, ready func(stdout *bufio.Reader), args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := process(args...)
	var diagnostics bytes.Buffer
	cmd.Stderr = &diagnostics
	stdin, err := cmd.StdinPipe()
	must(t, err)
	defer stdin.Close() // only then: the input goes on as far as the command knows
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer time.AfterFunc(6*time.Minute, func() { cmd.Process.Kill() }).Stop()
	go io.WriteString(stdin, input)
	var printed bytes.Buffer
	ready(bufio.NewReaderSize(io.TeeReader(out, &printed), 16))
	if err := cmd.Process.Signal(sig); err != nil {
		cmd.Process.Kill()
		t.Skip("this system can not signal a process:", err)
	}
	io.Copy(&printed, out)
	cmd.Wait()
	exitedWith(t, cmd, exitSignal+int(sig.(syscall.Signal)), diagnostics.String())
	return printed.String(), diagnostics.String()
}

func exitedWith(t *testing.T, cmd *exec.Cmd, code int, stderr string) {
	t.Helper()
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(stderr, "interrupted; ") {
		t.Fatalf("%v ended with %d, not %d, and said\n%s", cmd.Args[1:], got, code, stderr)
	}
}

// signals are the signals that end a command. nohup makes a process, and its children, ignore SIGHUP.
var signals = func() []os.Signal {
	s := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}()

// A signal ends dedup with all that was printed kept, an account and the exit code that tells the signal.
// Meanwhile a slow input is answered line by line, and no other process can open the index.
func TestSignalKeepsWhatWasPrinted(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	for n := range 300 {
		fmt.Fprintf(&input, "{\"url\":\"http://a.example/%d\",\"text\":\"page %d of many, each with words of its own %d %d\"}\n", n, n, n*n, n*7919)
	}
	for _, sig := range signals {
		for _, command := range []string{"--keep-duplicates=false", "--keep-duplicates"} {
			dir := filepath.Join(t.TempDir(), "ix")
			firstLine := func(out *bufio.Reader) {
				if _, err := out.ReadString('\n'); err != nil {
					t.Fatal(command, err)
				}
				if code, _, said := runHere("", "stats", "--index", dir); code != exitFailed || !strings.Contains(said, "open elsewhere") {
					t.Errorf("a second process: %d, %s", code, said)
				}
			}
			stdout, stderr := interrupted(t, sig, input.String(), firstLine, "dedup", command, "--index", dir, "--format", "jsonl", "-")
			if !strings.Contains(stderr, ", 0 skipped") {
				t.Errorf("%v: %s does not account:\n%s", sig, command, stderr)
			}
			stored := exported(t, dir)
			lines := json.NewDecoder(strings.NewReader(stdout))
			for lines.More() {
				var line struct{ Key, Fingerprint, Verdict string }
				if err := lines.Decode(&line); err != nil {
					t.Fatalf("%v: %s printed half a line: %v", sig, command, err)
				}
				if line.Verdict != "duplicate" && !slices.Contains(stored, line.Fingerprint+"\t"+line.Key) {
					t.Errorf("%v: %s printed %s, and it is not stored", sig, command, line.Key)
				}
			}
		}
	}
}

// A signal ends import with nothing stored, and compact with nothing changed.
func TestSignalLeavesTheIndexAsItWas(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 8))
	dir := filepath.Join(t.TempDir(), "ix")
	c := makeIndex(t, dir, r)
	want := c.exported()
	unchanged := func(what string) {
		if got := exported(t, dir); !slices.Equal(got, want) {
			t.Fatalf("after %s: %d documents, not %d", what, len(got), len(want))
		}
	}
	for _, sig := range signals {
		var input strings.Builder
		for range 20_000 {
			fmt.Fprintf(&input, "%016x\n", r.Uint64())
		}
		reading := func(*bufio.Reader) {
			if !appears(filepath.Join(dir, "incoming"), nil) {
				t.Error("import takes nothing in")
			}
		}
		_, stderr := interrupted(t, sig, input.String(), reading, "import", "--index", dir, "-")
		if !strings.Contains(stderr, "nothing was stored") {
			t.Errorf("%v: import says\n%s", sig, stderr)
		}
		unchanged("import")
	}
	t.Run("compact", func(t *testing.T) { interruptCompact(t, dir, unchanged) })
}

// Pairs and clusters that wait for input end with their context.
func TestPairsThatWaitForInputEndWithTheContext(t *testing.T) {
	for _, command := range []string{"pairs", "clusters"} {
		in, input := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			input.Write([]byte("12345678")) // returns once the command has read it
			cancel()
		}()
		var out, diagnostics bytes.Buffer
		if code := run(ctx, []string{command, "--format", "u64le", "-"}, &streams{in, &out, &diagnostics}); code == 0 || out.Len() > 0 {
			t.Errorf("%s ended with %d and printed %q\n%s", command, code, &out, &diagnostics)
		}
	}
}

// interruptCompact signals compact while it writes; should it come too late, once more.
func interruptCompact(t *testing.T, dir string, unchanged func(string)) {
	for n := range 100 {
		cmd := process("compact", "--index", dir, "--plan", []string{"3", "4"}[n%2])
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		must(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		appears(filepath.Join(dir, "incoming"), ended)
		if err := cmd.Process.Signal(signals[n%2]); err != nil && !errors.Is(err, os.ErrProcessDone) {
			cmd.Process.Kill()
			<-ended
			t.Skip("this system can not signal a process:", err)
		}
		<-ended
		unchanged("compact")
		if cmd.ProcessState.Success() {
			continue
		}
		exitedWith(t, cmd, exitSignal+int(signals[n%2].(syscall.Signal)), stderr.String())
		if !strings.Contains(stderr.String(), "no document is changed") && !strings.Contains(stderr.String(), "the work is done") {
			t.Errorf("compact says\n%s", &stderr)
		}
		return
	}
	t.Error("compact was always done before the signal")
}

// appears waits until there is a file or folder, for five minutes or until ended is closed.
func appears(path string, ended <-chan struct{}) bool {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		if _, err := os.Stat(path); err == nil {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(200 * time.Microsecond):
		}
	}
	return false
}
