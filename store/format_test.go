package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/fault"
	"pgregory.net/rapid"
)

// FuzzMeta tests that a value of a meta entry is refused, or encoded as it was. The values of the
// entries of an index are decoded.
func FuzzMeta(f *testing.F) {
	tables := []tableInfo{{7, 2, 90}, {7, 1, maxPackedBytes}}
	for _, m := range []Meta{
		{"plan", "analyzer", Counters{1, 0, 0}, nil, packing{1, 1, tables[:1]}, epochs{3, 4}},
		{"", "", Counters{2, 1, 1}, []uint64{1, 9}, packing{2, 9, tables}, epochs{4, 4}},
		{"", "", Counters{1<<64 - 1, 7, 0}, []uint64{1}, packing{1, 1, make([]tableInfo, 1)},
			epochs{1<<64 - 2, 1<<64 - 1}},
	} {
		var decoded Meta
		for _, name := range metaNames {
			must(f, decoded.decode(name, m.encode(name)))
			f.Add(m.encode(name))
		}
		if fmt.Sprint(decoded) != fmt.Sprint(m) {
			f.Errorf("%+v reads as %+v", m, decoded)
		}
	}
	f.Add([]byte(magic + "\x01"))
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, name := range metaNames {
			var m Meta
			err := m.decode(name, value)
			if err == nil && string(m.encode(name)) != string(value) {
				t.Errorf("%s: %x reads as %+v", name, value, m)
			}
			if err != nil && !errors.Is(err, fault.ErrCorrupt) && (name != "format" ||
				!errors.Is(err, fault.ErrNotIndex) && !errors.Is(err, fault.ErrVersion)) {
				t.Errorf("%s: %x: %v", name, value, err)
			}
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
		{"newer format", "format", version(Format + 1), fault.ErrVersion,
			fmt.Sprint("reads format ", Format)},
		{"format 0", "format", version(0), fault.ErrVersion, "0"},
		{"format breaks off", "format", version(Format)[:10], fault.ErrCorrupt, "10 bytes"},
		{"other magic", "format", []byte("something else"), fault.ErrNotIndex, "format entry"},
		{"no format", "format", nil, fault.ErrNotIndex, "another kind"},
		{"no plan", "plan", nil, fault.ErrCorrupt, "plan"},
		{"no analyzer", "analyzer", nil, fault.ErrCorrupt, "analyzer"},
		{"no counters", "counters", nil, fault.ErrCorrupt, "counters"},
		{"counters break off", "counters", make([]byte, 23), fault.ErrCorrupt, "23 bytes"},
		{"counters of 0", "counters", make([]byte, 24), fault.ErrCorrupt, "counters"},
		{"packed breaks off", "packed", make([]byte, 20), fault.ErrCorrupt, "20 bytes"},
		{"a document without an ID", "counters", appendUint64s(nil, 1, 1, 0), fault.ErrCorrupt,
			"counters"},
		{"more bare documents", "counters", appendUint64s(nil, 5, 2, 3), fault.ErrCorrupt,
			"counters"},
		{"packed of too many bytes", "packed", appendUint64s(nil, 1, 2, 1, 1, 1, 1, 1, 1<<63),
			fault.ErrCorrupt, "packed table 1"},
		{"epochs break off", "epochs", make([]byte, 15), fault.ErrCorrupt, "15 bytes"},
		{"last epoch before the first", "epochs", appendUint64s(nil, 2, 1), fault.ErrCorrupt,
			"epochs 2 to 1"},
		{"three epochs", "epochs", appendUint64s(nil, 2, 4), fault.ErrCorrupt, "epochs 2 to 4"},
		{"epoch after the last number", "epochs", appendUint64s(nil, 1<<64-1, 0),
			fault.ErrCorrupt, "epochs"},
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
			for _, opts := range []Options{{}, {ReadOnly: true}, {Create: &Meta{Plan: "plan"}}} {
				opts.FS = mem
				_, err := Open("ix", opts)
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
					!strings.Contains(err.Error(), "ix") {
					t.Errorf("%+v: %v", opts, err)
				}
			}
		})
	}
}

