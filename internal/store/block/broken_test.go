package block

import (
	"errors"
	"slices"
	"testing"
)

// Valid blocks, each with one thing broken.
func TestBrokenBlocks(t *testing.T) {
	fps := []uint64{0x0123456789abcdef, 0x0123456789abcdf0, 0x4000000000000000}
	postings := []IDs{NewIDs(5), NewIDs(6, 9, 1000), NewIDs(12)}
	code := codeOf(fps)
	write := func(codec Codec, with bool) (block []byte) {
		w, err := NewWriter(Options{Codec: codec, Code: code, Postings: with}, func(_ uint64, data []byte) error {
			block = slices.Clone(data)
			return nil
		})
		for i, fp := range fps {
			if with {
				err = errors.Join(err, w.AddPosting(fp, postings[i]))
			} else {
				err = errors.Join(err, w.Add(fp))
			}
		}
		if err = errors.Join(err, w.Flush()); err != nil {
			t.Fatal(err)
		}
		return block
	}
	set := func(at int, to ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			copy(b[at:], to)
			return b
		}
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	more := func(b []byte) []byte { return append(b, 0) }

	elias, huffman := write(EliasFano, false), write(Huffman, false)
	slots := len(elias) // where the postings begin
	for _, test := range []struct {
		name   string
		block  []byte
		change func([]byte) []byte
		opens  bool // and only Verify finds out
	}{
		{"elias-fano, empty", elias, cut(len(elias)), false},
		{"elias-fano, header only", elias, cut(len(elias) - 6), false},
		{"elias-fano, a byte less", elias, cut(1), false},
		{"elias-fano, a byte more", elias, more, false},
		{"elias-fano, unknown codec", elias, set(0, 3), false},
		{"elias-fano, no low bits", elias, set(1, 0), false},
		{"elias-fano, 58 low bits", elias, set(1, 58), false},
		{"elias-fano, no fingerprints", elias, set(2, 0, 0), false},
		{"elias-fano, more fingerprints than bytes", elias, set(2, 0xff, 0xff), false},
		{"elias-fano, more buckets than bytes", elias, set(4, 0xff, 0xff), false},
		{"elias-fano, all zeros in the unary part", elias, set(7, 0, 0, 0, 0, 0), true},
		{"elias-fano, all ones in the unary part", elias, set(7, 0xff, 0xff, 0xff, 0xff, 0xff), true},
		{"elias-fano, buckets beyond 64 bits", elias, set(6, 0x7f), true},
		{"huffman, header only", huffman, cut(len(huffman) - 5), false},
		{"huffman, a byte less", huffman, cut(1), false},
		{"huffman, a byte more", huffman, more, false},
		{"huffman, no fingerprints", huffman, set(1, 0, 0), false},
		{"huffman, more fingerprints than the stream has", huffman, set(1, 0xff, 0xff), true},
		{"huffman, fingerprints that descend", huffman, set(len(huffman)-8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), true},
		{"postings, none", write(EliasFano, true), func(b []byte) []byte { return b[:slots] }, true},
		{"postings, slots too wide", write(EliasFano, true), set(slots, 58), true},
		{"postings, low too large", write(EliasFano, true), set(slots+1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), true},
		{"postings, ID 0", write(EliasFano, true), set(slots+1, 0), true},
		{"postings, more lists than fingerprints", write(EliasFano, true), set(slots+2, 4), true},
		{"postings, a list less", write(EliasFano, true), set(slots+2, 0), true},
		{"postings, a list more", write(EliasFano, true), set(slots+2, 2), true},
		{"postings, ends too wide", write(EliasFano, true), set(slots+3, 58), true},
		{"postings, the list cut off", write(EliasFano, true), cut(1), true},
		{"postings, a byte behind the list", write(EliasFano, true), more, true},
	} {
		var b Block
		err := b.Open(slices.Clip(test.change(slices.Clone(test.block))), code)
		if test.opens != (err == nil) {
			t.Errorf("%s: Open: %v", test.name, err)
		}
		if err == nil {
			err = b.Verify()
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	both := write(EliasFano, true)
	for n := range both {
		var b Block
		err := b.Open(slices.Clip(slices.Clone(both[:n])), code)
		if err == nil {
			err = b.Verify()
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(both), err)
		}
	}
	postings = []IDs{NewIDs(5, 6), NewIDs(7, 9), NewIDs(12)}
	twice := set(slots+4, 2|2<<2)(write(EliasFano, true)) // the same list for two fingerprints
	var b Block
	if err := errors.Join(b.Open(twice, code), b.Verify()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a list of two fingerprints: %v", err)
	}
	if err := b.Open(huffman, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Huffman block without a code: %v", err)
	}
	if err := b.Open(elias, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Posting(0); !errors.Is(err, errNoPostings) {
		t.Errorf("posting of a block without: %v", err)
	}
}
