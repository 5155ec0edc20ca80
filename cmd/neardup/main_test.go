package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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

// TestMain makes the test binary act as the command in each process that a test starts. It creates
// a link named neardup to the binary.
func TestMain(m *testing.M) {
	if os.Getenv("NEARDUP_TEST_MAIN") != "" {
		main()
		return
	}
	testenv.MostlyWait()
	programs, err := os.MkdirTemp("", "neardup-test-")
	binary, wrong := os.Executable()
	name, link := "neardup", os.Symlink
	if runtime.GOOS == "windows" {
		name, link = name+".exe", os.Link // symbolic links need a privilege on Windows
	}
	if err = errors.Join(err, wrong, link(binary, filepath.Join(programs, name)),
		os.Setenv("PATH", programs+string(filepath.ListSeparator)+os.Getenv("PATH")),
		os.Setenv("NEARDUP_TEST_MAIN", "1")); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// TestScripts runs the scripts in testdata/script. In a script, "neardup" runs in this process.
// "exec neardup" runs in a separate process, for commands that read standard input, get signals,
// or need another environment.
func TestScripts(t *testing.T) {
	here, err := os.Getwd()
	must(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(here, "testdata/script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": checkCode, "damage": damageTables, "list": listInScript, "neardup": runInScript,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("NEARDUP_TEST_MAIN", "1")
			env.Setenv("CRAWL", here+"/../../testdata/crawl")
			env.Setenv("LISTEN", freeAddress(t))
			env.Setenv("GORACE", os.Getenv("GORACE")) // for a command with the race detector
			return nil
		},
	})
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
	ts.Setenv("code", fmt.Sprint(code))
	if fails != (code != exitDone) {
		ts.Fatalf("exit code %d", code)
	}
}

// checkCode checks the exit code of the last "neardup": "code N" in a script.
func checkCode(ts *testscript.TestScript, _ bool, args []string) {
	if code := ts.Getenv("code"); code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// damageTables flips a bit in the first block of the largest table file of an index: "damage DIR"
// in a script.
func damageTables(ts *testscript.TestScript, _ bool, args []string) {
	tables, err := filepath.Glob(ts.MkAbs(filepath.Join(args[0], "*.sst")))
	ts.Check(err)
	var largest []byte
	var path string
	for _, name := range tables {
		data, err := os.ReadFile(name)
		ts.Check(err)
		if len(data) > len(largest) {
			largest, path = data, name
		}
	}
	largest[10] ^= 0x20
	ts.Check(os.WriteFile(path, largest, 0o644))
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
