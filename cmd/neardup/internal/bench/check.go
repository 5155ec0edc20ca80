package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"golang.org/x/sync/errgroup"
)

// checkTimes is by how much longer than a query check-and-add is measured, so
// that what the store does with the writes later is in the figure.
const checkTimes = 4

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
		{fmt.Sprintf("new, NoSync, %d goroutines", several), index.NoSync, several, 1, (*run).unstored, index.New},
		{"new, NoSync, CheckAndAddBatch of 256", index.NoSync, 1, 256, (*run).unstored, index.New},
		{"new, Sync, 64 goroutines", index.Sync, 64, 1, (*run).unstored, index.New},
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
	return errors.Join(r.farQueries(ctx), os.RemoveAll(r.path("check")))
}

// checkFor lets goroutines check and add what is in the collection from one place on.
func (r *run) checkFor(ctx context.Context, c checks, from int) (done int, err error) {
	options := r.options()
	options.Durability = c.durability
	var next atomic.Int64
	var begun time.Time
	var worked time.Duration
	err = withIndex(r.path("check"), options, func(x *index.Index) error {
		if got := x.Stats().Documents; got != uint64(from) {
			return fmt.Errorf("%w: %d documents are stored, and %d were", ErrWrongAnswer, got, from)
		}
		var group errgroup.Group
		begun, worked = time.Now(), processorTime()
		for range c.goroutines {
			group.Go(func() error {
				docs := make([]index.Document, c.batch)
				for time.Since(begun) < checkTimes*r.Time {
					first := from + int(next.Add(int64(c.batch))) - c.batch
					for i := range docs {
						docs[i] = c.document(r, first+i)
					}
					if err := c.checkAndAdd(ctx, x, docs); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	})
	if err == nil { // Close is in it, and what was put off until then
		n := float64(next.Load())
		r.figure("check", c.name, n/time.Since(begun).Seconds()/1e3, "k/s")
		if worked = processorTime() - worked; worked > 0 {
			r.figure("check", c.name+": processor time", microseconds(worked)/n, "us")
		}
	}
	return int(next.Load()), err
}

// processorTime returns what the process has taken, in steps of 10 ms; 0 where there is no /proc.
func processorTime() time.Duration {
	stat, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name may have spaces
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
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

// unstored is document i of the collection, which goes on behind what is stored.
func (r *run) unstored(i int) index.Document {
	d := r.stored.document(i)
	d.Key = r.stored.key(i)
	return d
}

// copied is a document under the key of i that is like one of those that were stored
// first: up to k bits are different.
func (r *run) copied(i int) index.Document {
	choice := r.stored.at(i)
	d := r.stored.document(int(choice % uint64(r.Documents)))
	d.Key = r.stored.key(i)
	for flip := range int(choice>>32) % (r.MaxDistance + 1) {
		d.Fingerprint ^= 1 << (choice >> (6 * flip) & 63)
	}
	return d
}

// farQueries times queries that the second fingerprints decide, where there are some: no
// stored document has this Shingle, or one near to it, so the record of every document
// within k is read and none is a match.
func (r *run) farQueries(ctx context.Context) error {
	if r.Bare {
		return nil
	}
	far := fingerprint.Fingerprint(collection{seed: r.Seed}.at(r.Documents))
	return withIndex(r.path("check"), r.options(), func(x *index.Index) error {
		if err := warmUp(ctx, x, r.stored.queries(r.MaxDistance, streamWarm), r.Time); err != nil {
			return err
		}
		for _, c := range []struct {
			name   string
			every  int
			answer answer
		}{
			{"queries, nothing near", 0, queryOf(ctx, x, far)},
			{"queries, near to one whose Shingle is far", 1, queryOf(ctx, x, far)},
			{"queries, near to one, Shingles not looked at", 1, queryOf(ctx, x, 0)},
		} {
			var times []float64
			asked, timed, begun := r.stored.queries(r.MaxDistance, streamTimed), &candidate{run: c.answer.timed(&times).each}, processorTime()
			asked.every = c.every
			if err := interleave(ctx, asked, r.Time, timed); err != nil {
				return err
			}
			r.figure("check", c.name+": mean", timed.mean(), "us")
			r.figure("check", c.name+": p99", quantile(times, 0.99), "us")
			if worked := processorTime() - begun; worked > 0 {
				r.figure("check", c.name+": processor time", microseconds(worked)/float64(len(times)), "us")
			}
		}
		return nil
	})
}