func TestEpochs(t *testing.T) {
	for _, c := range []struct {
		epochs epochs
		live   string
	}{
		{epochs{0, 0}, "t"}, {epochs{0, 1}, "tx"}, {epochs{1, 1}, "x"}, {epochs{1, 2}, "xt"},
		{epochs{1<<64 - 2, 1<<64 - 1}, "tx"},
	} {
		if got := string(c.epochs.live()); got != c.live {
			t.Errorf("keyspaces of %+v: %q, want %q", c.epochs, got, c.live)
		}
		last := c.epochs.last
		if got := c.epochs.packed(); got != (epochs{last, last}) {
			t.Errorf("%+v after a compaction: %+v", c.epochs, got)
		}
	}
}

// TestKeyBytes compares keys with the bytes that docs/format.md specifies.
func TestKeyBytes(t *testing.T) {
	const n = 0x0102030405060708
	for want, key := range map[string][]byte{
		"mplan":                             metaKey("plan"),
		"d\x01\x02\x03\x04\x05\x06\x07\x08": documentKey(n),
		"k\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00\x00\x00\x09": keyKey(n, 9),
		"t\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00\x00\x00\x09": liveKey(
			evenKeyspace, n, 9),
		"x\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00\x00\x00\x09": liveKey(
			oddKeyspace, n, 9),
		"t\x00\x03\x01\x02\x03\x04\x05\x06\x07\x08": tableKey(
			evenKeyspace, 3, n),
		"x\xff\xff\x01\x02\x03\x04\x05\x06\x07\x08": tableKey(
			oddKeyspace, removedTable, n),
		"u\x00\x03\x01\x02\x03\x04\x05\x06\x07\x08": tableKey(
			packedKeyspace, 3, n),
		"v\x00\x03\x00\x00\x01\x00": chunkKey(
			directoryKeyspace, 3, 256),
		"w\xff\xff\x00\x00\x00\x02": chunkKey(
			filterKeyspace, KeyFilterTable, 2),
	} {
		if string(key) != want {
			t.Errorf("key %q, want %q", key, want)
		}
	}
}

func TestRecordReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{
			Fingerprint: rapid.Uint64().Draw(t, "fingerprint"),
			Time: rapid.OneOf(rapid.SampledFrom([]uint64{0, 127, 128, math.MaxInt64}),
				rapid.Uint64Max(math.MaxInt64)).Draw(t, "time"),
			Shingles: rapid.SampledFrom([]fingerprint.ShingleSignature{{}, {1}, {3: 1 << 63},
				{1, 2, 3, 4}}).Draw(t, "shingles"),
			Digest: rapid.SampledFrom([]uint64{0, 1, 1 << 63}).Draw(t, "digest"),
			Tokens: rapid.Uint32().Draw(t, "tokens"),
			Scope:  rapid.String().Draw(t, "scope"),
			Key:    string(rapid.SliceOf(rapid.Byte()).Draw(t, "key")),
		}
		value := r.appendTo([]byte("before"))[len("before"):]
		got, err := decodeRecord(value)
		if err != nil || got != r {
			t.Fatalf("%+v reads back as %+v, %v", r, got, err)
		}
		if r.Bare() != (r == Record{Fingerprint: r.Fingerprint, Time: r.Time}) {
			t.Fatalf("%+v: Bare returns %t", r, r.Bare())
		}
		// A record without its last byte is a record with a shorter key, or it is refused.
		if got, err := decodeRecord(value[:len(value)-1]); r.Key == "" &&
			!errors.Is(err, fault.ErrCorrupt) || r.Key != "" &&
			(err != nil || got.Key != r.Key[:len(r.Key)-1]) {
			t.Fatalf("%+v without its last byte: %+v, %v", r, got, err)
		}
	})
	long := Record{Scope: strings.Repeat("s", 64<<10), Key: strings.Repeat("k", 64<<10)}
	if got, err := decodeRecord(long.appendTo(nil)); err != nil || got != long {
		t.Errorf("a long record reads back differently: %v", err)
	}
}

