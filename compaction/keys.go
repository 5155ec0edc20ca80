package compaction

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/store"
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

// resolve writes the key keyspace and returns the documents that are replaced by a
// later one with their key.
func (k *keys) resolve(ctx context.Context) (gone *roaring64.Bitmap, err error) {
	if err := k.flush(ctx); err != nil {
		return nil, err
	}
	gone = roaring64.New()
	var group []keyed // those of one hash, in the order of their IDs
	for run, err := range k.sorter.Sorted(ctx) {
		if err != nil {
			return nil, err
		}
		for _, e := range run {
			if len(group) > 0 && group[0][0] != e[0] {
				if err := k.resolveHash(group, gone); err != nil {
					return nil, err
				}
				group = group[:0]
			}
			group = append(group, e)
		}
	}
	if len(group) > 0 {
		err = k.resolveHash(group, gone)
	}
	return gone, err
}

// resolveHash settles the keys of one hash: nearly always one key.
func (k *keys) resolveHash(group []keyed, gone *roaring64.Bitmap) error {
	newest := make(map[[2]uint64]uint64, 1) // of each digest, the last document
	for _, e := range group {
		d := [2]uint64{e[1], e[2]}
		if id, again := newest[d]; again {
			gone.Add(id)
		}
		newest[d] = e[3]
	}
	hash := group[0][0]
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
