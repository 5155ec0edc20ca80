package filter

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// KeySet is a filter of the hashes of keys, a scalable Bloom filter (Almeida, Baquero, Preguiça and
// Hutchison, 2007). If its newest generation is full, it adds a larger one. It removes no hashes.
// Like a LiveSet, it reports every hash until it has loaded the stored hashes. It is safe for
// concurrent use.
type KeySet struct {
	Loading
	budget      int64
	loaded      atomic.Bool
	generations atomic.Pointer[[]*Prefix]

	mu   sync.Mutex // held by writers
	room int64      // the number of hashes that can still be added to the last generation
	next int64      // the number of hashes of the next generation
}

const (
	firstGeneration = 256 << 10 // hashes
	// timesLarger is the ratio of the sizes of successive generations. A lookup reads all
	// generations.
	timesLarger = 4
)

// KeyOptions configures a KeySet.
type KeyOptions struct {
	Budget   int64 // bytes
	Expected int64 // the approximate number of stored hashes; 0: none

	Saved iter.Seq2[[]byte, error] // the chunks of the stored filter
	// Since yields the hashes that were added after the filter was stored. If the filter cannot be
	// loaded, All yields all hashes.
	Since, All iter.Seq2[uint64, error]
	// Done is called with the error of the loading, unless Expected is 0.
	Done func(error)

	first int64 // for tests: the number of hashes of the first generation
}

// NewKeySet returns a set that loads in the background. The caller must close it.
func NewKeySet(o KeyOptions) *KeySet {
	k := &KeySet{budget: o.Budget, next: cmp.Or(o.first, firstGeneration)}
	k.generations.Store(new([]*Prefix))
	if o.Expected > 0 {
		k.Start(func(ctx context.Context) error { return k.load(ctx, &o) }, o.Done)
	} else {
		k.loaded.Store(k.budget >= lineBytes)
	}
	return k
}

func (k *KeySet) load(ctx context.Context, o *KeyOptions) error {
	if k.budget < lineBytes {
		return nil // every hash is reported
	}
	saved, err := LoadPrefix(KeyPrefix, k.budget-k.Bytes(), untilDone(ctx, o.Saved))
	if ctx.Err() != nil {
		return err
	}
	k.begin(saved, o.Expected)
	hashes := o.Since
	if saved == nil {
		hashes = o.All
	}
	batch := make([]uint64, 0, addedTogether)
	for hash, err := range untilDone(ctx, hashes) {
		if err != nil {
			return err
		}
		if batch = append(batch, hash); len(batch) == cap(batch) {
			k.Add(batch...)
			batch = batch[:0]
		}
	}
	k.Add(batch...)
	k.loaded.Store(true)
	return nil
}

// begin inserts the stored filter of n hashes as the first generation. If saved is nil, begin adds
// a generation for n hashes. The next generation has room for at least n hashes.
func (k *KeySet) begin(saved *Prefix, n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = max(k.next, n)
	if saved == nil {
		k.extend()
		return
	}
	all := append([]*Prefix{saved}, *k.generations.Load()...)
	k.generations.Store(&all)
}

// extend adds the next generation, which is smaller than k.next if the budget requires it. If it
// would be smaller than the last generation, extend adds none. Further hashes are then added to the
// last generation, which becomes less selective.
func (k *KeySet) extend() {
	all := *k.generations.Load()
	p := fit(KeyPrefix, k.next, k.budget-k.Bytes())
	if len(all) > 0 && (p == nil || p.Bytes() < all[len(all)-1].Bytes()) {
		k.room = math.MaxInt64
		return
	}
	all = append(slices.Clone(all), p)
	k.generations.Store(&all)
	k.room = k.next
}

// addedTogether is the number of hashes whose cache lines Add prefetches together.
const addedTogether = 128

// Add adds hashes. A writer must call Add before its keys become visible.
func (k *KeySet) Add(hashes ...uint64) {
	if k.budget < lineBytes {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for some := range slices.Chunk(hashes, addedTogether) {
		for _, p := range *k.generations.Load() {
			p.prefetch(some)
		}
		for _, hash := range some {
			k.add(hash)
		}
	}
}

// add adds a hash that the filter does not contain yet.
func (k *KeySet) add(hash uint64) {
	if k.contains(hash) {
		return
	}
	if k.room == 0 {
		k.extend()
		k.next *= timesLarger
	}
	k.room--
	all := *k.generations.Load()
	all[len(all)-1].Add(hash)
}

// MayContain reports whether a hash may have been stored or added.
func (k *KeySet) MayContain(hash uint64) bool { return !k.loaded.Load() || k.contains(hash) }

func (k *KeySet) contains(hash uint64) bool {
	for _, p := range *k.generations.Load() {
		if p.MayContain(hash) {
			return true
		}
	}
	return false
}

// Bytes returns the memory of the set.
func (k *KeySet) Bytes() (n int64) {
	for _, p := range *k.generations.Load() {
		n += p.Bytes()
	}
	return n
}
