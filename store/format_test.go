package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
	"pgregory.net/rapid"
)

func TestCounters(t *testing.T) {
	for _, c := range []Counters{{NextID: 1}, {NextID: 2, Documents: 1, Bare: 1}, {NextID: 1<<64 - 1, Documents: 7}} {
		if got, err := decodeCounters(c.encode()); err != nil || got != c {
			t.Errorf("%+v reads back as %+v, %v", c, got, err)
		}
	}
	for _, c := range []Counters{{}, {NextID: 1, Documents: 1}, {NextID: 5, Documents: 2, Bare: 3}} {
		if got, err := decodeCounters(c.encode()); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%+v reads as %+v, %v", c, got, err)
		}
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(Counters{NextID: 9, Documents: 4, Bare: 1}.encode())
	f.Add(encodeFormat())
	f.Add(encodeFormat()[:9])
	f.Add(encodePacked(2, 9, []PackedTableInfo{{Entries: 7, Blocks: 2, Bytes: 90}, {Entries: 7, Blocks: 1, Bytes: 80}}))
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := decodeCounters(value)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil && string(c.encode()) != string(value) {
			t.Fatalf("%x reads as %+v", value, c)
		}
		generation, nextID, tables, err := decodePacked(value)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil && string(encodePacked(generation, nextID, tables)) != string(value) {
			t.Fatalf("%x reads as generation %d, next ID %d, tables %+v", value, generation, nextID, tables)
		}
		version, err := checkFormat(value)
		switch {
		case err == nil:
			if want := append([]byte(magic), 0, 0, 0, byte(version)); version > Format || string(value) != string(want) {
				t.Fatalf("%x passes", value)
			}
		case !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, ErrNotIndex) && !errors.Is(err, ErrVersion):
			t.Fatal(err)
		}
	})
}

// TestDamagedMeta opens a store one of whose meta entries was changed.
func TestDamagedMeta(t *testing.T) {
	version := func(n uint32) []byte { return binary.BigEndian.AppendUint32([]byte(magic), n) }
	for _, c := range []struct {
		what, name string
		value      []byte // nil: deleted
		want       error
		says       string
	}{
		{"newer format", "format", version(Format + 1), ErrVersion, fmt.Sprint("reads format ", Format)},
		{"format 0", "format", version(0), ErrVersion, "0"},
		{"format breaks off", "format", version(Format)[:10], fault.ErrCorrupt, "10 bytes"},
		{"other magic", "format", []byte("something else"), ErrNotIndex, "magic"},
		{"no format", "format", nil, ErrNotIndex, "another kind"},
		{"no plan", "plan", nil, fault.ErrCorrupt, "plan"},
		{"no analyzer", "analyzer", nil, fault.ErrCorrupt, "analyzer"},
		{"no counters", "counters", nil, fault.ErrCorrupt, "counters"},
		{"counters break off", "counters", make([]byte, 23), fault.ErrCorrupt, "23 bytes"},
		{"counters of 0", "counters", make([]byte, 24), fault.ErrCorrupt, "counters"},
		{"packed breaks off", "packed", make([]byte, 20), fault.ErrCorrupt, "20 bytes"},
		{"packed of too many bytes", "packed", encodePacked(1, 2, []PackedTableInfo{{1, 1, 1}, {1, 1, 1 << 63}}), fault.ErrCorrupt, "packed table 1"},
		{"packed of nothing", "packed", make([]byte, 40), fault.ErrCorrupt, "packed table 0"},
	} {
		t.Run(c.what, func(t *testing.T) {
			mem := vfs.NewMem()
			s := openIn(t, mem)
			if c.value == nil {
				must(t, s.db.Delete(metaKey(c.name), nil))
			} else {
				must(t, s.db.Set(metaKey(c.name), c.value, nil))
			}
			must(t, s.Close())
			for _, opts := range []Options{{}, {ReadOnly: true}, {Create: &Header{Plan: "plan"}}} {
				opts.FS = mem
				_, err := Open("ix", opts)
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "ix") {
					t.Errorf("%+v: %v", opts, err)
				}
			}
		})
	}
}

