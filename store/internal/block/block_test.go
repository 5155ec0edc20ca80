package block

import (
	"cmp"
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

// failer is the common part of *testing.T, *testing.F and *rapid.T.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// open opens and verifies a block.
func open(data []byte) (b Block, err error) {
	if err = b.Open(slices.Clip(data)); err == nil {
		err = b.Verify()
	}
	return b, err
}

// pack writes fingerprints, with optional postings, into blocks.
func pack(t failer, size int, fps []uint64, postings []IDs) (blocks [][]byte) {
	t.Helper()
	w := NewWriter(Options{Bytes: size, Postings: postings != nil},
		func(last uint64, data []byte) error {
			blocks = append(blocks, slices.Clone(data))
			return nil
		})
	var errs []error
	for i, fp := range fps {
		if postings != nil {
			errs = append(errs, w.AddPosting(fp, postings[i]))
		} else {
			errs = append(errs, w.Add(fp))
		}
	}
	if err := errors.Join(append(errs, w.Flush())...); err != nil ||
		w.Entries() != uint64(len(fps)) {
		t.Fatal(w.Entries(), err)
	}
	return blocks
}

func checkRange(t failer, b *Block, fps []uint64, first, last uint64) {
	t.Helper()
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
	if len(want) > 0 && (from > at || to < at+len(want)) ||
		from < to && (from < 0 || to > len(fps)) {
		t.Fatalf("low bits of %016x..%016x: positions %d..%d of %d, want %d..%d in them", first,
			last, from, to, len(fps), at, at+len(want))
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
func checkNear(t failer, b *Block, from, to int, fp uint64, k int) {
	t.Helper()
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

// TestBlock compares blocks with the fingerprints and postings that were written.
func TestBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, rapid.SampledFrom([]int{400, 3000}).Draw(t, "most"))
		size := rapid.SampledFrom([]int{0, 64, 100, 512, 4096, 32768}).Draw(t, "bytes")
		var ids []IDs
		if rapid.Bool().Draw(t, "postings") {
			ids = blocktest.Postings(t, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ids"), 0)),
				len(fps), NewIDs)
		}
		at := 0
		for _, data := range pack(t, size, fps, ids) {
			b, err := open(data)
			want := fps[at : at+b.Len()]
			if got := b.AppendTo(nil); err != nil || !slices.Equal(got, want) ||
				b.First() != want[0] || b.Last() != want[len(want)-1] {
				t.Fatalf("%016x..%016x: %016x, %v, want %016x", b.First(), b.Last(), got, err, want)
			}
			var layout slotLayout
			for i := range want {
				if got := b.At(i); got != want[i] {
					t.Fatalf("fingerprint %d: %016x, want %016x", i, got, want[i])
				}
				if ids == nil {
					continue
				}
				stored, err := b.Posting(i)
				if err != nil || !slices.Equal(stored.AppendTo(nil), ids[at+i].AppendTo(nil)) {
					t.Fatalf("posting %d: %v, %v, want %v", i, stored, err, ids[at+i])
				}
				p, err := newPosting(ids[at+i])
				if layout = layout.with(p); err != nil {
					t.Fatal(err)
				}
			}
			computed := eliasFanoSize(len(want), want[0], want[len(want)-1])
			if ids != nil {
				computed += layout.size()
			}
			if len(data) != computed || b.Len() > 1 && len(data) > cmp.Or(size, defaultBytes) {
				t.Fatalf("block of %d bytes, computed %d, limit %d", len(data), computed, size)
			}
			if at < 1000 {
				first, last := blocktest.Range(t, want)
				checkRange(t, &b, want, first, last)
			}
			at += b.Len()
		}
		if at != len(fps) {
			t.Fatalf("%d fingerprints, want %d", at, len(fps))
		}
	})
}

// TestBlockAllocations tests that reading a range allocates only the result.
func TestBlockAllocations(t *testing.T) {
	fps := sparseValues(200, 100_000_000, 3)
	data, err := Encode(fps)
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

func TestInvalidInput(t *testing.T) {
	for _, fps := range [][]uint64{nil, {2, 1}, {5, 5}, make([]uint64, MaxLen+1)} {
		if _, err := Encode(fps); !errors.Is(err, errContent) {
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
		t.Error("a fingerprint without a posting was accepted")
	}
	first, again := w.AddPosting(9, NewIDs(1)), w.AddPosting(9, NewIDs(2))
	if first != nil || !errors.Is(again, errContent) {
		t.Errorf("the same fingerprint twice: %v, %v", first, again)
	}
	for i, err := range []error{w.Flush(), w.Flush(), w.AddPosting(10, NewIDs(2))} {
		if !errors.Is(err, full) {
			t.Errorf("write %d after a failure: %v", i, err)
		}
	}
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

// TestBrokenBlocks changes one field of a valid block, or truncates the block. Open or Verify must
// return ErrCorrupt.
func TestBrokenBlocks(t *testing.T) {
	fps := []uint64{0x0123456789abcdef, 0x0123456789abcdf0, 0x4000000000000000}
	set := func(at int, to ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			copy(b[at:], to)
			return b
		}
	}
	more := func(b []byte) []byte { return append(b, 0) }
	bare := pack(t, 0, fps, nil)[0]
	posted := pack(t, 0, fps, []IDs{NewIDs(5), NewIDs(6, 9, 1000), NewIDs(12)})[0]
	slots := len(bare) // the offset of the postings
	for _, test := range []struct {
		name   string
		block  []byte
		change func([]byte) []byte
		opens  bool // only Verify returns an error
	}{
		{"an additional byte", bare, more, false},
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
		{"postings, slots too wide", posted, set(slots, 58), true},
		{"postings, low too large", posted, set(slots+1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xff, 0xff, 1), true},
		{"postings, ID 0", posted, set(slots+1, 0), true},
		{"postings, more lists than fingerprints", posted, set(slots+2, 4), true},
		{"postings, too few lists", posted, set(slots+2, 0), true},
		{"postings, too many lists", posted, set(slots+2, 2), true},
		{"postings, ends too wide", posted, set(slots+3, 58), true},
		{"postings, a byte after the list", posted, more, true},
		{"postings, a list of two fingerprints", pack(t, 0, fps,
			[]IDs{NewIDs(5, 6), NewIDs(7, 9), NewIDs(12)})[0], set(slots+4, 2|2<<2), true},
	} {
		data := slices.Clip(test.change(slices.Clone(test.block)))
		if err := new(Block).Open(data); test.opens != (err == nil) {
			t.Errorf("%s: Open: %v", test.name, err)
		}
		if _, err := open(data); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for _, data := range [][]byte{bare, posted} {
		for n := range data {
			if _, err := open(slices.Clone(data[:n])); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", n, len(data), err)
			}
		}
	}
	b, err := open(bare)
	if _, none := b.Posting(0); err != nil || !errors.Is(none, errNoPostings) {
		t.Errorf("posting of a block without postings: %v, %v", none, err)
	}
}
