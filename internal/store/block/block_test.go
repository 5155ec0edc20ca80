package block

import (
	"errors"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/store/block/blocktest"
	"pgregory.net/rapid"
)

var codecs = map[string]Codec{"huffman": Huffman, "eliasfano": EliasFano}

func openBlock(t interface{ Fatalf(string, ...any) }, data []byte, code *HuffmanCode) *Block {
	var b Block
	if err := b.Open(data, code); err != nil {
		t.Fatalf("open: %v", err)
	}
	return &b
}

func checkRange(t *rapid.T, b *Block, fps []uint64, first, last uint64) {
	want, at := blocktest.InRange(fps, first, last)
	got, gotAt := b.AppendRange([]uint64{7}, first, last)
	if !slices.Equal(got[1:], want) || got[0] != 7 || len(want) > 0 && gotAt != at {
		t.Fatalf("range %016x..%016x: %016x at %d, want %016x at %d", first, last, got[1:], gotAt, want, at)
	}
	lows, from, to, ok := b.Lows(first, last)
	if !ok {
		return
	}
	if len(want) > 0 && (from > at || to < at+len(want)) {
		t.Fatalf("low bits of %016x..%016x: positions %d..%d, want %d..%d in them", first, last, from, to, at, at+len(want))
	}
	if from < to && (from < 0 || to > len(fps)) {
		t.Fatalf("low bits of %016x..%016x: positions %d..%d of %d", first, last, from, to, len(fps))
	}
	for i := from; i < to; i++ {
		if lows.At(i) != fps[i]&lows.Mask() {
			t.Fatalf("low bits at %d: %x of %016x", i, lows.At(i), fps[i])
		}
		// No more than the rest of the two buckets at the ends.
		if fps[i] < first&^lows.Mask() || fps[i] > last|lows.Mask() {
			t.Fatalf("low bits of %016x..%016x: position %d is %016x", first, last, i, fps[i])
		}
	}
}

func TestBlock(t *testing.T) {
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				fps := blocktest.Fingerprints(t, 400)
				code := codeOf(fps)
				if rapid.Bool().Draw(t, "foreign code") {
					code = codeOf(blocktest.Fingerprints(t, 100))
				}
				data, err := Append([]byte("before"), codec, code, fps)
				if err != nil {
					t.Fatal(err)
				}
				data = slices.Clip(data[len("before"):])
				b := openBlock(t, data, code)
				if err := b.Verify(); err != nil {
					t.Fatal(err)
				}
				if b.Len() != len(fps) || b.First() != fps[0] || b.Last() != fps[len(fps)-1] {
					t.Fatalf("%d fingerprints %016x..%016x", b.Len(), b.First(), b.Last())
				}
				if got := b.AppendTo(nil); !slices.Equal(got, fps) {
					t.Fatalf("%016x, want %016x", got, fps)
				}
				i := rapid.IntRange(0, len(fps)-1).Draw(t, "i")
				if got := b.At(i); got != fps[i] {
					t.Fatalf("fingerprint %d: %016x, want %016x", i, got, fps[i])
				}
				for range 20 {
					first, last := blocktest.Range(t, fps)
					checkRange(t, b, fps, first, last)
				}
			})
		})
	}
}

// Ranges of a block need no allocation but that of the result.
func TestBlockAllocations(t *testing.T) {
	fps := sparseValues(200, benchDensity, 3)
	for name, codec := range codecs {
		code := codeOf(fps)
		data, err := Append(nil, codec, code, fps)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]uint64, 0, len(fps))
		allocations := testing.AllocsPerRun(100, func() {
			var b Block
			if b.Open(data, code) != nil {
				panic("open")
			}
			buf, _ = b.AppendRange(buf[:0], fps[20], fps[100])
			b.Lows(fps[20], fps[100])
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}

func TestBlockRefuses(t *testing.T) {
	code := codeOf([]uint64{1, 2})
	for name, codec := range codecs {
		for _, fps := range [][]uint64{nil, {2, 1}, {5, 5}, make([]uint64, MaxLen+1)} {
			if _, err := Append(nil, codec, code, fps); !errors.Is(err, errContent) {
				t.Errorf("%s: block of %d fingerprints: %v", name, len(fps), err)
			}
		}
	}
	if _, err := Append(nil, Huffman, nil, []uint64{1}); err == nil {
		t.Error("a Huffman block without a code was written")
	}
	wide := sparseValues(20000, 60000, 1)
	if _, err := Append(nil, Huffman, code, wide); !errors.Is(err, errContent) {
		t.Errorf("a Huffman block of over 64 KiB: %v", err)
	}
	if _, err := Append(nil, 7, nil, []uint64{1}); err == nil {
		t.Error("a block of codec 7 was written")
	}
	for _, opts := range []Options{{Codec: 7}, {Codec: Huffman}, {Bytes: 63}, {Bytes: 1<<15 + 1}} {
		if _, err := NewWriter(opts, nil); err == nil {
			t.Errorf("a writer with %+v was made", opts)
		}
	}
	full := errors.New("disk full")
	w, err := NewWriter(Options{Postings: true}, func(uint64, []byte) error { return full })
	if err != nil {
		t.Fatal(err)
	}
	for _, ids := range []IDs{NewIDs(), NewIDs(0), NewIDs(maxID + 1)} {
		if err := w.AddPosting(1, ids); !errors.Is(err, errPosting) {
			t.Errorf("posting %v: %v", ids, err)
		}
	}
	if err := w.Add(1); err == nil {
		t.Error("a fingerprint without a posting was taken")
	}
	if err := w.AddPosting(9, NewIDs(1)); err != nil {
		t.Fatal(err)
	}
	if err := w.AddPosting(9, NewIDs(2)); !errors.Is(err, errContent) {
		t.Errorf("the same fingerprint again: %v", err)
	}
	for range 2 {
		if err := w.Flush(); !errors.Is(err, full) {
			t.Errorf("Flush: %v", err)
		}
	}
	if err := w.AddPosting(10, NewIDs(2)); !errors.Is(err, full) {
		t.Errorf("AddPosting after a failure: %v", err)
	}
}
