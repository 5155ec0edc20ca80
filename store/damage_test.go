package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/crashfs"
)

// addRecord commits a record with a key of n bytes.
func addRecord(t testing.TB, s *Store, id uint64, n int) {
	t.Helper()
	apply(t, s, true, func(b *Batch) { b.SetRecord(Record{ID: id, Key: strings.Repeat("x", n)}) })
}

// filesOf returns the sorted names of the files of the store with a suffix.
func filesOf(t testing.TB, fsys vfs.FS, suffix string) []string {
	t.Helper()
	names, err := fsys.List("ix")
	must(t, err)
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, suffix) })
}

func bytesOf(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	data, err := readFile("ix/"+name, fsys)
	must(t, err)
	return data
}

func overwrite(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create("ix/"+name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(bytes.Clone(data)) // under the race detector, Write changes it
	must(t, err, f.Close())
}

// TestZerosAfterLog tests crashes with reserved zeros after the records of a log, and during the
// following Open. Pebble requires a clean end of every log except the newest.
func TestZerosAfterLog(t *testing.T) {
	fsys := crashfs.New()
	s := openIn(t, fsys)
	const n = 100
	for id := range uint64(n) {
		addRecord(t, s, id+1, 1000)
	}
	crashed := crash(fsys)
	must(t, s.Close())
	logs := filesOf(t, crashed, ".log")
	log := bytesOf(t, crashed, logs[len(logs)-1])
	if room := len(log) - len(bytes.TrimRight(log, "\x00")); room < 10_000 {
		t.Fatalf("%d zeros after a log of %d bytes", room, len(log))
	}
	again := crashesOf(crashed, func(fsys vfs.FS) { must(t, openIn(t, fsys).Close()) })
	for i, crashed := range append(again, crashed) {
		if got := recordsAfter(t, crashed); got != n {
			t.Errorf("before operation %d: %d records of %d", i, got, n)
		}
	}
}

// TestCheckpointWhileLogGrows writes between any two parts of the log that a checkpoint copies.
// The number of writes grows, so that the log grows past its end and into its preallocated space.
func TestCheckpointWhileLogGrows(t *testing.T) {
	for _, more := range []uint64{10, 20, 30, 40, 50} {
		mem := crashfs.New()
		var s *Store
		last := uint64(0)
		add := func(n uint64) {
			for range n {
				last++
				addRecord(t, s, last, 300)
			}
		}
		var disk *breakable
		disk = newBreakable(mem, func(op errorfs.Op) bool {
			if op.Kind == errorfs.OpFileWrite && strings.HasPrefix(op.Path, "copy.incomplete/") &&
				strings.HasSuffix(op.Path, ".log") {
				disk.broken.Store(false)
				add(more)
				disk.broken.Store(true)
			}
			return false
		})
		s = openIn(t, disk)
		add(400)
		before := last
		disk.broken.Store(true)
		must(t, s.Checkpoint(t.Context(), "copy"), s.Close())
		c, err := Open("copy", Options{FS: mem})
		must(t, err)
		if got := records(t, c); last == before || got < before || got > last {
			t.Errorf("%d at a time: %d records of %d to %d", more, got, before, last)
		}
		must(t, c.Close())
	}
}

// TestMissingOrCutTable tests that Open reports a missing, cut or extended table file as
// ErrCorrupt with its path and the two remedies. It must not report a missing index.
func TestMissingOrCutTable(t *testing.T) {
	fsys := crashfs.New()
	for id := range uint64(4) { // so that there are several tables
		s := openIn(t, fsys)
		addRecord(t, s, id+1, 40<<10)
		must(t, s.Close())
	}
	tables := filesOf(t, fsys, ".sst")
	if len(tables) < 2 {
		t.Errorf("%d tables", len(tables))
	}
	for _, name := range tables {
		refused := func(what string) {
			t.Helper()
			for way, opts := range everyWay() {
				opts.FS = fsys
				_, err := Open("ix", opts)
				if !errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("%s of %s, %s: %v", what, name, way, err)
				}
				for _, says := range []string{strings.TrimSuffix(name, ".sst"), "checkpoint",
					"repair"} {
					if !strings.Contains(err.Error(), says) {
						t.Errorf("%s of %s, %s: %v does not say %s", what, name, way, err, says)
					}
				}
			}
		}
		whole := bytesOf(t, fsys, name)
		for _, length := range []int{0, 1, len(whole) / 3, len(whole) - 1} {
			overwrite(t, fsys, name, whole[:length])
			refused(fmt.Sprint("the first ", length, " bytes"))
		}
		overwrite(t, fsys, name, append(bytes.Clone(whole), 0))
		refused("one byte more")
		must(t, fsys.Remove("ix/"+name))
		refused("nothing")
		overwrite(t, fsys, name, whole)
	}
	if n := recordsAfter(t, fsys); n != 4 {
		t.Errorf("%d records", n)
	}
}

// TestCheckFilesReadsEveryBlock tests that CheckFiles reports the file of a wrong byte in any
// block, also if no iterator reads the block.
func TestCheckFilesReadsEveryBlock(t *testing.T) {
	fsys := crashfs.New()
	s := openIn(t, fsys)
	defer s.Close()
	for id := range uint64(12) {
		apply(t, s, true, func(b *Batch) { document(b, id+1) })
	}
	must(t, s.CompactRecords(t.Context()), s.CheckFiles(t.Context(), nil))
	tables, err := s.tableFiles()
	must(t, err)
	reported := func(name, what string) {
		t.Helper()
		if err := s.CheckFiles(t.Context(), nil); !errors.Is(err, fault.ErrCorrupt) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s, %s: %v", name, what, err)
		}
	}
	var name string
	for _, table := range tables {
		name = fmt.Sprintf("%s.sst", table.BackingSSTNum)
		data := bytesOf(t, fsys, name)
		for at := 0; at < len(data); at += 97 {
			data[at] ^= 0x20
			overwrite(t, fsys, name, data)
			reported(name, fmt.Sprintf("byte %d of %d", at, len(data)))
			data[at] ^= 0x20
		}
		overwrite(t, fsys, name, data)
	}
	must(t, fsys.Remove("ix/"+name)) // while it is in use
	reported(name, "removed")
}
