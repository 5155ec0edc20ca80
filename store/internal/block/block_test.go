package block

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/store/internal/block/blocktest"
	"pgregory.net/rapid"
)

func openBlock(t interface{ Fatalf(string, ...any) }, data []byte) *Block {
	var b Block
	if err := b.Open(data); err != nil {
		t.Fatalf("open: %v", err)
	}
	return &b
}

// pack writes fingerprints, with optional postings, into blocks.
func pack(t interface{ Fatal(...any) }, size int, fps []uint64, postings []IDs) (blocks [][]byte) {
	w := NewWriter(Options{Bytes: size, Postings: postings != nil},
		func(last uint64, data []byte) error {
			blocks = append(blocks, slices.Clone(data))
			return nil
		})
	for i, fp := range fps {
		var err error
		if postings != nil {
			err = w.AddPosting(fp, postings[i])
		} else {
			err = w.Add(fp)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if w.Entries() != uint64(len(fps)) {
		t.Fatal(w.Entries())
	}
	return blocks
}

func checkRange(t *rapid.T, b *Block, fps []uint64, first, last uint64) {
	want, at := blocktest.InRange(fps, first, last)
	got, gotAt := b.AppendRange([]uint64{7}, first, last)
	if !slices.Equal(got[1:], want) || got[0] != 7 || len(want) > 0 && gotAt != at {
		t.Fatalf("range %016x..%016x: %016x at %d, want %016x at %d", first, last, got[1:],
			gotAt, want, at)
	}
	from, to, ok := b.Positions(first, last)
	if !ok {
		return
	}
	if len(want) > 0 && (from > at || to < at+len(want)) {
		t.Fatalf("low bits of %016x..%016x: positions %d..%d, want %d..%d in them", first, last,
			from, to, at, at+len(want))
	}
	if from < to && (from < 0 || to > len(fps)) {
		t.Fatalf("low bits of %016x..%016x: positions %d..%d of %d", first, last,
			from, to, len(fps))
	}
	for i := from; i < to; i++ {
		// No more than the rest of the two buckets at the ends.
		if fps[i] < first&^b.lowMask() || fps[i] > last|b.lowMask() {
			t.Fatalf("low bits of %016x..%016x: position %d is %016x", first, last, i, fps[i])
		}
	}
	for _, k := range []int{0, 3, 16, 24} {
		checkNear(t, b, from, to, first^1<<k, k)
		checkNear(t, b, from, to, last, k)
		if from < to {
			checkNear(t, b, from, to, fps[(from+to)/2]^5, k)
		}
	}
}

// checkNear compares AppendNear with the low bits one by one.
func checkNear(
	t interface{ Fatalf(string, ...any) }, b *Block, from, to int, fp uint64, k int,
) {
	var want []int
	for i := from; i < to; i++ {
		if bits.OnesCount64((b.low(i)^fp)&b.lowMask()) <= k {
			want = append(want, i)
		}
	}
	var c Comparison
	c.Begin(fp, k)
	if got := b.AppendNear([]int{-1}, from, to, &c); !slices.Equal(got[1:], want) {
		t.Fatalf("within %d bits of %016x from %d to %d of %d low bits: positions %v, want %v", k,
			fp, from, to, b.width, got[1:], want)
	}
}

func TestBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 400)
		data, err := Append([]byte("before"), fps)
		if err != nil {
			t.Fatal(err)
		}
		data = slices.Clip(data[len("before"):])
		b := openBlock(t, data)
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
}

// TestBlockAllocations tests that reading a range allocates only the result.
func TestBlockAllocations(t *testing.T) {
	fps := sparseValues(200, 100_000_000, 3)
	data, err := Append(nil, fps)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]uint64, 0, len(fps))
	if n := testing.AllocsPerRun(100, func() {
		var b Block
		if b.Open(data) != nil {
			panic("open")
		}
		buf, _ = b.AppendRange(buf[:0], fps[20], fps[100])
		b.Positions(fps[20], fps[100])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBlockRefuses(t *testing.T) {
	for _, fps := range [][]uint64{nil, {2, 1}, {5, 5}, make([]uint64, MaxLen+1)} {
		if _, err := Append(nil, fps); !errors.Is(err, errContent) {
			t.Errorf("block of %d fingerprints: %v", len(fps), err)
		}
	}
	full := errors.New("disk full")
	w := NewWriter(Options{Postings: true}, func(uint64, []byte) error { return full })
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

func TestBlockWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 3000)
		size := rapid.SampledFrom([]int{0, 64, 100, 512, 4096, 32768}).Draw(t, "bytes")
		var ids []IDs
		if rapid.Bool().Draw(t, "postings") {
			ids = blocktest.Postings(t, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ids"), 0)),
				len(fps), NewIDs)
		}
		limit := size
		if limit == 0 {
			limit = defaultBytes
		}
		var got []uint64
		for _, data := range pack(t, size, fps, ids) {
			b := openBlock(t, data)
			if err := b.Verify(); err != nil {
				t.Fatal(err)
			}
			if b.Len() > 1 && len(data) > limit {
				t.Fatalf("block of %d bytes (limit %d)", len(data), limit)
			}
			for i := 0; ids != nil && i < b.Len(); i++ {
				p, err := b.Posting(i)
				if want := ids[len(got)+i]; err != nil ||
					!slices.Equal(slices.Collect(p.All()), slices.Collect(want.All())) {
					t.Fatalf("posting of %016x: %v, %v, want %v", fps[len(got)+i], p, err, want)
				}
			}
			got = b.AppendTo(got)
		}
		if !slices.Equal(got, fps) {
			t.Fatalf("%d fingerprints, want %d", len(got), len(fps))
		}
	})
}

