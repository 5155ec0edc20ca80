package surgeon

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/crashfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testenv"
)

var must = testenv.Must

// database returns the files of a database that was written to by commits of different sizes, over two blocks of
// the log: as a crash leaves them, or closed. With tables there are some between.
func database(t testing.TB, closed, tables bool) *crashfs.FS {
	t.Helper()
	fsys := crashfs.New()
	open := func() *pebble.DB {
		db, err := pebble.Open("ix", &pebble.Options{FS: fsys, FormatMajorVersion: pebble.FormatValueSeparation})
		must(t, err)
		return db
	}
	must(t, open().Close()) // the first log is begun before the format is known
	db := open()
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 12 {
		value := make([]byte, rng.IntN(200)+1)
		if i == 6 {
			value = make([]byte, 40<<10)
		}
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		must(t, db.Set([]byte{'d', byte(i)}, value, pebble.Sync))
		if tables && i%4 == 3 {
			must(t, db.Flush())
		}
	}
	clone := fsys.CrashClone(vfs.CrashCloneCfg{})
	must(t, db.Close())
	if !closed {
		return clone
	}
	must(t, WriteDigest("ix", fsys))
	return fsys
}

func logFiles(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	names, err := LogFiles("ix", fsys)
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	return names
}

func bytesOf(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	data, err := ReadFile("ix/"+name, fsys)
	must(t, err)
	return data
}

func overwrite(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	must(t, writeFile("ix/"+name, bytes.Clone(data), false, fsys)) // under the race detector, it is spoilt then
}

// TestDigestIsNoHarm: one that is damaged says nothing.
func TestDigestIsNoHarm(t *testing.T) {
	fsys := database(t, true, false)
	whole := bytesOf(t, fsys, DigestName)
	if digests := parseDigest(whole); len(digests) != 2 || digests[0].name != logFiles(t, fsys)[0] {
		t.Fatalf("digest %q", whole)
	}
	for i := range whole {
		broken := bytes.Clone(whole)
		broken[i] ^= 1
		if d := parseDigest(broken); d != nil {
			t.Fatalf("byte %d flipped: %v", i, d)
		}
		if d := parseDigest(whole[:i]); d != nil {
			t.Fatalf("%d bytes: %v", i, d)
		}
	}
}

// TestDigestOfWhatIsOpenedSince: an Open that was cut short has begun another log, and no other
// MANIFEST. The digest of before does not count then, nor while the database is open.
func TestDigestOfWhatIsOpenedSince(t *testing.T) {
	fsys := database(t, true, false)
	if digests, err := currentDigest("ix", fsys); len(digests) != 2 || err != nil {
		t.Fatal(digests, err)
	}
	db, err := pebble.Open("ix", &pebble.Options{FS: fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})})
	must(t, err)
	defer db.Close()
	overwrite(t, fsys, "999999.log", nil)
	if digests, err := currentDigest("ix", fsys); len(digests) > 0 || err != nil {
		t.Error("with a newer log:", digests, err)
	}
}

// TestNewerTable: none is newer than the MANIFEST that knows it.
func TestNewerTable(t *testing.T) {
	fsys := database(t, false, true)
	if name, err := newerTable("ix", fsys); name != "" || err != nil {
		t.Error(name, err)
	}
	overwrite(t, fsys, "999999.sst", nil)
	if name, err := newerTable("ix", fsys); name != "999999.sst" || err != nil {
		t.Error(name, err)
	}
}

// TestDamagedManifestAfterCrash: a byte that is wrong before its last record is damage.
func TestDamagedManifestAfterCrash(t *testing.T) {
	fsys := database(t, false, true)
	name := logFiles(t, fsys)[0]
	whole := bytesOf(t, fsys, name)
	ends := []int{0}
	l := logFile{data: whole}
	l.read(func(record []byte) bool {
		ends = append(ends, ends[len(ends)-1]+7+len(record))
		return true
	})
	end := ends[len(ends)-2]
	if end < 40 {
		t.Fatalf("%s ends with a record at byte %d", name, end)
	}
	for i := range end {
		broken := bytes.Clone(whole)
		broken[i] ^= byte(1 << (i % 8))
		overwrite(t, fsys, name, broken)
		if err := Check("ix", fsys); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("byte %d of %d: %v", i, end, err)
		}
	}
}

// TestFixesEveryFlippedByte of a log or a MANIFEST, as a crash leaves it or closed.
func TestFixesEveryFlippedByte(t *testing.T) {
	flips := 0
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 12))
	step := 31 // prime to the length of everything
	if testing.Short() {
		step = 301
	}
	for _, closed := range []bool{false, true} {
		fsys := database(t, closed, false)
		for _, name := range logFiles(t, fsys) {
			l := logFile{bytesOf(t, fsys, name), fileNumber(name, "")}
			whole := bytes.Clone(l.data)
			fixed, end := l.fixBitFlips()
			if fixed != 0 || !bytes.Equal(l.data, whole) {
				t.Fatalf("%s is whole, and %d chunks are fixed", name, fixed)
			}
			for i := rng.IntN(step); i < end; i += step {
				l.data[i] ^= byte(1 + rng.IntN(255))
				flips++
				if fixed, _ := l.fixBitFlips(); fixed != 1 || !bytes.Equal(l.data, whole) {
					t.Errorf("%s, closed %v, byte %d of %d: %d chunks fixed", name, closed, i, end, fixed)
					copy(l.data, whole)
				}
			}
		}
	}
	t.Log(flips, "flipped bytes")
}

// FuzzLog: whatever a log, a MANIFEST or a digest holds, fixing it ends, changes nothing twice, and makes
// nothing worse.
func FuzzLog(f *testing.F) {
	for _, closed := range []bool{false, true} {
		fsys := database(f, closed, false)
		for _, name := range logFiles(f, fsys) {
			data := bytesOf(f, fsys, name)
			f.Add(data[:min(len(data), 40<<10)], uint32(4))
		}
	}
	f.Add(bytesOf(f, database(f, true, false), DigestName), uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, number uint32) {
		parseDigest(data)
		new(manifest).apply(data)
		for _, n := range []uint64{0, uint64(number)} {
			l := logFile{bytes.Clone(data), n}
			l.goesOn(0)
			before := l.batches()
			fixed, end := l.fixBitFlips()
			if again, after := l.fixBitFlips(); again != 0 || after != end || l.batches() < before || fixed == 0 && !bytes.Equal(l.data, data) {
				t.Fatalf("%d chunks fixed, up to byte %d, then %d and %d; %d batches, then %d", fixed, end, again, after, before, l.batches())
			}
		}
	})
}
