package filter

import (
	"encoding/binary"
	"errors"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testgen"
)

// chunksOf yields the saved form of a filter.
func chunksOf(f *Prefix) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var data []byte
		for i := range f.Chunks() {
			if data = f.AppendChunk(data[:0], i); !yield(data, nil) {
				return
			}
		}
	}
}

// TestFilterFormat compares the chunks with the formulas of docs/format-filters.md. LoadPrefix must
// return the same filter.
func TestFilterFormat(t *testing.T) {
	for _, c := range []struct {
		prefix int
		budget int64
		chunks int
	}{{3, 64, 1}, {5, 64, 1}, {12, 512, 1}, {12, 64, 1}, {22, 1 << 20, 8}, {30, 100_000, 2},
		{32, 64, 1}, {32, 64 << 10, 1}, {32, 64<<10 + 64, 2}, {33, 70_000, 2}, {64, 1 << 20, 16}} {
		fps := testgen.Uniform(rand.New(rand.NewPCG(25, 0)), 3000)
		f := fit(c.prefix, 1<<20, c.budget)
		f.AddAll(fps)
		back, err := LoadPrefix(f.prefix, f.Bytes(), chunksOf(f))
		if err != nil || f.Chunks() != c.chunks {
			t.Fatalf("prefix %d, %d bytes: %d chunks, want %d, %v", c.prefix, c.budget, f.Chunks(),
				c.chunks, err)
		}
		if !slices.Equal(f.lines, back.lines) || f.chooser != back.chooser ||
			f.form != back.form || f.lineBits != back.lineBits {
			t.Errorf("form %d of %d bytes was loaded as form %d of %d", f.form, f.Bytes(),
				back.form, back.Bytes())
		}
		var got []byte
		for data := range chunksOf(f) {
			got = append(got, data...)
		}
		form, p, lineBits, lines := got[1], uint64(got[2]), uint64(got[3]),
			binary.BigEndian.Uint64(got[8:])
		words := make([]uint64, 8*lines)
		for _, fp := range fps {
			x := fp >> (64 - p)
			if form == 1 {
				words[x/64] |= 1 << (x % 64)
				continue
			}
			groups := uint64(1) << (p - lineBits)
			high, low := bits.Mul64((x>>lineBits)*0x9e3779b97f4a7c15%groups, lines)
			line, _ := bits.Div64(high, low, groups)
			m := x / 64 * 0xc2b2ae3d27d4eb4f
			for j := range uint64(8) {
				words[8*line+j] |= 1 << ((x + (m^m>>32)>>(6*j)) % 64)
			}
		}
		var want []byte
		for i := range words {
			if i%8192 == 0 {
				want = append(want, 1, form, byte(p), byte(lineBits))
				want = binary.BigEndian.AppendUint32(want, uint32(i/8192))
				want = binary.BigEndian.AppendUint64(want, lines)
			}
			want = binary.BigEndian.AppendUint64(want, words[i])
		}
		if !slices.Equal(got, want) || int(p) != c.prefix {
			t.Errorf("prefix %d, %d bytes: the chunks differ from docs/format-filters.md",
				c.prefix, c.budget)
		}
	}
}

func TestFilterChunksRefused(t *testing.T) {
	const budget = 128 << 10
	f := fit(32, 1<<20, budget)
	f.AddAll(testgen.Uniform(rand.New(rand.NewPCG(22, 0)), 1000))
	set := func(at int, to ...byte) func([][]byte) [][]byte { // in the header of both chunks
		return func(c [][]byte) [][]byte {
			copy(c[0][at:], to)
			copy(c[1][at:], to)
			return c
		}
	}
	for says, change := range map[string]func(c [][]byte) [][]byte{
		"no chunks":               func([][]byte) [][]byte { return nil },
		"1 chunks, want 2":        func(c [][]byte) [][]byte { return c[:1] },
		"has only 2":              func(c [][]byte) [][]byte { return append(c, c[1]) },
		"chunk 0: header":         func(c [][]byte) [][]byte { return [][]byte{c[1], c[0]} },
		"chunk 1: header":         func(c [][]byte) [][]byte { c[1][3]--; return c },
		"header of 15":            func(c [][]byte) [][]byte { return [][]byte{c[0][:15]} },
		"chunk 1: 65551 bytes":    func(c [][]byte) [][]byte { c[1] = c[1][:65551]; return c },
		"chunk 0: 65553 bytes":    func(c [][]byte) [][]byte { c[0] = append(c[0], 0); return c },
		"version 2":               set(0, 2),
		"form 0":                  set(1, 0),
		"form 3":                  set(1, 3),
		"bit array of 2048 lines": set(1, 1),
		"prefixes of 31 bits":     set(2, 31),
		"5 line bits":             set(3, 5),
		"32 line bits":            set(3, 32),
		"0 lines":                 set(8, 0, 0, 0, 0, 0, 0, 0, 0),
		"2049 lines":              set(8, 0, 0, 0, 0, 0, 0, 8, 1),
		"do not fit":              set(8, 255, 255, 255, 255, 255, 255, 255, 255),
	} {
		var chunks [][]byte
		for data := range chunksOf(f) {
			chunks = append(chunks, slices.Clone(data))
		}
		_, err := LoadPrefix(32, budget, testgen.Sequence(change(chunks)))
		if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for _, prefix := range []int{0, 65} {
		_, err := LoadPrefix(prefix, budget, testgen.Sequence([][]byte{{1, 2, byte(prefix), 6}}))
		if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "1 to 64") {
			t.Errorf("a prefix of %d bits: %v", prefix, err)
		}
	}
	broken := errors.New("disk on fire")
	_, err := LoadPrefix(32, budget, func(yield func([]byte, error) bool) { yield(nil, broken) })
	if !errors.Is(err, broken) || errors.Is(err, ErrUnusable) {
		t.Errorf("LoadPrefix returns error %v, want the error of the chunks", err)
	}
}

// FuzzFilterChunks loads arbitrary chunks. A loaded filter must save the same chunks, and must find
// the fingerprints that are added to it.
func FuzzFilterChunks(f *testing.F) {
	for _, prefix := range []int{3, 9, 20, 32, 64} {
		for _, budget := range []int64{64, 256} {
			p := fit(prefix, 1000, budget)
			p.AddAll(testgen.Uniform(rand.New(rand.NewPCG(23, 0)), 20))
			f.Add(byte(prefix), p.AppendChunk(nil, 0))
		}
	}
	f.Fuzz(func(t *testing.T, prefix byte, data []byte) {
		p, err := LoadPrefix(int(prefix), 1<<20, testgen.Sequence([][]byte{data}))
		if err != nil {
			if !errors.Is(err, ErrUnusable) {
				t.Fatalf("%v", err)
			}
			return
		}
		if got := p.AppendChunk(nil, 0); string(got) != string(data) {
			t.Fatalf("%x is saved as %x", data, got)
		}
		for _, fp := range testgen.Uniform(rand.New(rand.NewPCG(24, 0)), 5) {
			p.Add(fp)
			if !slices.Contains(p.AppendCandidates(nil, fp^1<<63, 1), 1<<63) {
				t.Fatalf("%016x is not found", fp)
			}
		}
	})
}
