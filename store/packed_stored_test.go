package store

import (
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/store/internal/block"
)

// storedTable is a packed table as it is stored: blocks and directory by their keys.
type storedTable struct {
	table  int
	values map[string][]byte
	fps    []uint64
	lasts  []uint64 // of the blocks
}

// getterFunc is a getter that is a function.
type getterFunc func(key []byte) ([]byte, error)

func (f getterFunc) Get(key []byte) ([]byte, io.Closer, error) {
	value, err := f(key)
	return value, noCloser{}, err
}

func (s *storedTable) Get(key []byte) ([]byte, io.Closer, error) {
	if value, found := s.values[string(key)]; found {
		return value, noCloser{}, nil
	}
	return nil, nil, pebble.ErrNotFound
}

func (s *storedTable) clone() *storedTable {
	c := *s
	c.values = maps.Clone(s.values)
	return &c
}

func (s *storedTable) blockKey(i int) string {
	return string(tableKey(packedKeyspace, s.table, s.lasts[i]))
}

func (s *storedTable) chunkKey(chunk int) string {
	return string(chunkKey(directoryKeyspace, s.table, chunk))
}

// blockOf returns a block of fingerprints, without postings.
func blockOf(t fatal, fps ...uint64) []byte {
	value, err := block.Encode(fps)
	must(t, err)
	return value
}

// storeDirectory stores the directory of blocks with the given last fingerprints.
func storeDirectory(t fatal, table int, lasts []uint64) *storedTable {
	s := &storedTable{table: table, values: map[string][]byte{}, lasts: lasts}
	chunk := 0
	for some := range slices.Chunk(lasts, directoryChunk) {
		s.values[s.chunkKey(chunk)] = blockOf(t, some...)
		chunk++
	}
	return s
}

// storeTable packs ascending fingerprints, and their postings for table 0.
func storeTable(t fatal, table int, fps []uint64, ids []IDs, size int) *storedTable {
	var lasts []uint64
	blocks := map[uint64][]byte{}
	w := block.NewWriter(block.Options{Bytes: size, Postings: table == 0},
		func(last uint64, data []byte) error {
			lasts = append(lasts, last)
			blocks[last] = slices.Clone(data)
			return nil
		})
	for i, fp := range fps {
		if table == 0 {
			must(t, w.AddPosting(fp, ids[i]))
		} else {
			must(t, w.Add(fp))
		}
	}
	must(t, w.Flush())
	s := storeDirectory(t, table, lasts)
	s.fps = fps
	for i, last := range lasts {
		s.values[s.blockKey(i)] = blocks[last]
	}
	return s
}

func (s *storedTable) open(t fatal, a *arena) *PackedTable {
	p, err := openPackedTable(s.table, uint64(len(s.fps)), uint64(len(s.lasts)), a, s)
	must(t, err)
	return p
}

// scan reads all blocks in the order of their keys.
func (s *storedTable) scan(p *PackedTable) error {
	r := newBlockReader(p, 0)
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if key[0] != packedKeyspace {
			continue
		}
		if _, err := r.decode([]byte(key), s.values[key]); err != nil {
			return err
		}
	}
	return r.end()
}

func randomFingerprints(n int, seed uint64) []uint64 {
	random := rand.New(rand.NewPCG(seed, 0))
	fps := make([]uint64, n)
	for i := range fps {
		fps[i] = random.Uint64()
	}
	slices.Sort(fps)
	return slices.Compact(fps)
}
