package store

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/store/block"
)

// Directories of several chunks, and at the borders of chunks, of fingerprints that
// are spread evenly, share nearly all their bits, or both.
func TestDirectoryFind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	shapes := map[string]func(i int) uint64{
		"even":      func(int) uint64 { return random.Uint64() },
		"low":       func(i int) uint64 { return uint64(i) },
		"high":      func(i int) uint64 { return math.MaxUint64 - uint64(i) },
		"one place": func(int) uint64 { return 0x123456789a<<24 | random.Uint64N(1<<24) },
		"clusters":  func(int) uint64 { return random.Uint64N(5)<<61 + random.Uint64N(1<<30) },
		"powers":    func(int) uint64 { return random.Uint64() >> random.IntN(64) },
	}
	for name, draw := range shapes {
		for _, n := range []int{1, 2, 3, directoryChunk - 1, directoryChunk, directoryChunk + 1, 2 * directoryChunk, 30_000} {
			lasts := make([]uint64, 0, n)
			for i := range n {
				lasts = append(lasts, draw(i))
			}
			slices.Sort(lasts)
			lasts = slices.Compact(lasts)
			s := storeDirectory(t, 3, lasts)
			d, err := openPackedTable(3, uint64(len(lasts)), uint64(len(lasts)), nil, s)
			if err != nil {
				t.Fatalf("%s, %d blocks: %v", name, n, err)
			}
			if limit := int64(20*len(lasts) + 8); d.RAMBytes() > limit {
				t.Errorf("%s, %d blocks take %d bytes", name, n, d.RAMBytes())
			}
			for range 5000 {
				fp := lasts[random.IntN(len(lasts))] + uint64(random.IntN(3)) - 1
				if random.IntN(8) == 0 {
					fp = draw(random.IntN(n)) ^ 1<<random.IntN(64)
				}
				if got, want := d.Find(fp), naiveFind(lasts, fp); got != want {
					t.Fatalf("%s, %d blocks: find(%016x) = %d, want %d", name, n, fp, got, want)
				}
			}
		}
	}
}

func TestBrokenDirectory(t *testing.T) {
	lasts := randomFingerprints(2*directoryChunk+100, 1)
	whole := storeDirectory(t, 3, lasts)
	n := uint64(len(lasts))
	chunkOf := func(fps []uint64) []byte {
		chunk, err := block.Append(nil, fps)
		if err != nil {
			t.Fatal(err)
		}
		return chunk
	}
	failure := errors.New("failure")
	for name, test := range map[string]struct {
		change   func(s *storedTable)
		blocks   uint64
		mentions string
	}{
		"first missing":  {func(s *storedTable) { delete(s.values, s.chunkKey(0)) }, n, "chunk 0"},
		"second missing": {func(s *storedTable) { delete(s.values, s.chunkKey(1)) }, n, "chunk 1"},
		"last missing":   {func(s *storedTable) { delete(s.values, s.chunkKey(2)) }, n, "last directory chunk"},
		"all missing":    {func(s *storedTable) { clear(s.values) }, n, "missing"},
		"a short chunk":  {func(s *storedTable) { s.values[s.chunkKey(1)] = chunkOf(lasts[directoryChunk : directoryChunk+5]) }, n, "chunk 2"},
		"a long chunk":   {func(s *storedTable) { s.values[s.chunkKey(1)] = chunkOf(lasts[directoryChunk-1 : 2*directoryChunk]) }, n, "chunk 1"},
		"chunks swapped": {func(s *storedTable) {
			first, second := s.chunkKey(0), s.chunkKey(1)
			s.values[first], s.values[second] = s.values[second], s.values[first]
		}, n, "chunk 1"},
		"a chunk twice": {func(s *storedTable) { s.values[s.chunkKey(1)] = s.values[s.chunkKey(0)] }, n, "chunk 1"},
		"a block twice": {func(s *storedTable) {
			overlap := append([]uint64{lasts[directoryChunk-1]}, lasts[directoryChunk+1:2*directoryChunk]...)
			s.values[s.chunkKey(1)] = chunkOf(overlap)
		}, n, "block 4096 ends"},
		"one chunk more":    {func(s *storedTable) { s.values[s.chunkKey(3)] = chunkOf(lasts[:1]) }, n, "chunk 3"},
		"one block less":    {func(*storedTable) {}, n - 1, "chunk 2"},
		"one block more":    {func(*storedTable) {}, n + 1, "ends with block"},
		"one chunk less":    {func(*storedTable) {}, 2 * directoryChunk, "chunk 2"},
		"no blocks":         {func(*storedTable) {}, 0, "chunk 0"},
		"far too many":      {func(*storedTable) {}, 1 << 31, "missing"},
		"more than numbers": {func(*storedTable) {}, 1 << 40, "blocks"},
		"an empty chunk":    {func(s *storedTable) { s.values[s.chunkKey(0)] = nil }, n, "chunk 0"},
		"a broken chunk": {func(s *storedTable) {
			chunk := slices.Clone(s.values[s.chunkKey(0)])
			clear(chunk[10:100])
			s.values[s.chunkKey(0)] = chunk
		}, n, "chunk 0"},
		"a Huffman chunk": {func(s *storedTable) {
			s.values[s.chunkKey(0)] = []byte{1, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}
		}, n, "chunk 0"},
		"postings": {func(s *storedTable) {
			last := slices.Clone(s.values[s.chunkKey(2)])
			last[0] |= 0x80
			s.values[s.chunkKey(2)] = last
		}, n, "postings"},
	} {
		s := whole.clone()
		test.change(s)
		_, err := openPackedTable(3, test.blocks*10, test.blocks, newBlockCache(0), s)
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "table 3") || !strings.Contains(err.Error(), test.mentions) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := openPackedTable(3, test.blocks*10, test.blocks, newBlockCache(0), getterFunc(func([]byte) ([]byte, error) { return nil, failure })); test.blocks < 1<<32 && !errors.Is(err, failure) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, entries := range []uint64{0, n - 1, n*block.MaxLen + block.MaxLen, math.MaxUint64} {
		if _, err := openPackedTable(3, entries, n, newBlockCache(0), whole); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d fingerprints in %d blocks: %v", entries, n, err)
		}
	}
}
