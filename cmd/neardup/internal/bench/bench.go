// Package bench measures an index on this machine, and the tables of the paper as sorted arrays in
// memory (Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling", WWW 2007,
// section 3). Before queries are timed, some answers are compared with the answers of a full scan.
// The data is the same on every machine.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"golang.org/x/sync/errgroup"
)

// Options of Run.
type Options struct {
	Documents   int
	MaxDistance int
	Bare        bool          // documents have no Shingles
	Time        time.Duration // length of a window of measurement
	Out         io.Writer
}

type run struct {
	Options
	dir    string
	stored collection
}

// ErrWrongAnswer means that an answer is not exactly the stored documents within the distance, or
// that a verdict is wrong.
var ErrWrongAnswer = errors.New("wrong answer")

// Run measures an index in a temporary directory, and writes the figures to o.Out.
func Run(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp("", "neardup-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &run{Options: o, dir: dir, stored: collection{o.Documents, !o.Bare}}
	if err := r.load(ctx, "load", false); err != nil {
		return err
	}
	query := func(x *index.Index) error { return r.query(ctx, x) }
	if err := r.withIndex("load", index.NoSync, query); err != nil {
		return err
	}
	return r.check(ctx)
}

// withIndex opens an index, calls do and closes the index.
func (r *run) withIndex(name string, d index.Durability, do func(*index.Index) error) error {
	x, err := index.Open(filepath.Join(r.dir, name), r.options(d))
	if err != nil {
		return err
	}
	return errors.Join(do(x), x.Close())
}

func (r *run) options(d index.Durability) *index.Options {
	return &index.Options{MaxDistance: cmp.Or(r.MaxDistance, index.Exact),
		ExpectedDocuments: int64(r.Documents), Durability: d}
}

// load loads the collection into a new index.
func (r *run) load(ctx context.Context, name string, keys bool) error {
	report, err := compaction.Load(ctx, filepath.Join(r.dir, name), r.stored.documents(keys),
		compaction.LoadOptions{Index: *r.options(index.NoSync)})
	if err != nil {
		return err
	}
	return errors.Join(r.figure(name+": bulk load", float64(r.Documents)/report.Seconds/1e6, "M/s"),
		r.figure(name+": disk per document", float64(report.BytesAfter)/float64(r.Documents), "B"))
}

// query verifies an open index and times its queries.
func (r *run) query(ctx context.Context, x *index.Index) error {
	random := rand.New(rand.NewPCG(seed, 1))
	for _, fp := range r.stored.queries(random, min(max(1<<30/r.Documents, 8), 64), r.MaxDistance) {
		if err := r.verify(ctx, x, fp); err != nil {
			return err
		}
	}
	answer := func(fp fingerprint.Fingerprint) error {
		_, err := x.Query(ctx, index.Query{Signature: fingerprint.Signature{Fingerprint: fp}})
		return err
	}
	var stream atomic.Uint64
	rate, warm, err := steady(ctx, r.Time, runtime.GOMAXPROCS(0), func() (int, error) {
		asked := r.stored.queries(rand.New(rand.NewPCG(stream.Add(1), 2)), 256, r.MaxDistance)
		for _, fp := range asked {
			if err := answer(fp); err != nil {
				return 0, err
			}
		}
		return len(asked), nil
	})
	if err != nil {
		return err
	}
	return errors.Join(r.figure("query: time to warm up", warm.Seconds(), "s"),
		r.figure("query: on all cores", rate/1e3, "k/s"),
		r.figure("query: resident memory of the process", float64(resident())/(1<<20), "MiB"),
		r.compare(ctx, answer))
}

// compare times the answers of the index and of the reference in turns, in short rounds, so that
// other load on the machine affects them equally. Each round has different queries. The figures
// are the median times per query.
func (r *run) compare(ctx context.Context, answer func(fingerprint.Fingerprint) error) error {
	const perRound, minRounds = 512, 5
	arrays, found := newReference(r.stored, r.MaxDistance), []uint64(nil)
	random := rand.New(rand.NewPCG(seed, 3))
	var rounds [2][]float64 // microseconds per query
	for begun := time.Now(); len(rounds[0]) < minRounds || time.Since(begun) < 2*r.Time; {
		for i := range rounds {
			asked := r.stored.queries(random, perRound, r.MaxDistance)
			start := time.Now()
			for _, fp := range asked {
				if i == 1 {
					found = arrays.query(uint64(fp), r.MaxDistance, found[:0])
				} else if err := answer(fp); err != nil {
					return err
				}
			}
			rounds[i] = append(rounds[i], float64(time.Since(start).Nanoseconds())/1e3/perRound)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	for _, round := range rounds {
		slices.Sort(round)
	}
	stored, reference := rounds[0][len(rounds[0])/2], rounds[1][len(rounds[1])/2]
	return errors.Join(r.figure("query", stored, "us"),
		r.figure("query: the reference", reference, "us"),
		r.figure("query: ratio to the reference", stored/reference, ""))
}

// verify compares an answer with a scan of all fingerprints, in the order of distance and ID.
func (r *run) verify(ctx context.Context, x *index.Index, fp fingerprint.Fingerprint) error {
	var expected [][2]int
	for i := range r.Documents {
		if d := bits.OnesCount64(at(seed, i) ^ uint64(fp)); d <= r.MaxDistance {
			expected = append(expected, [2]int{d, i + 1})
		}
	}
	slices.SortFunc(expected, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	matches, err := x.Query(ctx, index.Query{Signature: fingerprint.Signature{Fingerprint: fp}})
	found := make([][2]int, len(matches))
	for i, m := range matches {
		found[i] = [2]int{m.Distance, int(m.ID)}
	}
	if err == nil && !slices.Equal(found, expected) {
		err = fmt.Errorf("%w: query %v returned %v, and %v are stored (distance and ID)",
			ErrWrongAnswer, fp, found, expected)
	}
	return err
}

// check loads the index with keys and calls CheckAndAdd in several ways.
func (r *run) check(ctx context.Context) error {
	if err := r.load(ctx, "check", true); err != nil {
		return err
	}
	var added atomic.Int64
	for _, c := range []struct {
		name              string
		durability        index.Durability
		goroutines, batch int
		expected          index.Status
	}{
		{"new, 4 goroutines", index.NoSync, 4, 1, index.New},
		{"new, CheckAndAddBatch of 256", index.NoSync, 1, 256, index.New},
		{"new, durable, 64 goroutines", index.Sync, 64, 1, index.New},
		{"duplicates, 4 goroutines", index.NoSync, 4, 1, index.Duplicate},
	} {
		err := r.withIndex("check", c.durability, func(x *index.Index) error {
			rate, warm, err := steady(ctx, r.Time, c.goroutines, func() (int, error) {
				docs := make([]index.Document, c.batch)
				first := r.Documents + int(added.Add(int64(c.batch))) - c.batch
				for i := range docs {
					docs[i] = r.stored.document(first+i, true)
					if c.expected == index.Duplicate {
						docs[i] = r.stored.near(first+i, r.MaxDistance)
					}
				}
				verdicts, err := x.CheckAndAddBatch(ctx, docs)
				for i, v := range verdicts {
					if v.Status != c.expected && !(r.Bare && v.Status == index.Duplicate) {
						return 0, fmt.Errorf("%w: %v is %v, not %v", ErrWrongAnswer,
							docs[i].Fingerprint, v.Status, c.expected)
					}
				}
				return c.batch, err
			})
			if err != nil {
				return err
			}
			return errors.Join(r.figure("check: "+c.name, rate/1e3, "k/s"),
				r.figure("check: "+c.name+": time to warm up", warm.Seconds(), "s"))
		})
		if err != nil {
			return fmt.Errorf("check-and-add, %s: %w", c.name, err)
		}
	}
	return nil
}

// figure writes a line of the table.
func (r *run) figure(name string, value float64, unit string) error {
	_, err := fmt.Fprintf(r.Out, "%-52s %10.4g %s\n", name, value, unit)
	return err
}

// steady lets goroutines call work repeatedly, in windows of the given length. work returns its
// number of units. warm is the time to the end of the last window that is more than 5 % faster than
// all earlier ones. Two more windows follow it. Then the rate per second is measured over a period
// of three windows.
func steady(
	ctx context.Context, window time.Duration, goroutines int, work func() (int, error),
) (rate float64, warm time.Duration, err error) {
	run := func(long time.Duration) (float64, error) {
		var group errgroup.Group
		var done atomic.Int64
		begun := time.Now()
		for range goroutines {
			group.Go(func() error {
				for time.Since(begun) < long && ctx.Err() == nil {
					n, err := work()
					if done.Add(int64(n)); err != nil {
						return err
					}
				}
				return context.Cause(ctx)
			})
		}
		err := group.Wait()
		return float64(done.Load()) / time.Since(begun).Seconds(), err
	}
	begun, best := time.Now(), 0.0
	for slower := 0; slower < 2; slower++ {
		if rate, err = run(window); err != nil {
			return 0, 0, err
		}
		if rate > 1.05*best {
			slower, warm = -1, time.Since(begun)
		}
		best = max(best, rate)
	}
	rate, err = run(3 * window)
	return rate, warm, err
}

// resident returns the resident memory of the process; 0 if /proc does not have it.
func resident() int64 {
	var size, pages int64
	statm, _ := os.ReadFile("/proc/self/statm")
	fmt.Sscan(string(statm), &size, &pages)
	return pages * int64(os.Getpagesize())
}
