package beam

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sort"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"golang.org/x/sync/errgroup"

	"github.com/neardup/neardup/internal/selfjoin"
)

func init() {
	beam.RegisterDoFn(&distribute{})
	beam.RegisterDoFn(&joinGroup{})
	register.Emitter1[Pair]()
	register.Emitter2[int, []byte]()
	register.Iter1[[]byte]()
}

// ShuffledBytes is the name of the counter of the bytes that Pairs has the runner shuffle.
const ShuffledBytes = "shuffled_bytes"

var shuffled = beam.NewCounter("neardup", ShuffledBytes)

// Pairs returns every pair of different fingerprints of a PCollection<Batch> within
// MaxDistance bits once, as a PCollection<Pair> in no particular order. It fails with
// ErrMemory if a group of fingerprints does not fit in MemoryBytes.
func Pairs(s beam.Scope, o Options, fingerprints beam.PCollection) beam.PCollection {
	o.must(64)
	s = s.Scope("neardup.Pairs")
	t := tablesFor(o.MaxDistance, o.Groups)
	blobs := beam.ParDo(s, &distribute{Tables: t}, fingerprints)
	return beam.ParDo(s, &joinGroup{Tables: t, Options: o}, beam.GroupByKey(s, blobs))
}

// distribute packs the fingerprints of a bundle for each group.
type distribute struct {
	Tables  tables
	pending []fp
}

// mostPending is the largest number of fingerprints of a bundle in memory: about 100 MB, including
// the memory for sorting. Larger blobs need fewer bits per fingerprint.
const mostPending = 1 << 22

func (d *distribute) StartBundle(context.Context, func(int, []byte)) error {
	d.pending = nil
	return nil
}

func (d *distribute) ProcessElement(ctx context.Context, b Batch, emit func(int, []byte)) error {
	d.pending = append(d.pending, b.Fingerprints...)
	if len(d.pending) < mostPending {
		return nil
	}
	return d.flush(ctx, emit)
}

func (d *distribute) FinishBundle(ctx context.Context, emit func(int, []byte)) error {
	err := d.flush(ctx, emit)
	d.pending = nil
	return err
}

// flush emits a blob of the distinct fingerprints for each group of each table.
func (d *distribute) flush(ctx context.Context, emit func(int, []byte)) error {
	t := &d.Tables
	for table := range t.N {
		turned := make([]fp, len(d.pending))
		for i, f := range d.pending {
			turned[i] = t.turned(table, f)
		}
		set, err := selfjoin.NewSet(turned)
		if err != nil {
			return err
		}
		for group, blob := range packGroups(t, set) {
			if len(blob) > 0 {
				shuffled.Inc(ctx, int64(len(blob)))
				emit(t.key(table, group), blob)
			}
		}
	}
	d.pending = d.pending[:0]
	return nil
}

// packGroups encodes each group of one table, on all cores.
func packGroups(t *tables, set *selfjoin.Set) [][]byte {
	blobs := make([][]byte, 1<<t.Bits)
	var groups errgroup.Group
	groups.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < set.Len(); {
		group := t.group(set.Fingerprint(selfjoin.Node(from)))
		n := sort.Search(set.Len()-from, func(i int) bool {
			return t.group(set.Fingerprint(selfjoin.Node(from+i))) > group
		})
		first, end := selfjoin.Node(from), selfjoin.Node(from+n)
		from += n
		groups.Go(func() error {
			blobs[group] = appendBlob(nil, set, first, end)
			return nil
		})
	}
	_ = groups.Wait()
	return blobs
}

// joinGroup finds the pairs of a group that are not in one group of an earlier table.
type joinGroup struct {
	Tables  tables
	Options Options
}

// groupBytes is the memory per fingerprint of a group: the fingerprint, and twice as much for
// sorting and joining.
const groupBytes = 24

func (j *joinGroup) ProcessElement(
	ctx context.Context, key int, blobs func(*[]byte) bool, emit func(Pair),
) error {
	t, table := &j.Tables, j.Tables.tableOf(key)
	var out emitting
	found := func(_ int, pairs []selfjoin.Pair) error {
		return out.do(func() {
			for _, p := range pairs {
				if f, g := t.back(table, p.First), t.back(table, p.Second); t.first(table, f, g) {
					emit(Pair{min(f, g), max(f, g)})
				}
			}
		})
	}
	limit := int(j.Options.MemoryBytes / groupBytes)
	var group []fp
	var blob []byte
	for blobs(&blob) {
		var err error
		if group, err = appendFingerprints(group, blob); err != nil {
			return fmt.Errorf("group %d: %w", key, err)
		}
		if len(group) <= limit {
			continue
		}
		// Several bundles may have the same fingerprint.
		slices.Sort(group)
		if group = slices.Compact(group); len(group) > limit*3/4 {
			return fmt.Errorf("%w: group %d has more than %d fingerprints; raise Groups or "+
				"MemoryBytes", ErrMemory, key, limit*3/4)
		}
	}
	set, err := selfjoin.NewSet(group)
	if err != nil {
		return err
	}
	return set.Each(ctx, selfjoin.Options{MaxDistance: j.Options.MaxDistance}, found)
}

// emitting allows one goroutine at a time to emit. Beam's emitters panic if a later transform
// fails. In a goroutine, the panic would end the process instead of the bundle. After the first
// panic, nothing is emitted.
type emitting struct {
	mu  sync.Mutex
	err error
}

func (e *emitting) do(emit func()) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			e.err = fmt.Errorf("beam: emitting: %v", r)
			err = e.err
		}
	}()
	if e.err == nil {
		emit()
	}
	return e.err
}
