package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/internal/crashfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/surgeon"
	"github.com/neardup/neardup/internal/testenv"
)

// logOf returns the files of a store that was written to by commits of different sizes:
// as a crash leaves them, or closed.
func logOf(t testing.TB, closed bool) *crashfs.FS { return logWith(t, closed, 40<<10) } // over two blocks

func logWith(t testing.TB, closed bool, largest int) *crashfs.FS {
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
	crashed := fsys.CrashClone(vfs.CrashCloneCfg{})
	must(t, s.Close())
	if !closed {
		return crashed
	}
	return fsys
}

func addRecord(t testing.TB, s *Store, id uint64, key string) {
	t.Helper()
	apply(t, s, true, func(b *Batch) { b.SetRecord(id, Record{Fingerprint: id, Key: key}) })
}

func bytesOf(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	data, err := surgeon.ReadFile(fsys.PathJoin("ix", name), fsys)
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

// logFiles are the MANIFEST in use and the logs.
func logFiles(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	names, err := surgeon.LogFiles("ix", fsys)
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	return names
}

// refused opens the index in both ways, and sees that it is ErrCorrupt with the name of the file.
func refused(t *testing.T, fsys vfs.FS, name, what string) {
	t.Helper()
	for _, opts := range []Options{{FS: fsys, ReadOnly: true}, {FS: fsys}, {FS: fsys, Create: &Header{}}} {
		s, err := Open("ix", opts)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(fmt.Sprint(err), name) || !strings.Contains(fmt.Sprint(err), "repair") {
			t.Errorf("%s of %s: %v", what, name, err)
		}
	}
}

// TestDamagedLogAtRest: whatever is wrong with the log or the MANIFEST of a closed index, Open refuses it.
func TestDamagedLogAtRest(t *testing.T) {
	fsys := logOf(t, true)
	flips := 0
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 8))
	for _, name := range logFiles(t, fsys) {
		whole := bytesOf(t, fsys, name)
		written, step := len(bytes.TrimRight(whole, "\x00")), 31
		if testing.Short() {
			step = 301
		}
		for i := rng.IntN(step); i < written; i += step {
			broken := bytes.Clone(whole)
			broken[i] ^= byte(1 + rng.IntN(255))
			flips++
			overwrite(t, fsys, name, broken)
			if err := surgeon.Check("ix", fsys); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, byte %d of %d: %v", name, i, len(whole), err)
			}
		}
		overwrite(t, fsys, name, append(bytes.Clone(whole), 0))
		refused(t, fsys, name, "one byte more")
		overwrite(t, fsys, name, whole)
	}
	t.Log(flips, "flipped bytes")
	if n := recordsAfter(t, fsys); n != 12 {
		t.Errorf("%d records of 12", n)
	}
}

// TestDigestIsNoHarm: one that is damaged, missing, or of an earlier close is not heeded.
func TestDigestIsNoHarm(t *testing.T) {
	fsys := logOf(t, true)
	whole := bytesOf(t, fsys, surgeon.DigestName)
	n := uint64(12)
	for what, put := range map[string]func(){
		"broken":  func() { overwrite(t, fsys, surgeon.DigestName, whole[:20]) },
		"missing": func() { fsys.Remove("ix/" + surgeon.DigestName) },
		"before":  func() { overwrite(t, fsys, surgeon.DigestName, whole) },
	} {
		put()
		s := openIn(t, fsys)
		n++
		addRecord(t, s, n, what)
		if got := records(t, s); got != n {
			t.Errorf("%s: %d records of %d", what, got, n)
		}
		must(t, s.Close())
	}
}

// TestRoomBehindLog crashes with zeros behind what the log holds, where it is often flushed, and again in the Open that
// follows: of every log but the newest Pebble wants a clean end.
func TestRoomBehindLog(t *testing.T) {
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
		t.Fatalf("%d zeros behind a log of %d bytes", room, len(log))
	}
	again := crashesOf(crashed, func(fsys vfs.FS) { must(t, openIn(t, fsys).Close()) })
	for i, crashed := range append(again, crashed) {
		if got := recordsAfter(t, crashed); got != n {
			t.Errorf("before operation %d: %d records of %d", i, got, n)
		}
	}
}

