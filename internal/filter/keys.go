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
// Hutchison, 2007). If its newest generation is full, it adds a larger one. It never removes
// hashes. Like a LiveSet, it is monotone, and reports every hash until it has loaded the stored
// keys. It is safe for concurrent use.
type KeySet struct {
	Loading
	budget      int64
	loaded      atomic.Bool
	generations atomic.Pointer[[]*Prefix]

	mu   sync.Mutex // held to add
	room int64      // the number of hashes that the last generation can still take
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
	Expected int64 // the number of stored hashes, about. 0 means that nothing is stored.

	Saved iter.Seq2[[]byte, error] // the chunks of the stored filter
	// Since yields the hashes that were added after the filter was stored. All yields all hashes.
	// It is called if the filter cannot be loaded.
	Since, All iter.Seq2[uint64, error]
	// Done is called with the error of the loading, if there is anything to load.
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

// begin inserts the stored filter of n hashes as the first generation. If it is nil, begin adds a
// generation for n hashes. The next generation has at least the same size.
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

// extend adds the next generation, or a smaller one if the budget is smaller. If the new
// generation would be smaller than the last one, the last one takes all further hashes and becomes
// less selective.
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

// Add adds hashes. A writer must call Add before its entries become visible.
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
