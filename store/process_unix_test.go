//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/process"
)

// inProcess runs a test of this binary in a separate process, with a directory, and returns its
// output.
func inProcess(t *testing.T, test, dir string) string {
	t.Helper()
	if os.Getenv("NEARDUP_TEST_DIR") != "" {
		t.Fatal("a process within a process")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), "NEARDUP_TEST_DIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", test, err, out)
	}
	return string(out)
}

// inside returns the directory that inProcess passed. Without one, it skips the test.
func inside(t *testing.T) string {
	dir := os.Getenv("NEARDUP_TEST_DIR")
	if dir == "" {
		t.Skip("runs in a process that another test starts")
	}
	return dir
}

func TestInsideLocked(t *testing.T) {
	for _, opts := range []Options{{}, {ReadOnly: true}, {Create: &Meta{}}} {
		_, err := Open(inside(t), opts)
		if !errors.Is(err, fault.ErrLocked) {
			t.Errorf("%+v: %v", opts, err)
		}
		fmt.Println(err)
	}
}

// TestLock tests that an open index is refused to other processes and to this one until it is
// closed.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Create: &Meta{Plan: "plan"}})
	must(t, err)
	if out := inProcess(t, "TestInsideLocked", dir); strings.Count(out,
		"index is open elsewhere") != 3 {
		t.Error(out)
	}
	if _, err := Open(dir, Options{ReadOnly: true}); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("in the same process: %v", err)
	}
	must(t, s.Close())
	s, err = Open(dir, Options{})
	must(t, err)
	must(t, s.Close())
}

const manyTables = 150

// TestInsideFewOpenFiles tests that a low limit on open files is respected, and that errors name
// the cause.
func TestInsideFewOpenFiles(t *testing.T) {
	dir := inside(t)
	setLimit := func(n uint64) {
		var limit syscall.Rlimit
		must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
		limit.Cur = n
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	}
	setLimit(128)
	s, err := Open(dir, Options{})
	must(t, err)
	for round := range 2 {
		for i := range uint64(manyTables) {
			if _, found, err := s.Now().Record(i << 32); err != nil || !found {
				t.Fatalf("round %d, record %d: found %v, %v", round, i, found, err)
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

func TestFewOpenFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Create: &Meta{Plan: "plan"}})
	must(t, err)
	for i := range uint64(manyTables) {
		apply(t, s, false,
			func(b *Batch) { b.SetRecord(Record{ID: i << 32, Fingerprint: i, Key: "key"}) })
		must(t, s.db.Flush())
	}
	if n := tables(s.db.Metrics()); n <= 128 {
		t.Fatalf("%d tables are too few to tell", n)
	}
	must(t, s.Close())
	inProcess(t, "TestInsideFewOpenFiles", dir)
}

func tables(m *pebble.Metrics) (n int64) {
	for _, level := range m.Levels {
		n += level.TablesCount
	}
	return n
}

func TestOpenTables(t *testing.T) {
	for limit, want := range map[uint64]int{0: 8, 10: 8, 128: 8, 256: 64, 1024: 448, 4096: 1000,
		1 << 40: 1000} {
		if got := process.TableFiles(limit); got != want {
			t.Errorf("%d of %d, want %d", got, limit, want)
		}
	}
}

// TestDiskUsage tests that no log takes more than twice its content, and that unneeded
// logs are removed.
func TestDiskUsage(t *testing.T) {
	dir := t.TempDir()
	allocated := func() (bytes int64, logs int) {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		must(t, err)
		for _, name := range names {
			info, err := os.Stat(name)
			if errors.Is(err, fs.ErrNotExist) { // Pebble has removed it
				continue
			}
			must(t, err)
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
			if strings.HasSuffix(name, ".log") {
				logs++
			}
		}
		return bytes, logs
	}
	s, err := Open(dir, Options{Create: &Meta{}})
	must(t, err)
	if bytes, _ := allocated(); bytes > 128<<10 {
		t.Errorf("an empty index takes %d bytes", bytes)
	}
	_, _, err = fillUp(s, 1, 2500) // 75 MB, five logs
	must(t, err, s.db.Flush(), s.Close())
	if _, logs := allocated(); logs != 1 {
		t.Errorf("%d logs", logs)
	}
	s, err = Open(dir, Options{}) // Open removes all unneeded files
	must(t, err)
	defer s.Close()
	used := int64(s.Metrics().DiskSpaceUsage())
	if bytes, _ := allocated(); bytes > used+256<<10 {
		t.Errorf("%d bytes on disk for %d", bytes, used)
	}
}
