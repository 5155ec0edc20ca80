package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// A run of equal values claims 4 GiB in a few bytes, and another one makes it 8. The program ends while the first one is written out.
func TestMemoryOfARun(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector takes address space")
	}
	type row struct {
		Word string `parquet:"word,dict"`
	}
	var rows []row
	for i := range 60 {
		rows = append(rows, row{strings.Repeat("x", i%2)})
	}
	path, _ := write(t, &parquet.Uncompressed, rows)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checksum, run := []byte("\x15\xa8\xc8\x9c\xfd\x08"), []byte("\x01\x0f\xaa\xaa\xaa\xaa\xaa\xaa\xaa")
	if bytes.Count(file, checksum) != 1 || bytes.Count(file, run) != 1 {
		t.Fatalf("%q", file)
	}
	file = bytes.Replace(file, checksum, []byte("\x15\x80\x80\x80\x80\x00"), 1)
	file = bytes.Replace(file, run, []byte("\x01\x80\x80\x80\x80\x08\x00\x02\x00"), 1) // 1<<30 times the value 0, and once again
	os.WriteFile(path, file, 0o600)
	cmd := exec.Command("sh", "-c", `ulimit -v 8000000 && exec "$0" -memory 60 "$1"`, os.Args[0], path)
	cmd.Env = append(os.Environ(), "NEARDUP_PARQUET=1")
	if problem, _ := cmd.CombinedOutput(); !strings.HasPrefix(string(problem), "neardup-parquet: a file takes more than 60 MiB") {
		t.Errorf("%.1000s", problem)
	}
}
