package store

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/store/block"
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
	key := tableKey(packedKeyspace, s.table, s.lasts[i])
	return string(key)
}

func (s *storedTable) chunkKey(chunk int) string {
	key := chunkKey(directoryKeyspace, s.table, chunk)
	return string(key)
}

// fatal is what *testing.T, *testing.B and *rapid.T have.
type fatal interface{ Fatal(...any) }

// storeDirectory stores the directory of blocks that end with these fingerprints.
func storeDirectory(t fatal, table int, lasts []uint64) *storedTable {
	s := &storedTable{table: table, values: map[string][]byte{}, lasts: lasts}
	for chunk := range slices.Collect(slices.Chunk(lasts, directoryChunk)) {
		some := lasts[chunk*directoryChunk : min((chunk+1)*directoryChunk, len(lasts))]
		value, err := block.Append(nil, some)
		if err != nil {
			t.Fatal(err)
		}
		s.values[s.chunkKey(chunk)] = value
	}
	return s
}

// storeTable packs ascending fingerprints, and their postings for table 0.
func storeTable(t fatal, table int, fps []uint64, ids []IDs, size int) *storedTable {
	var lasts []uint64
	blocks := map[uint64][]byte{}
	w := block.NewWriter(block.Options{Bytes: size, Postings: table == 0}, func(last uint64, data []byte) error {
		lasts = append(lasts, last)
		blocks[last] = slices.Clone(data)
		return nil
	})
	var err error
	for i := 0; err == nil && i < len(fps); i++ {
		if table == 0 {
			err = w.AddPosting(fps[i], ids[i])
		} else {
			err = w.Add(fps[i])
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := storeDirectory(t, table, lasts)
	s.fps = fps
	for i, last := range lasts {
		s.values[s.blockKey(i)] = blocks[last]
	}
	return s
}

func (s *storedTable) open(t fatal, cache *blockCache) *PackedTable {
	p, err := openPackedTable(s.table, uint64(len(s.fps)), uint64(len(s.lasts)), cache, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// view returns a view of a database with this table, between two others.
func (s *storedTable) view(t fatal, p *PackedTable) (v *View, done func()) {
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: pebbleLogger{}})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range s.values {
		err = errors.Join(err, db.Set([]byte(key), value, pebble.NoSync))
	}
	for _, table := range []int{s.table - 1, s.table + 1} {
		key := tableKey(packedKeyspace, table, 12345)
		err = errors.Join(err, db.Set(key, []byte("of another table"), pebble.NoSync))
	}
	it, iterErr := db.NewIter(nil)
	if err := errors.Join(err, iterErr); err != nil {
		t.Fatal(err)
	}
	packed := make([]*PackedTable, s.table+1)
	packed[s.table] = p
	return newView(it, packed), func() {
		if err := errors.Join(it.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
