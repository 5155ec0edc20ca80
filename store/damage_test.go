package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/crashfs"
)

// storeOf returns the files of a closed store that was written to by commits of different sizes.
func storeOf(t testing.TB, largest int) *crashfs.FS {
	t.Helper()
	fsys := crashfs.New()
	s := openIn(t, fsys)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range uint64(12) {
		key := make([]byte, rng.IntN(200)+1)
		if i == 6 {
			key = make([]byte, largest)
		}
		for j := range key {
			key[j] = byte(rng.Uint32())
		}
		addRecord(t, s, i+1, string(key))
	}
	must(t, s.Close())
	return fsys
}

func addRecord(t testing.TB, s *Store, id uint64, key string) {
	t.Helper()
	apply(t, s, true, func(b *Batch) { b.SetRecord(Record{ID: id, Fingerprint: id, Key: key}) })
}

func bytesOf(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	data, err := readFile(fsys.PathJoin("ix", name), fsys)
	must(t, err)
	return data
}

func overwrite(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create("ix/"+name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(bytes.Clone(data)) // under the race detector, it is spoilt then
	}
	must(t, errors.Join(err, f.Close()))
}

// logFiles returns the newest MANIFEST and the logs.
func logFiles(t testing.TB, fsys vfs.FS) (files []string) {
	t.Helper()
	names, err := fsys.List("ix")
	must(t, err)
	slices.Sort(names)
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, "MANIFEST-"):
			files = append([]string{name}, files[min(1, len(files)):]...)
		case strings.HasSuffix(name, ".log"):
			files = append(files, name)
		}
	}
	if len(files) < 2 {
		t.Fatal(names)
	}
	return files
}

// refused opens the index in both ways. Open must return ErrCorrupt with the name of the file.
func refused(t *testing.T, fsys vfs.FS, name, what string) {
	t.Helper()
	for _, opts := range []Options{{FS: fsys, ReadOnly: true}, {FS: fsys},
		{FS: fsys, Create: &Meta{}}} {
		s, err := Open("ix", opts)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(fmt.Sprint(err), name) ||
			!strings.Contains(fmt.Sprint(err), "checkpoint") ||
			!strings.Contains(fmt.Sprint(err), "repair") {
			t.Errorf("%s of %s: %v", what, name, err)
		}
	}
}

// TestZerosAfterLog crashes with zeros after the records of a log that is often flushed, and
// again in the following Open. Pebble requires a clean end of every log except the newest.
func TestZerosAfterLog(t *testing.T) {
	fsys := crashfs.New()
	s := openIn(t, fsys)
	const n = 100
	for id := range uint64(n) {
		addRecord(t, s, id+1, strings.Repeat("x", 1000))
	}
	crashed := fsys.CrashClone(vfs.CrashCloneCfg{})
	must(t, s.Close())
	log := bytesOf(t, crashed, logFiles(t, crashed)[1])
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
				addRecord(t, s, last, strings.Repeat("x", 300))
			}
		}
		writing := false
		s = openIn(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && strings.HasPrefix(op.Path, "copy.incomplete/") &&
				strings.HasSuffix(op.Path, ".log") && !writing {
				writing = true
				add(more)
				writing = false
			}
			return nil
		})))
		add(400)
		before := last
		must(t, s.Checkpoint(t.Context(), "copy"))
		must(t, s.Close())
		c, err := Open("copy", Options{FS: mem})
		if err != nil || last == before {
			t.Errorf("%d at a time, %d in all: %v", more, last-before, err)
			continue
		}
		if got := records(t, c); got < before || got > last {
			t.Errorf("%d at a time: %d records of %d to %d", more, got, before, last)
		}
		must(t, c.Close())
	}
}

// TestMissingOrCutTable tests that Open reports a missing, cut or extended table file as
// ErrCorrupt with its path and the two remedies. It must not report a missing index.
func TestMissingOrCutTable(t *testing.T) {
	fsys, n := storeOf(t, 40<<10), uint64(12)
	for range 3 { // so that there are several tables
		s := openIn(t, fsys)
		n++
		addRecord(t, s, n, "x")
		must(t, s.Close())
	}
	names, err := fsys.List("ix")
	must(t, err)
	tables := 0
	for _, name := range names {
		number, table := strings.CutSuffix(name, ".sst")
		if !table {
			continue
		}
		tables++
		whole := bytesOf(t, fsys, name)
		for _, length := range []int{0, 1, len(whole) / 3, len(whole) - 1} {
			overwrite(t, fsys, name, whole[:length])
			refused(t, fsys, number, fmt.Sprint("the first ", length, " bytes"))
		}
		overwrite(t, fsys, name, append(bytes.Clone(whole), 0))
		refused(t, fsys, number, "one byte more")
		must(t, fsys.Remove("ix/"+name))
		refused(t, fsys, number, "nothing")
		overwrite(t, fsys, name, whole)
	}
	if tables < 2 {
		t.Errorf("%d tables", tables)
	}
	s, err := Open("ix", Options{FS: fsys, ReadOnly: true})
	must(t, err)
	must(t, s.Close())
}

// TestCheckFilesReadsEveryBlock tests that a wrong byte in any block of a table is reported with
// its file, also if no iterator reads it.
func TestCheckFilesReadsEveryBlock(t *testing.T) {
	fsys := storeOf(t, 300)
	s := openIn(t, fsys)
	defer s.Close()
	must(t, s.CompactRecords(t.Context()))
	levels, err := s.db.SSTables()
	must(t, err)
	must(t, s.CheckFiles(t.Context(), nil))
	for _, table := range slices.Concat(levels...) {
		name := fmt.Sprintf("%s.sst", table.BackingSSTNum)
		data := bytesOf(t, fsys, name)
		for at := 0; at < len(data); at += 97 {
			data[at] ^= 0x20
			overwrite(t, fsys, name, data)
			if err := s.CheckFiles(t.Context(), nil); !errors.Is(err, fault.ErrCorrupt) ||
				!strings.Contains(err.Error(), name) {
				t.Errorf("%s, byte %d of %d: %v", name, at, len(data), err)
			}
			data[at] ^= 0x20
		}
		overwrite(t, fsys, name, data)
	}
	// A table that is removed while it is in use.
	name := fmt.Sprintf("%s.sst", slices.Concat(levels...)[0].BackingSSTNum)
	must(t, fsys.Remove("ix/"+name))
	if err := s.CheckFiles(t.Context(), nil); !errors.Is(err, fault.ErrCorrupt) ||
		!strings.Contains(err.Error(), name) {
		t.Errorf("%s is removed: %v", name, err)
	}
}
