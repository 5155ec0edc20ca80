package main

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// damageLog flips a byte in the logs of an index: "damage DIR" in a script.
func damageLog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage DIR")
	}
	logs, err := filepath.Glob(ts.MkAbs(filepath.Join(args[0], "*.log")))
	ts.Check(err)
	if len(logs) == 0 {
		ts.Fatalf("%s has no log", args[0])
	}
	for _, name := range logs {
		data, err := os.ReadFile(name)
		ts.Check(err)
		data[30] ^= 0x20
		ts.Check(os.WriteFile(name, data, 0o644))
	}
}