// TestBlockSizes tests that the size that the writer computes is the size of the block.
func TestBlockSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 600)
		if got := len(appendEliasFano(nil, fps, 0)); got != eliasFanoSize(len(fps), fps[0],
			fps[len(fps)-1]) {
			t.Fatalf("%d bytes, reckoned %d", got, eliasFanoSize(len(fps), fps[0], fps[len(fps)-1]))
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ids"), 0))
		var postings []posting
		var layout slotLayout
		for _, ids := range blocktest.Postings(t, random, len(fps), NewIDs) {
			p, err := newPosting(ids)
			if err != nil {
				t.Fatal(err)
			}
			postings = append(postings, p)
			layout = layout.with(p)
		}
		if got := len(appendPostings(nil, postings)); got != layout.size() {
			t.Fatalf("postings: %d bytes, reckoned %d", got, layout.size())
		}
	})
}

// TestBlockGolden tests golden blocks with and without postings. They may change only with the
// format number.
func TestBlockGolden(t *testing.T) {
	fps := []uint64{0x0123456789abcdef, 0x0123456789abcdf0, 0x0123456800000000, 0x4000000000000000,
		0x8000000000000000, 0xffffffffffffffff}
	many := make([]uint64, 40)
	for i := range many {
		many[i] = uint64(3 * (i + 1))
	}
	postings := []IDs{NewIDs(70), NewIDs(5), NewIDs(6, 9, 1000), NewIDs(12),
		NewIDs(many...), NewIDs(33)}
	var out strings.Builder
	for _, with := range [][]IDs{nil, postings} {
		for _, data := range pack(t, 0, fps, with) {
			fmt.Fprintf(&out, "codec 2, postings %v\n%s", with != nil, hex.Dump(data))
		}
	}
	golden, err := os.ReadFile("testdata/block.golden")
	if err != nil || string(golden) != out.String() {
		t.Errorf("%v; blocks are now\n%s", err, out.String())
	}
}

// Valid blocks, each with one thing broken.
func TestBrokenBlocks(t *testing.T) {
	fps := []uint64{0x0123456789abcdef, 0x0123456789abcdf0, 0x4000000000000000}
	set := func(at int, to ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			copy(b[at:], to)
			return b
		}
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	more := func(b []byte) []byte { return append(b, 0) }

	bare := pack(t, 0, fps, nil)[0]
	posted := pack(t, 0, fps, []IDs{NewIDs(5), NewIDs(6, 9, 1000), NewIDs(12)})[0]
	slots := len(bare) // where the postings begin
	for _, test := range []struct {
		name   string
		block  []byte
		change func([]byte) []byte
		opens  bool // and only Verify finds out
	}{
		{"empty", bare, cut(len(bare)), false},
		{"header only", bare, cut(len(bare) - 6), false},
		{"a byte less", bare, cut(1), false},
		{"a byte more", bare, more, false},
		{"unknown codec", bare, set(0, 3), false},
		{"no low bits", bare, set(1, 0), false},
		{"58 low bits", bare, set(1, 58), false},
		{"no fingerprints", bare, set(2, 0, 0), false},
		{"more fingerprints than bytes", bare, set(2, 0xff, 0xff), false},
		{"more buckets than bytes", bare, set(4, 0xff, 0xff), false},
		{"all zeros in the unary part", bare, set(7, 0, 0, 0, 0, 0), true},
		{"all ones in the unary part", bare, set(7, 0xff, 0xff, 0xff, 0xff, 0xff), true},
		{"not ascending in a bucket", pack(t, 0, []uint64{5, 6, 1 << 40}, nil)[0],
			set(11, 7), true},
		{"buckets beyond 64 bits", bare, set(6, 0x7f), true},
		{"postings, none", posted, func(b []byte) []byte { return b[:slots] }, true},
		{"postings, slots too wide", posted, set(slots, 58), true},
		{"postings, low too large", posted, set(slots+1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xff, 0xff, 1), true},
		{"postings, ID 0", posted, set(slots+1, 0), true},
		{"postings, more lists than fingerprints", posted, set(slots+2, 4), true},
		{"postings, a list less", posted, set(slots+2, 0), true},
		{"postings, a list more", posted, set(slots+2, 2), true},
		{"postings, ends too wide", posted, set(slots+3, 58), true},
		{"postings, the list cut off", posted, cut(1), true},
		{"postings, a byte behind the list", posted, more, true},
		{"postings, a list of two fingerprints", pack(t, 0, fps,
			[]IDs{NewIDs(5, 6), NewIDs(7, 9), NewIDs(12)})[0], set(slots+4, 2|2<<2), true},
	} {
		var b Block
		err := b.Open(slices.Clip(test.change(slices.Clone(test.block))))
		if test.opens != (err == nil) {
			t.Errorf("%s: Open: %v", test.name, err)
		}
		if err == nil {
			err = b.Verify()
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for n := range posted {
		var b Block
		err := b.Open(slices.Clip(slices.Clone(posted[:n])))
		if err == nil {
			err = b.Verify()
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(posted), err)
		}
	}
	if _, err := openBlock(t, bare).Posting(0); !errors.Is(err, errNoPostings) {
		t.Errorf("posting of a block without: %v", err)
	}
}