// TestMetaErrorIsTheSame of several, each time.
func TestMetaErrorIsTheSame(t *testing.T) {
	s := openMem(t)
	for _, name := range []string{"plan", "analyzer", "counters"} {
		must(t, s.db.Delete(metaKey(name), nil))
	}
	for range 30 {
		if _, err := s.loadMeta(); err == nil || !strings.Contains(err.Error(), `"plan" is missing`) {
			t.Fatal(err)
		}
	}
}

func TestRecordReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{
			Fingerprint: rapid.Uint64().Draw(t, "fingerprint"),
			Shingle:     rapid.SampledFrom([]uint64{0, 1, 1 << 63}).Draw(t, "shingle"),
			Digest:      rapid.SampledFrom([]uint64{0, 1, 1 << 63}).Draw(t, "digest"),
			Tokens:      rapid.Uint32().Draw(t, "length"),
			Scope:       rapid.String().Draw(t, "scope"),
			Key:         string(rapid.SliceOf(rapid.Byte()).Draw(t, "key")),
		}
		got, err := DecodeRecord(r.Append([]byte("before"))[len("before"):])
		if err != nil || got != r {
			t.Fatalf("%+v reads back as %+v, %v", r, got, err)
		}
	})
	long := Record{Scope: strings.Repeat("s", 64<<10), Key: strings.Repeat("k", 64<<10)}
	if got, err := DecodeRecord(long.Append(nil)); err != nil || got != long {
		t.Errorf("a long record reads back differently: %v", err)
	}
}

// TestRecordBytes has the bytes of docs/format.md.
func TestRecordBytes(t *testing.T) {
	for want, r := range map[string]Record{
		"\x00\x01\x02\x03\x04\x05\x06\x07\x08key":                                                                   {Fingerprint: 0x0102030405060708, Key: "key"},
		"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x01s":                                 {Shingle: 9, Scope: "s"},
		"\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\xac\x02\x01sk":                        {Shingle: 9, Tokens: 300, Scope: "s", Key: "k"},
		"\x0d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x0a\x02k": {Shingle: 9, Digest: 10, Tokens: 2, Key: "k"},
		"\x02\x00\x00\x00\x00\x00\x00\x00\x00\x02\xff\xfe\x00":                                                      {Scope: "\xff\xfe", Key: "\x00"},
	} {
		if got := r.Append(nil); string(got) != want {
			t.Errorf("%+v is written %x, not %x", r, got, want)
		}
	}
}

func TestRecordIsRefused(t *testing.T) {
	for what, value := range map[string]string{
		"empty":                   "",
		"fingerprint breaks off":  "\x00\x01\x02\x03\x04\x05\x06\x07",
		"unknown flag":            "\x10\x01\x02\x03\x04\x05\x06\x07\x08",
		"digest breaks off":       "\x08\x01\x02\x03\x04\x05\x06\x07\x08\x01",
		"digest of 0":             "\x08\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00\x00\x00\x00",
		"shingle breaks off":      "\x01\x01\x02\x03\x04\x05\x06\x07\x08\x01",
		"no length":               "\x04\x01\x02\x03\x04\x05\x06\x07\x08",
		"length of 0":             "\x04\x01\x02\x03\x04\x05\x06\x07\x08\x00",
		"length of 33 bits":       "\x04\x01\x02\x03\x04\x05\x06\x07\x08\x80\x80\x80\x80\x10",
		"no scope length":         "\x02\x01\x02\x03\x04\x05\x06\x07\x08",
		"scope breaks off":        "\x02\x01\x02\x03\x04\x05\x06\x07\x08\x02s",
		"scope length of 2^64-1":  "\x02\x01\x02\x03\x04\x05\x06\x07\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01s",
		"scope length of 65 bits": "\x02\x01\x02\x03\x04\x05\x06\x07\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02s",
	} {
		if r, err := DecodeRecord([]byte(value)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(Record{Fingerprint: 1, Shingle: 2, Digest: 3, Scope: "scope", Key: "key"}.Append(nil))
	f.Add(Record{}.Append(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := DecodeRecord(value)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again, err := DecodeRecord(r.Append(nil)); err != nil || again != r {
			t.Fatalf("%+v reads back as %+v, %v", r, again, err)
		}
	})
}
