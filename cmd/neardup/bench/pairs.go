package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/selfjoin"
)

// Shapes of the collections whose pairs are looked for.
const (
	uniform   = "uniform"
	clustered = "clustered" // a fifth of it is another fingerprint with 0 to 4 bits flipped
	oneValue  = "one value" // ten of eleven are one value, the rest are uniform
)

// shaped is a collection that may be other than uniform.
type shaped struct {
	collection
	shape string
}

func (s shaped) at(i int) uint64 {
	choice := collection{seed: ^s.seed, n: s.n}.at(i)
	switch {
	case s.shape == oneValue && i%11 != 0:
		return s.collection.at(0)
	case s.shape == clustered && choice%5 == 0 && i > 0:
		choice /= 5
		fp := s.at(int(choice % uint64(i)))
		for range choice >> 32 % 5 {
			choice = choice*6364136223846793005 + 1442695040888963407
			fp ^= 1 << (choice >> 58)
		}
		return fp
	}
	return s.collection.at(i)
}

func (s shaped) fingerprints() []fingerprint.Fingerprint {
	fps := make([]fingerprint.Fingerprint, s.n)
	for i := range fps {
		fps[i] = fingerprint.Fingerprint(s.at(i))
	}
	return fps
}

func (s shaped) documents() iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for i := range s.n {
			if !yield(index.Document{Fingerprint: fingerprint.Fingerprint(s.at(i))}, nil) {
				return
			}
		}
	}
}

func (t *task) shaped() shaped { return shaped{t.stored(), t.Shape} }

// pairsTask finds the pairs of a collection in memory, once, for its memory; or several
// times in turns with sorting it and with clusters, for the times.
func pairsTask(ctx context.Context, t *task) (o outcome, err error) {
	fps := t.shaped().fingerprints()
	join := selfjoin.Options{MaxDistance: t.MaxDistance}
	each := func(s *selfjoin.Set) error { return s.Each(ctx, join, func(int, []selfjoin.Pair) error { return nil }) }
	if t.More == 0 {
		set, err := selfjoin.NewSet(fps)
		if err != nil {
			return o, err
		}
		return o, each(set)
	}
	steps := []struct {
		name string
		run  func(s *selfjoin.Set) error // nil: the fingerprints are only sorted
	}{
		{"sort", nil},
		{"pairs", each},
		{"components", func(s *selfjoin.Set) error {
			clusters, err := s.Components(ctx, join)
			if err == nil {
				o.Clusters = clusters.Len()
			}
			return err
		}},
		{"stars", func(s *selfjoin.Set) error {
			_, err := s.Stars(ctx, join, nil)
			return err
		}},
	}
	o.Seconds = make(map[string][]float64)
	room := make([]fingerprint.Fingerprint, len(fps))
	for range t.More {
		for _, step := range steps {
			copy(room, fps)
			begun := time.Now()
			if step.run == nil {
				slices.Sort(room)
			} else if set, err := selfjoin.NewSet(room); err != nil {
				return o, err
			} else if err := step.run(set); err != nil {
				return o, err
			}
			o.Seconds[step.name] = append(o.Seconds[step.name], time.Since(begun).Seconds())
		}
	}
	set, err := selfjoin.NewSet(fps)
	if err != nil {
		return o, err
	}
	o.Pairs, err = verifiedPairs(ctx, set, join)
	return o, err
}

// pairSamples is how many fingerprints are compared with all others.
const pairSamples = 64

// verifiedPairs counts the pairs. Those of some fingerprints must be what comparing
// these with all others finds.
func verifiedPairs(ctx context.Context, s *selfjoin.Set, join selfjoin.Options) (pairs int, err error) {
	sample := make(map[fingerprint.Fingerprint]int)
	for i := range min(pairSamples, s.Len()) {
		f := s.Fingerprint(selfjoin.Node(s.Len() / min(pairSamples, s.Len()) * i))
		for node := range selfjoin.Node(s.Len()) {
			if d := f.Distance(s.Fingerprint(node)); d > 0 && d <= join.MaxDistance {
				sample[f]--
			}
		}
	}
	var mu sync.Mutex
	err = s.Each(ctx, join, func(_ int, found []selfjoin.Pair) error {
		mu.Lock()
		defer mu.Unlock()
		pairs += len(found)
		for _, p := range found {
			for _, f := range []fingerprint.Fingerprint{p.First, p.Second} {
				if n, sampled := sample[f]; sampled {
					sample[f] = n + 1
				}
			}
		}
		return nil
	})
	for f, n := range sample {
		if n != 0 && err == nil {
			err = fmt.Errorf("%w: %v is in %+d pairs more than it is near to others", ErrWrongAnswer, f, n)
		}
	}
	return pairs, err
}

