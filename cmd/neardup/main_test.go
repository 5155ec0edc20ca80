package main

import (
	"flag"
	"net"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the command prints into the scripts' golden files")

// TestMain lets the test binary stand in for the command, in scripts and as a
// process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("NEARDUP_TEST_MAIN") != "" {
		main()
		return
	}
	if os.Getenv("NEARDUP_TEST_RACE") != "" {
		raceMain()
		return
	}
	testscript.Main(m, map[string]func(){"neardup": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"damage": damageLog},
		Setup: func(env *testscript.Env) error {
			crawl, err := os.Getwd()
			if err != nil {
				return err
			}
			env.Setenv("CRAWL", crawl+"/../../testdata/crawl")
			env.Setenv("GORACE", os.Getenv("GORACE"))                                 // of a command with the race detector in it
			env.Setenv("NEARDUP_PLANTED_MUTANT", os.Getenv("NEARDUP_PLANTED_MUTANT")) // of .ci/mutants
			l, err := net.Listen("tcp", "127.0.0.1:0")                                // free then
			if err != nil {
				return err
			}
			env.Setenv("LISTEN", l.Addr().String())
			return l.Close()
		},
	})
}
