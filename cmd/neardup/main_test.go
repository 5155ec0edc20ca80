package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool(
	"update", false, "write what the command prints into the scripts' golden files")

// TestMain lets the test binary act as the command, in scripts and as a separate process.
func TestMain(m *testing.M) {
	if os.Getenv("NEARDUP_TEST_MAIN") != "" {
		main()
		return
	}
	testenv.MostlyWait()
	os.Exit(m.Run())
}

// TestScripts runs the scripts in testdata/script. In a script, "neardup" runs in this process.
// "exec neardup" runs in a separate process, for commands that read standard input, get signals,
// or need another environment.
func TestScripts(t *testing.T) {
	programs, name := t.TempDir(), "neardup"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	here, err := os.Getwd()
	binary, wrong := os.Executable()
	if err = errors.Join(err, wrong, os.Symlink(binary,
		filepath.Join(programs, name))); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(here, "testdata/script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds: map[string]func(*testscript.TestScript, bool,
			[]string){"damage": damageTables, "list": listInScript, "neardup": runInScript},
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", programs+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("NEARDUP_TEST_MAIN", "1")
			env.Setenv("CRAWL", here+"/../../testdata/crawl")
			env.Setenv("GORACE", os.Getenv("GORACE"))  // for a command with the race detector
			l, err := net.Listen("tcp", "127.0.0.1:0") // a free port
			if err != nil {
				return err
			}
			env.Setenv("LISTEN", l.Addr().String())
			return l.Close()
		},
	})
}

// listInScript prints the documents of an index: "list DIR" in a script.
func listInScript(ts *testscript.TestScript, _ bool, args []string) {
	text, err := list(ts.MkAbs(args[0]))
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), text)
}

// list returns the documents of an index as lines of a fingerprint, a tab and a key.
func list(dir string) (string, error) {
	x, err := index.Open(dir, &index.Options{ReadOnly: true})
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for d, failed := range x.Documents(context.Background()) {
		if err = failed; err != nil {
			break
		}
		line := d.Fingerprint.String()
		if d.Key != "" {
			line += "\t" + corpus.QuoteKey(d.Key)
		}
		fmt.Fprintln(&lines, line)
	}
	return lines.String(), errors.Join(err, x.Close())
}

// workingFolder guards the working directory of the process, which all scripts share.
var workingFolder sync.Mutex

// runInScript runs the command in this process, in the directory of the script.
func runInScript(ts *testscript.TestScript, fails bool, args []string) {
	workingFolder.Lock()
	defer workingFolder.Unlock()
	before, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	code := run(context.Background(), args, &streams{strings.NewReader(""),
		ts.Stdout(), ts.Stderr()})
	ts.Check(os.Chdir(before))
	if fails != (code != exitDone) {
		ts.Fatalf("exit code %d", code)
	}
}
