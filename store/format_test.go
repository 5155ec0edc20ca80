package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/fault"
)

// FuzzMeta tests that decode either returns an error or a Meta that is encoded as the same value.
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

// TestFormat runs testdata/format, which has keys, records and meta entries byte by byte. With
// -rewrite it rewrites their results.
func TestFormat(t *testing.T) {
	datadriven.RunTest(t, "testdata/format", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "keys" {
			return keysOfAllKinds()
		}
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			name, fields, _ := strings.Cut(strings.TrimSpace(line), ":")
			var value []byte // nil: none
			for _, field := range strings.Fields(fields) {
				if n, err := strconv.ParseUint(field, 0, 64); err == nil {
					value = binary.BigEndian.AppendUint64(value, n)
					continue
				}
				text, err := strconv.Unquote(field)
				must(t, err)
				value = append(value, text...)
			}
			if d.Cmd == "meta" {
				fmt.Fprintf(&out, "%s: %v\n", name, openWithMeta(t, name, value))
				continue
			}
			r, err := decodeRecord(value)
			switch {
			case err == nil && string(r.appendTo(nil)) != string(value):
				t.Errorf("%s: %+v is written as %x", name, r, r.appendTo(nil))
			case err == nil:
				fmt.Fprintf(&out, "%s: %x at %d, shingles %v, digest %d, %d tokens, scope %q, "+
					"key %q\n", name, r.Fingerprint, r.Time, r.Shingles, r.Digest, r.Tokens,
					r.Scope, r.Key)
			default:
				fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("%s: %v", name, err)))
			}
		}
		return out.String()
	})
}

// keysOfAllKinds lists one key of each kind.
func keysOfAllKinds() string {
	const n = 0x0102030405060708
	var out strings.Builder
	for _, k := range []struct {
		kind string
		key  []byte
	}{
		{"meta", metaKey("plan")}, {"document", documentKey(n)}, {"key", keyKey(n, 9)},
		{"count of duplicates", countKey(n)},
		{"live, even epoch", liveKey(evenKeyspace, n, 9)},
		{"live, odd epoch", liveKey(oddKeyspace, n, 9)},
		{"live, another table", tableKey(evenKeyspace, 3, n)},
		{"removed", tableKey(oddKeyspace, removedTable, n)},
		{"packed", tableKey(packedKeyspace, 3, n)},
		{"directory", chunkKey(directoryKeyspace, 3, 256)},
		{"filter of keys", chunkKey(filterKeyspace, KeyFilterTable, 256)},
	} {
		fmt.Fprintf(&out, "%s: %q\n", k.kind, k.key)
	}
	return out.String()
}

// openWithMeta creates a store with another value of a meta entry, or without the entry, and
// returns the error of Open, which must not depend on the options.
func openWithMeta(t *testing.T, name string, value []byte) (err error) {
	mem := vfs.NewMem()
	s := openIn(t, mem)
	if value == nil {
		must(t, s.db.Delete(metaKey(name), nil))
	} else {
		must(t, s.db.Set(metaKey(name), value, nil))
	}
	must(t, s.Close())
	for way, opts := range everyWay() {
		before := err
		opts.FS = mem
		if _, err = Open("ix", opts); before != nil && fmt.Sprint(err) != before.Error() {
			t.Errorf("%s of %x, %s: %v, not %v", name, value, way, err, before)
		}
	}
	return err
}

func FuzzCount(f *testing.F) {
	for _, c := range []duplicates.Count{{Checks: 1}, {Checks: 1 << 40,
		Texts: duplicates.TextOf(17)}} {
		f.Add(appendCount(nil, c))
	}
	for _, broken := range []string{"", "\x00", "\x01\x02", "\x01" + strings.Repeat("\x00", 8)} {
		f.Add([]byte(broken))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := decodeCount(src)
		sum, mergeErr := merger.Merge(nil, src)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) || c != (duplicates.Count{}) ||
				!errors.Is(mergeErr, fault.ErrCorrupt) ||
				!errors.Is(sum.MergeNewer(src), fault.ErrCorrupt) {
				t.Fatalf("%+v, %v, %v", c, err, mergeErr)
			}
			return
		}
		if again, err := decodeCount(appendCount(nil, c)); err != nil || again != c {
			t.Fatalf("%+v is decoded as %+v, %v", c, again, err)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	for _, r := range []Record{
		{}, {Fingerprint: 1, Time: 300, Shingles: fingerprint.ShingleSignature{2}, Digest: 3,
			Tokens: 4, Scope: "scope", Key: "key"}, {Time: math.MaxInt64, Key: "key"},
		{Shingles: fingerprint.ShingleSignature{1}}, {Digest: 1},
		{Tokens: math.MaxUint32}, {Scope: "s"},
		{Scope: strings.Repeat("s", 64<<10), Key: strings.Repeat("k", 64<<10)},
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
		if r.Bare() != (r == Record{Fingerprint: r.Fingerprint, Time: r.Time}) {
			t.Fatalf("%+v: Bare returns %t", r, r.Bare())
		}
		// A record without its last byte is a record with a shorter key, or it is refused.
		shorter, err := decodeRecord(written[:len(written)-1])
		if (err != nil) != (r.Key == "") || r.Key != "" && shorter.Key != r.Key[:len(r.Key)-1] {
			t.Fatalf("%+v without its last byte: %+v, %v", r, shorter, err)
		}
		if len(written) > len(value) { // equal, or the value has numbers in a longer form
			t.Fatalf("%x is written as %x", value, written)
		}
	})
}
