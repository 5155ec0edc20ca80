package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

const (
	syncWriters = 64
	checkBatch  = 256
	// checkTimes is by how much longer than a query check-and-add is measured, so
	// that what the store does with the writes later is in the figure.
	checkTimes = 4
)

// checks are a way of calling check-and-add for a while.
type checks struct {
	name       string
	durability index.Durability
	goroutines int
	batch      int
	document   func(r *run, i int) index.Document
	expected   index.Status
}

// check loads the index with keys and calls CheckAndAdd in several ways.
func (r *run) check(ctx context.Context) error {
	r.compared = nil // it is not needed any more, and large
	l, err := r.bulkLoad(ctx, "check", true)
	if err != nil {
		return err
	}
	r.loadFigures("check", l)
	several := 2 * runtime.GOMAXPROCS(0)
	next := r.Documents // the first one of the collection that is not stored
	for _, c := range []checks{
		{fmt.Sprintf("new, NoSync, %d goroutines", several), index.NoSync, several, 1, (*run).stranger, index.New},
		{"new, NoSync, CheckAndAddBatch of 256", index.NoSync, 1, checkBatch, (*run).stranger, index.New},
		{fmt.Sprintf("new, Sync, %d goroutines", syncWriters), index.Sync, syncWriters, 1, (*run).stranger, index.New},
		{fmt.Sprintf("duplicates, NoSync, %d goroutines", several), index.NoSync, several, 1, (*run).copied, index.Duplicate},
	} {
		done, err := r.checkFor(ctx, c, next)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if c.expected == index.New {
			next += done
		}
	}
	if err := r.farQueries(ctx); err != nil {
		return err
	}
	return os.RemoveAll(r.path("check"))
}

// checkFor lets goroutines check and add what is in the collection from one place on.
func (r *run) checkFor(ctx context.Context, c checks, from int) (done int, err error) {
	options := r.options()
	options.Durability = c.durability
	var next atomic.Int64
	err = withIndex(r.path("check"), options, func(x *index.Index) error {
		if got := x.Stats().Documents; got != uint64(from) {
			return fmt.Errorf("%w: %d documents are stored, and %d were", ErrWrongAnswer, got, from)
		}
		errs := make([]error, c.goroutines)
		begun := time.Now()
		var wg sync.WaitGroup
		for g := range c.goroutines {
			wg.Go(func() {
				docs := make([]index.Document, c.batch)
				for errs[g] == nil && time.Since(begun) < checkTimes*r.Time {
					first := from + int(next.Add(int64(c.batch))) - c.batch
					for i := range docs {
						docs[i] = c.document(r, first+i)
					}
					errs[g] = c.checkAndAdd(ctx, x, docs)
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		r.figure("check", c.name, float64(next.Load())/time.Since(begun).Seconds()/1e3, "k/s")
		return nil
	})
	return int(next.Load()), err
}

func (c *checks) checkAndAdd(ctx context.Context, x *index.Index, docs []index.Document) error {
	verdicts, err := x.CheckAndAddBatch(ctx, docs)
	if err != nil {
		return err
	}
	for i, v := range verdicts {
		if v.Status != c.expected {
			return fmt.Errorf("%w: %v is %v, not %v", ErrWrongAnswer, docs[i].Fingerprint, v.Status, c.expected)
		}
	}
	return nil
}

// stranger is document i of the collection.
func (r *run) stranger(i int) index.Document {
	return index.Document{Key: r.stored.key(i), Fingerprint: fingerprint.Fingerprint(r.stored.at(i)), Shingle: r.stored.shingle(i)}
}

// copied is a document under the key of i that is like one of those that were stored
// first: up to k bits are different.
func (r *run) copied(i int) index.Document {
	d := r.stranger(i)
	choice := uint64(d.Fingerprint)
	original := int(choice % uint64(r.Documents))
	d.Fingerprint, d.Shingle = fingerprint.Fingerprint(r.stored.at(original)), r.stored.shingle(original)
	for flip := range int(choice>>32) % (r.MaxDistance + 1) {
		d.Fingerprint ^= 1 << (choice >> (6 * flip) & 63)
	}
	return d
}

// farQueries times queries that the second fingerprints decide, where there are some: no
// stored document has this Shingle, or one near to it, so the record of every document
// within k is read and none is a match.
func (r *run) farQueries(ctx context.Context) error {
	if !r.Shingles {
		return nil
	}
	far := fingerprint.Fingerprint(collection{seed: r.Seed}.at(r.Documents))
	return withIndex(r.path("check"), r.options(), func(x *index.Index) error {
		if err := warmUp(ctx, x, r.stored.questions(r.MaxDistance, streamWarm), r.Time); err != nil {
			return err
		}
		for _, c := range []struct {
			name      string
			questions *questions
			options   []index.QueryOption
		}{
			{"queries, nothing near", r.stored.strangers(streamTimed), []index.QueryOption{index.Shingle(far)}},
			{"queries, near to one whose Shingle is far", r.stored.near(r.MaxDistance, streamTimed), []index.QueryOption{index.Shingle(far)}},
			{"queries, near to one, Shingles not looked at", r.stored.near(r.MaxDistance, streamTimed), nil},
		} {
			var one latencies
			timed := &contender{run: one.timed(func(fp fingerprint.Fingerprint) error {
				_, err := x.Query(ctx, fp, c.options...)
				return err
			})}
			if err := takeTurns(ctx, c.questions, r.Time, timed); err != nil {
				return err
			}
			r.figure("check", c.name+": mean", timed.mean(), "us")
			r.figure("check", c.name+": p99", quantile(one, 0.99), "us")
		}
		return nil
	})
}
