package compaction

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/store"
)

// keys finds out which documents of a load have the same key, or that of a document
// which the index has. It compares by 128 bits of SHA-256, so it needs no more memory
// or disk for long keys than for short ones.
type keys struct {
	s      *store.Store
	r      *store.Replacement
	known  bool // the index has documents, so their keys are looked up
	sorter *extsort.Sorter[keyed]
	batch  []keyed
	filter *keyFilter
}

// keyed is the hash of a key, its digest in two words, and the document's ID.
type keyed = [4]uint64

func newKeys(s *store.Store, r *store.Replacement, opts *Options) *keys {
	return &keys{s: s, r: r, known: s.Counters().Documents > 0,
		sorter: extsort.New[keyed](extsort.Options{MemoryBytes: opts.memoryBytes() / 2, Dir: r.Dir(), FS: opts.fs()})}
}

func digest(key string) (high, low uint64) {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
}

func (k *keys) add(ctx context.Context, id uint64, key string) error {
	high, low := digest(key)
	k.batch = append(k.batch, keyed{store.KeyHash(key), high, low, id})
	if len(k.batch) < batchLen {
		return nil
	}
	return k.flush(ctx)
}

func (k *keys) flush(ctx context.Context) error {
	err := k.sorter.Add(ctx, k.batch)
	k.batch = k.batch[:0]
	return err
}

// len returns how many keys there are, each as often as it came.
func (k *keys) len() int64 {
	if k == nil {
		return 0
	}
	return k.sorter.Len() + int64(len(k.batch))
}

// resolve writes the key keyspace, adds the keys to a filter, and returns the documents
// that are replaced by a later one with their key.
func (k *keys) resolve(ctx context.Context, filter *keyFilter) (gone *roaring64.Bitmap, err error) {
	if err := k.flush(ctx); err != nil {
		return nil, err
	}
	k.filter = filter
	gone = roaring64.New()
	hash := uint64(0)
	newest := map[[2]uint64]uint64{} // of each digest of that hash, the last document
	for run, err := range k.sorter.Sorted(ctx) {
		if err != nil {
			return nil, err
		}
		for _, e := range run {
			if e[0] != hash && len(newest) > 0 {
				if err := k.settle(hash, newest, gone); err != nil {
					return nil, err
				}
				clear(newest)
			}
			hash = e[0]
			digest := [2]uint64{e[1], e[2]}
			if id, again := newest[digest]; again {
				gone.Add(id)
			}
			newest[digest] = e[3]
		}
	}
	if len(newest) > 0 {
		err = k.settle(hash, newest, gone)
	}
	return gone, err
}

// settle writes the documents of one hash, nearly always of one key.
func (k *keys) settle(hash uint64, newest map[[2]uint64]uint64, gone *roaring64.Bitmap) error {
	if err := k.filter.add(hash); err != nil {
		return err
	}
	var ids []uint64
	if k.known {
		stay, err := k.stay(hash, newest, gone)
		if err != nil {
			return err
		}
		ids = stay
	}
	for _, id := range newest {
		ids = append(ids, id)
	}
	return k.r.AddKey(hash, store.NewIDs(ids...))
}

// stay returns the documents of the index with that hash whose key is another one.
func (k *keys) stay(hash uint64, newest map[[2]uint64]uint64, gone *roaring64.Bitmap) (stay []uint64, err error) {
	old, err := k.s.KeyIDs(hash)
	if err != nil {
		return nil, err
	}
	for id := range old.All() {
		record, found, err := k.s.Record(id)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("%w: document %d of key hash %016x has no record", index.ErrCorrupt, id, hash)
		}
		high, low := digest(record.Key)
		if _, again := newest[[2]uint64{high, low}]; again {
			gone.Add(id)
		} else {
			stay = append(stay, id)
		}
	}
	return stay, nil
}

func (k *keys) close() error { return k.sorter.Close() }