// TestCheckpointWhileLogGrows writes between any two parts of the log that a checkpoint copies, so that it comes to the
// end, and to the room behind that, while there is more and more.
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
			if op.Kind == errorfs.OpFileWrite && strings.HasPrefix(op.Path, "copy/") && strings.HasSuffix(op.Path, ".log") && !writing {
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

// TestCheckpointThatWaits: while a step of a Rewrite holds checkpoints up, documents are written and not synced. A
// checkpoint that has waited holds the step, and so it must hold what was written before that.
func TestCheckpointThatWaits(t *testing.T) {
	mem := crashfs.New()
	s := openIn(t, mem)
	addRecord(t, s, 1, "before")
	release, err := s.HoldCheckpoints(t.Context())
	must(t, err)
	made := make(chan error)
	go func() { made <- s.Checkpoint(t.Context(), "copy") }()
	time.Sleep(20 * time.Millisecond) // it comes to wait; if it does not, nothing is shown
	apply(t, s, false, func(b *Batch) { b.SetRecord(2, Record{Fingerprint: 2, Key: "while it waits"}) })
	release()
	must(t, <-made, s.Close())
	c, err := Open("copy", Options{FS: mem})
	must(t, err)
	if got := records(t, c); got != 2 {
		t.Errorf("%d records, not 2", got)
	}
	must(t, c.Close())
}

// severalLogs returns what a crash leaves of a store that cannot write tables: several logs with all
// that was written since it was opened, or since the last table. It returns how many records it had.
func severalLogs(t *testing.T, tableBefore bool) (*crashfs.FS, uint64) {
	t.Helper()
	mem := crashfs.New()
	var waits atomic.Bool
	goOn := make(chan struct{})
	fsys := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if waits.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-goOn
		}
		return nil
	}))
	s := openIn(t, fsys)
	n := uint64(1)
	addRecord(t, s, n, "first")
	if tableBefore {
		must(t, s.db.Flush())
	} else {
		must(t, s.Close())
		s = openIn(t, fsys)
	}
	waits.Store(true)
	for size := 0; size < 6<<20; size += 60_000 { // the first logs end at 256 KiB, 512 KiB and so on
		n++
		addRecord(t, s, n, strings.Repeat("x", 60_000))
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	close(goOn)
	must(t, s.Close())
	return crashed, n
}

// TestMissingLogAfterCrash: of several logs that a crash leaves, none but the newest can be missing unnoticed.
func TestMissingLogAfterCrash(t *testing.T) {
	for _, tableBefore := range []bool{false, true} {
		fsys, n := severalLogs(t, tableBefore)
		names := logFiles(t, fsys)[1:]
		if len(names) < 3 {
			t.Fatalf("logs %v", names)
		}
		for _, name := range names[:len(names)-1] {
			whole := bytesOf(t, fsys, name)
			must(t, fsys.Remove("ix/"+name))
			refused(t, fsys, "ix", fmt.Sprint("nothing, with a table before: ", tableBefore, ", of ", name, " among ", names))
			end := len(bytes.TrimRight(whole, "\x00")) // there is room behind
			for _, length := range []int{0, 1, end / 2, end - 20} {
				overwrite(t, fsys, name, whole[:length])
				if err := openAndClose(fsys); !errors.Is(err, fault.ErrCorrupt) {
					t.Errorf("%d of %d bytes of %s: %v", length, len(whole), name, err)
				}
			}
			overwrite(t, fsys, name, whole)
		}
		none := fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
		for _, name := range names {
			must(t, none.Remove("ix/"+name))
		}
		refused(t, none, "ix", fmt.Sprint("nothing, with a table before: ", tableBefore, ", of any of ", names))
		if got := recordsAfter(t, fsys); got != n {
			t.Errorf("%d records of %d", got, n)
		}
	}
}

