package block

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/internal/fault"
	"pgregory.net/rapid"
)

// drawIDs draws a list of distinct IDs. It is encoded inline or as a bitmap. The IDs are dense,
// scattered, or large.
func drawIDs(t *rapid.T, label string) []uint64 {
	id := rapid.OneOf(
		rapid.Uint64Range(1, 200),
		rapid.Uint64Range(1, 1<<33),
		rapid.Uint64Range(1, math.MaxUint64),
		rapid.SampledFrom([]uint64{1, math.MaxUint32, 1 << 32, 1<<32 + 1, math.MaxUint64 - 1,
			math.MaxUint64}),
	)
	ids := rapid.SliceOfN(id, 0, 80).Draw(t, label)
	if rapid.Bool().Draw(t, label+" in a run") {
		first := rapid.Uint64Range(1, 1<<40).Draw(t, label+" from")
		for i := range rapid.Uint64Range(0, 3000).Draw(t, label+" long") {
			ids = append(ids, first+i)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func encodeIDs(t failer, ids IDs) []byte {
	t.Helper()
	encoded, err := ids.encode()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawIDs(t, "a"), drawIDs(t, "b")
		setA, setB := NewIDs(slices.Clone(a)...), NewIDs(slices.Clone(b)...)
		if rapid.Bool().Draw(t, "shrunk") {
			setA, setB = setA.shrunk(), setB.shrunk()
		}
		check := func(what string, got IDs, want []uint64) {
			list, appended := slices.Collect(got.All()), got.AppendTo([]uint64{5})
			if !slices.Equal(list, want) || got.Len() != len(want) || appended[0] != 5 ||
				!slices.Equal(appended[1:], want) {
				t.Fatalf("%s: %v (%d), %v, not %v", what, list, got.Len(), appended, want)
			}
		}
		check("NewIDs", setA, a)
		encoded := encodeIDs(t, setA)
		if inline := encoded[0] == idsInline; inline != (len(a) <= maxInline) {
			t.Fatalf("%d IDs have codec %d", len(a), encoded[0])
		}
		decoded, err := decodeIDs(encoded)
		if err != nil {
			t.Fatal(err)
		}
		check("decoded", decoded, a)

		removed := roaring64.BitmapOf(b...)
		less := slices.DeleteFunc(slices.Clone(a), removed.Contains)
		both := slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
		check("WithoutAll", setA.WithoutAll(removed), less)
		check("decoded WithoutAll", decoded.WithoutAll(removed), less)
		check("Union", setA.Union(setB), both)
		check("decoded Union", setB.Union(decoded), both)
		check("the set itself, at the end", setA, a)
		check("the decoded set, at the end", decoded, a)
	})
}

// TestEncodeDoesNotChangeSet encodes and reads the same set from several goroutines. With -race it
// fails if encode changes the bitmap. Without -race it compares the containers.
func TestEncodeDoesNotChangeSet(t *testing.T) {
	bitmap := roaring64.New()
	for id := range uint64(5000) {
		bitmap.Add(1 + id) // a run that the bitmap does not store as a run yet
	}
	ids := IDs{bitmap: bitmap}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if value, err := ids.encode(); err != nil || len(value) > 100 {
				t.Errorf("%d bytes, %v: the run is not encoded as a run", len(value), err)
			}
			if n := ids.Len(); n != 5000 {
				t.Errorf("%d IDs", n)
			}
		})
	}
	group.Wait()
	if bitmap.HasRunCompression() {
		t.Error("encode changed the bitmap")
	}
}

func TestDecodeInvalidIDs(t *testing.T) {
	holdsZero, err := roaring64.BitmapOf(0).ToPortableBytes()
	if err != nil {
		t.Fatal(err)
	}
	bitmap := roaring64.New()
	for id := range uint64(40) {
		bitmap.Add(3*id + 1)
	}
	swapped := encodeIDs(t, IDs{bitmap: bitmap}) // two bytes per ID at its end
	if _, err := decodeIDs(swapped); err != nil || swapped[0] != idsRoaring {
		t.Fatal(swapped, err)
	}
	last := len(swapped) - 2
	swapped[last], swapped[last-2] = swapped[last-2], swapped[last]
	for what, value := range map[string]string{
		"IDs do not ascend":    string(swapped),
		"empty":                "",
		"codec 3":              "\x03\x01\x01\x01",
		"codec 4":              "\x04\x01",
		"ID 0":                 "\x01\x00",
		"an ID twice":          "\x01\x05\x00",
		"a truncated varint":   "\x01\x80",
		"a varint overflows":   "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		"IDs overflow":         "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01",
		"a truncated bitmap":   "\x02\x01\x00\x00",
		"four billion buckets": "\x02\xff\xff\xff\xff\x00\x00\x00\x00\x00",
		"2^63 buckets":         "\x02\x00\x00\x00\x00\x00\x00\x00\x80\x00",
		"bitmap with ID 0":     "\x02" + string(holdsZero),
		"bytes after a bitmap": "\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		if ids, err := decodeIDs([]byte(value)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v, %v", what, ids, err)
		}
	}
}

func FuzzDecodeIDs(f *testing.F) {
	f.Add([]byte{idsInline, 7, 1})
	f.Add([]byte{idsRoaring, 255, 255, 255, 255, 0, 0, 0, 0, 0})
	// small bitmaps, so that the fuzzer has little to shorten
	many := []uint64{1 << 40, 1 << 63}
	for i := range uint64(maxInline + 1) {
		many = append(many, i*i+1)
	}
	f.Add(encodeIDs(f, NewIDs(many[2:]...)))
	f.Add(encodeIDs(f, NewIDs(many...)))
	f.Fuzz(func(t *testing.T, value []byte) {
		ids, err := decodeIDs(value)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if ids.Len() > 1<<20 {
			return // a few bytes can stand for a long run
		}
		list := slices.Collect(ids.All())
		if len(list) != ids.Len() || slices.Contains(list, 0) || !slices.IsSorted(list) {
			t.Fatalf("%x is %v", value, list)
		}
		again, err := decodeIDs(encodeIDs(t, ids))
		if err != nil || !slices.Equal(slices.Collect(again.All()), list) {
			t.Fatalf("%v reads back as %v, %v", list, again, err)
		}
	})
}
