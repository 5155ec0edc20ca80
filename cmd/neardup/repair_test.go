package main

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// damageTables flips a byte in the first block of the largest table file of an index: "damage DIR"
// in a script.
func damageTables(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage DIR")
	}
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
	if path == "" {
		ts.Fatalf("%s has no table", args[0])
	}
	largest[10] ^= 0x20
	ts.Check(os.WriteFile(path, largest, 0o644))
}