func openAndClose(fsys vfs.FS) error {
	s, err := Open("ix", Options{FS: fsys, ReadOnly: true})
	if err != nil {
		return err
	}
	return s.Close()
}

// TestACutLogIsNoDamage: after a crash the last log, and the last record of a MANIFEST, may end anywhere,
// or be zero from anywhere on, or what another log left in a file that is used again.
func TestACutLogIsNoDamage(t *testing.T) {
	fsys := logWith(t, false, 300) // Pebble takes long to look for a flipped bit in a large chunk
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 10))
	for _, name := range logFiles(t, fsys) {
		whole := bytesOf(t, fsys, name)
		stale, from := bytes.Clone(whole), 0
		for i := range stale {
			stale[i] ^= byte(i*7 + 1)
		}
		written := len(bytes.TrimRight(whole, "\x00"))
		if strings.HasPrefix(name, "MANIFEST") {
			from = lastRecord(t, whole)
		}
		for range 100 {
			cut := from + rng.IntN(written-from)
			zero, used := bytes.Clone(whole), bytes.Clone(whole)
			clear(zero[cut:])
			copy(used[cut:], stale[cut:])
			for what, data := range map[string][]byte{"cut": whole[:cut], "zero": zero, "used again": used} {
				overwrite(t, fsys, name, data)
				if err := openAndClose(fsys); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s, %s at byte %d of %d: %v", name, what, cut, written, err)
				}
			}
		}
		overwrite(t, fsys, name, whole)
	}
}

// TestMissingOrCutFile: each file of a closed index is removed in turn, and cut if it is a table, a log or the
// MANIFEST. Open says that it is damage, and of which file, or all is there.
func TestMissingOrCutFile(t *testing.T) {
	fsys, n := logOf(t, true), uint64(12)
	for range 3 { // so that there are several tables
		s := openIn(t, fsys)
		n++
		addRecord(t, s, n, "x")
		must(t, s.Close())
	}
	names, err := fsys.List("ix")
	must(t, err)
	tables, harmless, logs := 0, []string{}, logFiles(t, fsys)
	for _, name := range names {
		whole := bytesOf(t, fsys, name)
		table := strings.HasSuffix(name, ".sst")
		if table {
			tables++
		}
		if table || slices.Contains(logs, name) {
			for _, length := range []int{0, 1, len(whole) / 3, len(bytes.TrimRight(whole, "\x00")) / 2, len(whole) - 1} {
				overwrite(t, fsys, name, whole[:length])
				refused(t, fsys, name, fmt.Sprint("the first ", length, " bytes"))
			}
			must(t, fsys.Remove("ix/"+name))
			refused(t, fsys, name, "nothing")
		} else {
			must(t, fsys.Remove("ix/"+name))
			switch s, err := Open("ix", Options{FS: fsys, ReadOnly: true}); {
			case err == nil:
				harmless = append(harmless, name)
				if got := records(t, s); got != n {
					t.Errorf("without %s there are %d records of %d", name, got, n)
				}
				must(t, s.Close())
			case !errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist):
				t.Errorf("without %s: %v", name, err)
			}
		}
		overwrite(t, fsys, name, whole)
	}
	if t.Logf("of %v none misses %v", names, harmless); tables < 2 {
		t.Errorf("%d tables", tables)
	}
	must(t, openAndClose(fsys))
}

// lastRecord returns where the last record of a MANIFEST begins.
func lastRecord(t *testing.T, data []byte) (at int) {
	r := record.NewReader(bytes.NewReader(data), 0)
	for {
		begin := r.Offset()
		next, err := r.Next()
		if err == io.EOF {
			return at
		}
		if _, err := io.ReadAll(next); err != nil {
			t.Fatal(err)
		}
		at = int(begin)
	}
}