// joinLoadTask loads a collection of a shape into a new index.
func joinLoadTask(ctx context.Context, t *task) (o outcome, err error) {
	open, err := t.options()
	if err != nil {
		return o, err
	}
	o.Report, err = compaction.Load(ctx, t.Dir, t.shaped().documents(), compaction.LoadOptions{Index: *open, Progress: t.progress()})
	return o, err
}

// joinTask finds the pairs and the clusters of an index.
func joinTask(ctx context.Context, t *task) (o outcome, err error) {
	x, err := index.Open(t.Dir, &index.Options{ReadOnly: true, CacheBytes: t.CacheBytes, FilterBytes: t.FilterBytes})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	o.Seconds = make(map[string][]float64)
	for range t.More {
		begun := time.Now()
		o.Pairs = 0
		for _, err := range x.Pairs(ctx, index.JoinOptions{}) {
			if err != nil {
				return o, err
			}
			o.Pairs++
		}
		o.Seconds["pairs"] = append(o.Seconds["pairs"], time.Since(begun).Seconds())
		begun = time.Now()
		o.Clusters = 0
		for _, err := range x.Clusters(ctx, index.JoinOptions{}) {
			if err != nil {
				return o, err
			}
			o.Clusters++
		}
		o.Seconds["components"] = append(o.Seconds["components"], time.Since(begun).Seconds())
	}
	return o, nil
}

// pairRounds is how often each is timed; the median counts.
const pairRounds = 3

// pairs gives the times and the memory of all pairs and clusters.
func (r *run) pairs(ctx context.Context) error {
	for _, shape := range []string{uniform, clustered, oneValue} {
		if err := r.pairsOf(ctx, shape); err != nil {
			return fmt.Errorf("%s: %w", shape, err)
		}
	}
	return nil
}

func (r *run) pairsOf(ctx context.Context, shape string) error {
	r.logf("pairs of %d fingerprints, %s", r.Documents, shape)
	in := task{Name: "pairs", MaxDistance: r.MaxDistance, Shape: shape}
	once, err := r.do(ctx, in)
	if err != nil {
		return err
	}
	in.More = pairRounds
	timed, err := r.do(ctx, in)
	if err != nil {
		return err
	}
	name := func(what string) string { return shape + ", " + what }
	sorting := quantile(timed.Seconds["sort"], 0.5)
	r.figure("pairs", name("slices.Sort of it"), sorting, "s")
	for _, step := range []string{"pairs", "components", "stars"} {
		took := quantile(timed.Seconds[step], 0.5)
		r.figureOver("pairs", name(step+", from memory, sorting included"), took, "s", took/sorting)
	}
	r.figure("pairs", name("distinct pairs"), float64(timed.Pairs), "")
	r.figure("pairs", name("clusters"), float64(timed.Clusters), "")
	r.figure("pairs", name("memory of the process, at most"), mib(once.Peak), "MiB")
	return r.pairsOfIndex(ctx, shape, &timed, sorting)
}

// pairsOfIndex gives the times for a compacted index.
func (r *run) pairsOfIndex(ctx context.Context, shape string, memory *outcome, sorting float64) error {
	dir := "pairs"
	r.logf("loading them")
	if _, err := r.do(ctx, task{Name: "joinload", Dir: dir, MaxDistance: r.MaxDistance, Shape: shape}); err != nil {
		return err
	}
	o, err := r.do(ctx, task{Name: "join", Dir: dir, More: pairRounds})
	if err != nil {
		return err
	}
	if o.Pairs != memory.Pairs || o.Clusters != memory.Clusters {
		return fmt.Errorf("%w: the index has %d pairs and %d clusters, the collection %d and %d", ErrWrongAnswer, o.Pairs, o.Clusters, memory.Pairs, memory.Clusters)
	}
	for _, step := range []string{"pairs", "components"} {
		took := quantile(o.Seconds[step], 0.5)
		r.figureOver("pairs", shape+", "+step+", from the index, reading included", took, "s", took/sorting)
	}
	r.figure("pairs", shape+", memory with the index, at most", mib(o.Peak), "MiB")
	return os.RemoveAll(r.path(dir))
}
