//go:build unix

package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/process"
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

// TestLock tests that an open index is refused to other processes until it is closed. For this
// process, see TestLockedByThisProcess.
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

// readOnlyMount is a file system that is mounted read-only.
type readOnlyMount struct{ vfs.FS }

func (readOnlyMount) Lock(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
}

func TestReadOnlyMount(t *testing.T) {
	_, err := lockDir(t.TempDir(), readOnlyMount{vfs.Default})
	if !errors.Is(err, syscall.EROFS) || errors.Is(err, fault.ErrLocked) ||
		!strings.Contains(err.Error(), "copy the index") {
		t.Error(err)
	}
}

// TestFewOpenFiles tests that a low limit on open files is respected, and that errors name the
// cause.
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
			t.Fatalf("%d tables are too few to tell", len(tables))
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

func TestOpenTables(t *testing.T) {
	for limit, want := range map[uint64]int{0: 8, 128: 8, 1024: 448, 1 << 40: 1000} {
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
