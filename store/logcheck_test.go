package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logOf returns the files of a store that was written to by commits of different sizes:
// as a crash leaves them, or closed.
func logOf(t testing.TB, closed bool) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewCrashableMem()
	s, err := Open("ix", Options{FS: fsys, Create: &Header{Plan: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range uint64(12) {
		b := s.NewBatch()
		key := make([]byte, rng.IntN(200)+1)
		if i == 6 {
			key = make([]byte, 40<<10) // over two blocks
		}
		for j := range key {
			key[j] = byte(rng.Uint32())
		}
		b.SetRecord(i+1, Record{Fingerprint: i, Key: string(key)})
		finish, err := s.Apply(b, true)
		if err == nil {
			err = finish()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if closed {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return fsys
	}
	clone := fsys.CrashClone(vfs.CrashCloneCfg{})
	s.Close()
	return clone
}

func bytesOf(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(fsys.PathJoin("ix", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestEveryFlippedByteOfALog is found, and what it was is known, but in what ends a log
// and what fills it up; in a log as a crash leaves it, in a closed one, and in a MANIFEST.
func TestEveryFlippedByteOfALog(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, closed := range []bool{false, true} {
		fsys := logOf(t, closed)
		names, err := logNames("ix", fsys)
		if err != nil || len(names) < 2 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			whole := bytesOf(t, fsys, name)
			if d, err := damageIn(bytes.NewReader(whole), name); d != nil || err != nil {
				t.Fatalf("%s: %+v, %v", name, d, err)
			}
			written := len(bytes.TrimRight(whole, "\x00"))
			if _, isLog := logNumber(name); closed && isLog {
				written -= 8 // what ends it, of which three bytes are zero
			}
			unnoticed, corrected := 0, 0
			step := 31 // prime to the length of everything
			if testing.Short() {
				step = 301
			}
			for i := 0; i < written; i += step {
				broken := bytes.Clone(whole)
				broken[i] ^= byte(1 + rng.IntN(255))
				d, err := damageIn(bytes.NewReader(broken), name)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case d == nil:
					unnoticed++
					if unnoticed < 4 {
						t.Logf("%s: byte %d of %d is not noticed", name, i, written)
					}
				case d.fixed:
					if d.byte != int64(i) || d.want != whole[i] {
						t.Errorf("%s, byte %d: it says %+v", name, i, *d)
					}
					corrected++
				}
			}
			t.Logf("%s, closed %v: %d bytes, %d of them not noticed, %d corrected", name, closed, written, unnoticed, corrected)
			if unnoticed > 0 {
				t.Errorf("%s, closed %v: %d bytes can be flipped unnoticed", name, closed, unnoticed)
			}
		}
	}
}

// TestACutLogIsNoDamage: one that ends anywhere, or from anywhere on is zero, or is what
// another log left in a file that is used again.
func TestACutLogIsNoDamage(t *testing.T) {
	for _, closed := range []bool{false, true} {
		fsys := logOf(t, closed)
		names, err := logNames("ix", fsys)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(9, 10))
		for _, name := range names {
			whole := bytesOf(t, fsys, name)
			stale := bytes.Clone(whole)
			for i := range stale {
				stale[i] ^= byte(i * 7)
			}
			written, chance := len(bytes.TrimRight(whole, "\x00")), 0
			for range 300 {
				cut := rng.IntN(written)
				zero, used := bytes.Clone(whole), bytes.Clone(whole)
				clear(zero[cut:])
				copy(used[cut:], stale[cut:])
				for what, data := range map[string][]byte{"cut": whole[:cut], "zero": zero, "used again": used} {
					if d, err := damageIn(bytes.NewReader(data), name); d != nil || err != nil {
						// A chunk whose last byte is the only one that is missing differs in one byte.
						if d != nil && d.fixed && bytes.Equal(data[:d.byte], whole[:d.byte]) && data[d.byte] != whole[d.byte] && d.want == whole[d.byte] {
							continue
						}
						// In a value over blocks, nothing but the checksum tells, which is right
						// by chance once in about 500 times for each 32 KiB.
						if chance++; err == nil && d.fixed && what == "used again" && chance <= 2 {
							continue
						}
						t.Errorf("%s, closed %v, %s at byte %d of %d: %+v, %v", name, closed, what, cut, written, d, err)
					}
				}
			}
		}
	}
}

// TestFlippedByteOfALogIsCorrupt: Open says so, with the file and the place, where Pebble
// would take the rest of the log for what a crash left unwritten.
func TestFlippedByteOfALogIsCorrupt(t *testing.T) {
	fsys := logOf(t, true)
	names, err := logNames("ix", fsys)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data := bytesOf(t, fsys, name)
		whole := bytes.Clone(data)
		data[len(bytes.TrimRight(data, "\x00"))-logEndLen-20] ^= 0x10
		overwrite(t, fsys, name, data)
		for _, readOnly := range []bool{true, false} {
			_, err = Open("ix", Options{FS: fsys, ReadOnly: readOnly})
			if !errors.Is(err, ErrCorrupt) || !bytes.Contains([]byte(fmt.Sprint(err)), []byte(name)) {
				t.Errorf("%s: %v", name, err)
			}
		}
		overwrite(t, fsys, name, whole)
	}
}

func overwrite(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create("ix/"+name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func FuzzFindDamage(f *testing.F) {
	for _, closed := range []bool{false, true} {
		fsys := logOf(f, closed)
		names, err := logNames("ix", fsys)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data := bytesOf(f, fsys, name)
			f.Add(data[:min(len(data), 40<<10)], uint32(4))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, number uint32) {
		for _, format := range []chunkFormat{manifestFormat(), logFormat(uint64(number)), firstLogFormat(uint64(number))} {
			d, err := findDamage(bytes.NewReader(data), format)
			if err != nil {
				t.Fatal(err)
			}
			if d == nil || !d.fixed {
				continue
			}
			fixed := bytes.Clone(data)
			if fixed[d.byte] == d.want {
				t.Fatalf("%+v is no change", *d)
			}
			fixed[d.byte] = d.want
			if again, _ := findDamage(bytes.NewReader(fixed), format); again != nil && again.at <= d.at {
				t.Fatalf("%+v does not help: %+v", *d, *again)
			}
		}
	})
}