// TestCheckFilesReadsEveryBlock: a wrong byte in any block of a table is told, with the file, also where no
// iterator reads it.
func TestCheckFilesReadsEveryBlock(t *testing.T) {
	fsys := logWith(t, true, 300)
	s := openIn(t, fsys)
	defer s.Close()
	must(t, s.CompactRecords(t.Context()))
	levels, err := s.db.SSTables()
	must(t, err)
	check := func() (faults []Corruption) {
		must(t, s.CheckFiles(t.Context(), func(f Corruption) { faults = append(faults, f) }, nil))
		return faults
	}
	if faults := check(); len(faults) > 0 {
		t.Fatal(faults)
	}
	for _, table := range slices.Concat(levels...) {
		name := fmt.Sprintf("%s.sst", table.BackingSSTNum)
		data := bytesOf(t, fsys, name)
		for at := 0; at < len(data); at += 97 {
			data[at] ^= 0x20
			overwrite(t, fsys, name, data)
			faults := check()
			if len(faults) != 1 || string(faults[0].Key) != name || !errors.Is(faults[0].Err, fault.ErrCorrupt) {
				t.Errorf("%s, byte %d of %d: %v", name, at, len(data), faults)
			}
			data[at] ^= 0x20
		}
		overwrite(t, fsys, name, data)
	}
	// A table that is gone while it is in use.
	name := fmt.Sprintf("%s.sst", slices.Concat(levels...)[0].BackingSSTNum)
	must(t, fsys.Remove("ix/"+name))
	if faults := check(); len(faults) != 1 || string(faults[0].Key) != name {
		t.Errorf("%s is removed: %v", name, faults)
	}
}

// corruptionsOf returns what a lenient view says of a database with these entries.
func corruptionsOf(t *testing.T, entries map[string][]byte, read func(*View) error) (faults []Corruption) {
	t.Helper()
	inViewOf(t, entries, nil, func(v *View) {
		must(t, read(v.Lenient(t.Context(), func(f Corruption) { faults = append(faults, f) }, nil)))
	})
	return faults
}

// TestLenientViewOfPlantedDamage: what follows the format entry by entry, and is wrong all the same.
func TestLenientViewOfPlantedDamage(t *testing.T) {
	key := uint64Key(keyKeyspace, 5)
	keys := func(v *View) (err error) {
		for _, err = range v.Keys() {
		}
		return err
	}
	packed := func(v *View) (err error) {
		for _, err = range v.PackedBlocks(1, 0) {
		}
		return err
	}
	directory := func(v *View) error { return v.CheckDirectory(1) }

	fps := []uint64{}
	for i := range uint64(600) {
		fps = append(fps, i*1_000_003+9)
	}
	whole := storeTable(t, 1, fps, nil, 256)
	if len(whole.lasts) < 4 {
		t.Fatal(whole.lasts)
	}
	for _, s := range []func(*View) error{packed, directory} {
		if faults := corruptionsOf(t, whole.values, s); len(faults) > 0 {
			t.Fatal(faults)
		}
	}
	overlap := whole.clone() // the third block holds what is in the second as well
	overlap.values[whole.blockKey(2)] = blockOf(t, whole.lasts[1]-1, whole.lasts[2])
	fewer := whole.clone() // the directory lists a last block that is not there
	delete(fewer.values, whole.blockKey(len(whole.lasts)-1))

	for what, c := range map[string]struct {
		entries map[string][]byte
		read    func(*View) error
		says    string
	}{
		"a key without documents": {map[string][]byte{string(key): {0x01}}, keys, "no documents"},
		"blocks that overlap":     {overlap.values, packed, "the one before ends"},
		"a directory of too much": {fewer.values, directory, "it lists"},
	} {
		faults := corruptionsOf(t, c.entries, c.read)
		if len(faults) != 1 || !errors.Is(faults[0].Err, fault.ErrCorrupt) || !strings.Contains(faults[0].Err.Error(), c.says) {
			t.Errorf("%s: %v", what, faults)
		}
	}
}