// TestRecordBytes compares records with the bytes that docs/format.md specifies.
func TestRecordBytes(t *testing.T) {
	const zeros = "\x00\x00\x00\x00\x00\x00\x00"
	// of nine
	const shingles = "\x01\x02\x03\x04\x05\x06\x07\x08" + zeros + "\x00" + zeros +
		"\x09" + "\xff" + zeros
	nine := fingerprint.ShingleSignature{0x0102030405060708, 0, 9, 0xff << 56}
	for want, r := range map[string]Record{
		"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x00key":               {Fingerprint: 0x0102030405060708, Key: "key"},
		"\x00\x00" + zeros + "\xac\x02":                             {Time: 300},
		"\x00\x00" + zeros + "\xff\xff\xff\xff\xff\xff\xff\xff\x7f": {Time: math.MaxInt64},
		"\x09\x00" + zeros + "\x05" + shingles + "\x01s": {Time: 5,
			Shingles: nine, Scope: "s"},
		"\x0d\x00" + zeros + "\x05" + shingles + "\xac\x02\x01sk": {Time: 5, Shingles: nine,
			Tokens: 300, Scope: "s", Key: "k"},
		"\x07\x00" + zeros + "\x00" + shingles + zeros +
			"\x0a\x02k": {Shingles: nine, Digest: 10, Tokens: 2, Key: "k"},
		"\x08\x00" + zeros +
			"\x00\x02\xff\xfe\x00": {Scope: "\xff\xfe", Key: "\x00"},
		"\x0f\x00" + zeros + "\xac\x02" + shingles + zeros + "\x02\xff\xff\xff\xff\x0f\x01sk": {
			Time: 300, Shingles: nine, Digest: 2, Tokens: math.MaxUint32, Scope: "s", Key: "k",
		},
	} {
		if got := r.appendTo(nil); string(got) != want {
			t.Errorf("%+v is written %x, not %x", r, got, want)
		}
		if got, err := decodeRecord([]byte(want)); err != nil || got != r {
			t.Errorf("%x reads as %+v, %v", want, got, err)
		}
	}
}

func TestRecordIsRefused(t *testing.T) {
	const prefix = "\x01\x02\x03\x04\x05\x06\x07\x08"
	for what, value := range map[string]string{
		"empty":                  "",
		"fingerprint breaks off": "\x00\x01\x02\x03\x04\x05\x06\x07",
		"unknown flag":           "\x10" + prefix + "\x05",
		"highest flag":           "\x80" + prefix + "\x05",
		"no time":                "\x00" + prefix,
		"time breaks off":        "\x00" + prefix + "\x80",
		"time of 64 bits":        "\x00" + prefix + "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
		"time of 65 bits":        "\x00" + prefix + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		"shingles break off":     "\x01" + prefix + "\x05" + strings.Repeat("\x01", 31),
		"shingles of 0":          "\x01" + prefix + "\x05" + strings.Repeat("\x00", 32),
		"digest breaks off":      "\x02" + prefix + "\x05\x01",
		"digest of 0":            "\x02" + prefix + "\x05\x00\x00\x00\x00\x00\x00\x00\x00",
		"no tokens":              "\x04" + prefix + "\x05",
		"tokens of 0":            "\x04" + prefix + "\x05\x00",
		"tokens of 33 bits":      "\x04" + prefix + "\x05\x80\x80\x80\x80\x10",
		"no scope length":        "\x08" + prefix + "\x05",
		"scope of 0 bytes":       "\x08" + prefix + "\x05\x00",
		"scope breaks off":       "\x08" + prefix + "\x05\x02s",
		"scope length of 2^64-1": "\x08" + prefix +
			"\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01s",
		"scope length of 65 bits": "\x08" + prefix +
			"\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02s",
	} {
		if r, err := decodeRecord([]byte(value)); !errors.Is(err, fault.ErrCorrupt) ||
			r != (Record{}) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, r := range []Record{
		{}, {Fingerprint: 1, Time: 300, Shingles: fingerprint.ShingleSignature{2}, Digest: 3,
			Tokens: 4, Scope: "scope", Key: "key"}, {Time: math.MaxInt64, Key: "key"},
		{Shingles: fingerprint.ShingleSignature{1}}, {Digest: 1},
		{Tokens: math.MaxUint32}, {Scope: "s"},
	} {
		f.Add(r.appendTo(nil))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := decodeRecord(value)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) || r != (Record{}) {
				t.Fatal(r, err)
			}
			return
		}
		written := r.appendTo(nil)
		if again, err := decodeRecord(written); err != nil || again != r {
			t.Fatalf("%+v reads back as %+v, %v", r, again, err)
		}
		if len(written) > len(value) { // equal, or the value has numbers in a longer form
			t.Fatalf("%x is written as %x", value, written)
		}
	})
}
