//go:build unix

package store

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/neardup/neardup/internal/fault"
)

// otherProcess names the directory for the part of a test that runs in another process.
const otherProcess = "NEARDUP_TEST_DIR"

// inOtherProcess runs the current test in another process, with a directory.
func inOtherProcess(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), otherProcess+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in another process: %v\n%s", err, out)
	}
}

// TestLock tests that other processes cannot open an index until it is closed.
// TestLockedByThisProcess tests the same within a process.
func TestLock(t *testing.T) {
	if dir := os.Getenv(otherProcess); dir != "" {
		for way, opts := range everyWay() {
			if _, err := Open(dir, opts); !errors.Is(err, fault.ErrLocked) {
				t.Errorf("%s: %v", way, err)
			}
		}
		return
	}
	dir := t.TempDir()
	s, err := Open(dir, Options{Create: &Meta{Plan: "plan"}})
	must(t, err)
	inOtherProcess(t, dir)
	must(t, s.Close())
	s, err = Open(dir, Options{})
	must(t, err)
	must(t, s.Close())
}

// TestFewOpenFiles tests that the store respects a low limit on open files, and that errors name
// the limit.
func TestFewOpenFiles(t *testing.T) {
	const records = 150
	dir := os.Getenv(otherProcess)
	if dir == "" {
		dir = t.TempDir()
		s, err := Open(dir, Options{Create: &Meta{Plan: "plan"}})
		must(t, err)
		for i := range uint64(records) {
			apply(t, s, false,
				func(b *Batch) { b.SetRecord(Record{ID: i << 32, Fingerprint: i, Key: "key"}) })
			must(t, s.db.Flush())
		}
		tables, err := s.tableFiles()
		if must(t, err, s.Close()); len(tables) <= 128 {
			t.Fatalf("%d tables, want more than the limit on open files", len(tables))
		}
		inOtherProcess(t, dir)
		return
	}
	setLimit := func(n uint64) {
		var limit syscall.Rlimit
		must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
		limit.Cur = n
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	}
	setLimit(128)
	s, err := Open(dir, Options{})
	must(t, err)
	for range 2 {
		for i := range uint64(records) {
			if _, found, err := s.Now().Record(i << 32); err != nil || !found {
				t.Fatalf("record %d: found %v, %v", i, found, err)
			}
		}
	}
	must(t, s.Close())
	setLimit(8)
	if _, err = Open(dir, Options{}); !errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, fault.ErrLocked) ||
		!strings.Contains(err.Error(),
			"this process may have 8 open; raise that limit (ulimit -n)") {
		t.Errorf("with 8 files: %v", err)
	}
}
