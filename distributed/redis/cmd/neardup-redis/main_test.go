package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestCommands runs a crawl from a shell, with a single server.
func TestCommands(t *testing.T) {
	server := testenv.Program(t, "redis-server")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(server, "--port", address[strings.LastIndex(address, ":")+1:],
		"--appendonly", "yes", "--dir", t.TempDir())
	testenv.Must(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()

	call := func(in string, args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), append([]string{args[0], "-redis", address, "-name", "crawl"},
			args[1:]...), strings.NewReader(in), &out)
		return out.String(), err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err = call("", "dedup"); err == nil || time.Now().After(deadline) {
			break
		}
	}
	text := strings.Repeat("the words of a page that is long enough ", 4)
	for _, c := range []struct {
		in   string
		args []string
		want []string // parts of the lines
		err  string
	}{
		{"", []string{"stats"}, []string{`"maxDistance":7`, `it is one server`}, ""},
		{`{"key":"a","text":"` + text + `"}
{"key":"b","html":"<p>` + text + `"}
{"key":"c","fingerprint":"00000000000000ff","shingles":"` + strings.Repeat("0f", 32) + `","tokens":9}
{"key":"d","text":""}
{"key":"e","fingerprint":"0000000000000000"}
{"key":"f","fingerprint":"00ff000000000000","tokens":-1}
{"key":"g","fingerprint":"0ff0000000000000"}`, []string{"dedup"},
			[]string{`{"key":"a","fingerprint":"`, `,"verdict":"new"}`, `,"verdict":"duplicate","of":{"key":"a","distance":0,`, `{"key":"c","fingerprint":"00000000000000ff","verdict":"new"}`, `{"key":"d","verdict":"skipped","reason":"no text"}
{"key":"e","verdict":"skipped","reason":"no text"}
{"key":"f","verdict":"skipped","reason":"tokens is -1, want 0 or more"}`, `{"key":"g","fingerprint":"0ff0000000000000","verdict":"new"}`}, ""},
		{`{"key":"a","text":"` + text + `"}

{"key":
{"key":"b"}`, []string{"dedup"}, []string{`,"verdict":"unchanged"`, `{"key":"","verdict":"skipped","reason":"not JSON: `, `{"key":"b","verdict":"skipped","reason":"no document: `}, ""},
		{strings.Repeat(" ", lineBytes), []string{"dedup"}, nil, "a line has more than"},
		{"", []string{"delete", "c", "unknown"}, []string{`{"deleted":1}`}, ""},
		{"", []string{"sweep"}, []string{`"buckets":`}, ""},
		{"", []string{"expire"}, nil, "-before"},
		{"", []string{"expire", "-before", "1h"}, []string{`{"deleted":0}`}, ""},
		{"", []string{"frobnicate"}, nil, "unknown command"},
		{"", []string{"stats", "-k", "3"}, nil, "k = 7, not 3"},
		{"", []string{"stats", "-k", "0"}, nil, "k = 7, not 0"},
		{"", []string{"delete", "-name", "crawk", "c"}, nil, `no index "crawk"`},
	} {
		out, err := call(c.in, c.args...)
		if c.err == "" && err != nil || c.err != "" &&
			(err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%v: error %v, want %q", c.args, err, c.err)
		}
		for _, part := range c.want {
			if !strings.Contains(out, part) {
				t.Errorf("%v printed %s\nwithout %s", c.args, out, part)
			}
		}
	}

	// A caller can wait for each answer before it sends more. A signal must end the command before
	// the end of its input.
	in, question := io.Pipe()
	answer, out := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- run(ctx, []string{"dedup", "-redis", address, "-name", "crawl"}, in, out)
	}()
	go fmt.Fprintln(question, `{"key":"e","fingerprint":"0000000000ff0000","tokens":9}`)
	if line, err := bufio.NewReader(answer).ReadString('\n'); err != nil ||
		!strings.Contains(line, `"verdict":"new"`) {
		t.Errorf("%s, %v", line, err)
	}
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestWrongArguments tests that invalid arguments are reported before anything is opened or
// created.
func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"frobnicate"}, {"stats", "-frobnicate"}, {"expire"},
		{"expire", "-before", "-1h"}, {"dedup", "pages.jsonl"},
		{"delete", "-name", "crawl"}, {"stats"}} {
		if err := run(t.Context(), args, strings.NewReader(""),
			io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestHelp tests that a request for help is not an error.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}, {"dedup", "-h"},
		{"stats", "-redis", "x", "--help"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, strings.NewReader(""), &out); err != nil ||
			!strings.Contains(out.String(), "usage: neardup-redis") ||
			!strings.Contains(out.String(), "-no-restart") {
			t.Errorf("%q: %v, %s", args, err, &out)
		}
	}
}
