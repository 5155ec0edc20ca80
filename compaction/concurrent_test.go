package compaction_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// lives are when documents came and went, by the clock of the test: when the call that
// adds or removes one returned, or an answer had it, or had it no more. A document is
// stable from then on that it was there, as long as nobody has begun to remove it.
type lives struct {
	mu    sync.Mutex
	clock int64
	docs  map[uint64]*life // by ID
	wrong []string
}

type life struct {
	index.Document
	added, removing, removed int64 // 0: not yet
}

func (l *lives) now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	return l.clock
}

func (l *lives) came(docs ...index.Document) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range docs {
		if seen := l.docs[d.ID]; seen == nil {
			l.docs[d.ID] = &life{Document: d, added: now}
		} else if seen.Document != d {
			l.wrong = append(l.wrong, fmt.Sprintf("%+v was seen as %+v", d, seen))
		}
	}
}

// goAway marks the documents of which a call begins to remove those that it picks, and
// returns what to call when it is done.
func (l *lives) goAway(picks func(*life) bool) (gone func()) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var going []*life
	for _, d := range l.docs {
		if d.removing == 0 && picks(d) {
			d.removing = now
			going = append(going, d)
		}
	}
	return func() {
		now := l.now()
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, d := range going {
			if d.removed == 0 {
				d.removed = now
			}
		}
	}
}

// check compares an answer that was asked for at start.
func (l *lives) check(t *testing.T, start int64, q fingerprint.Fingerprint, k int, matches []index.Match) {
	t.Helper()
	end := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[uint64]bool{}
	for i, m := range matches {
		d := l.docs[m.ID]
		if d == nil { // whoever adds it has not said so yet
			d = &life{Document: m.Document, added: end}
			l.docs[m.ID] = d
		}
		if found[m.ID] || m.Distance != m.Fingerprint.Distance(q) || m.Distance > k || d.Document != m.Document {
			t.Errorf("query %v: %+v, of %+v", q, m, d)
		}
		if d.removed != 0 && d.removed < start {
			t.Errorf("query %v from %d on: %+v is there", q, start, d)
		}
		if i > 0 && cmp.Or(cmp.Compare(matches[i-1].Distance, m.Distance), cmp.Compare(matches[i-1].ID, m.ID)) > 0 {
			t.Errorf("query %v: match %d is out of order", q, i)
		}
		found[m.ID] = true
	}
	for _, d := range l.docs {
		if d.added >= start || d.Fingerprint.Distance(q) > k || found[d.ID] {
			continue
		}
		if d.removing == 0 {
			t.Errorf("query %v from %d on: %+v is missing", q, start, d)
		} else if d.removed == 0 {
			d.removed = end
		}
	}
}

// checkVerdict wants the nearest of what was stable, or what was as near and came or
// went meanwhile.
func (l *lives) checkVerdict(t *testing.T, start int64, v index.Verdict, k int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	distance := k + 1
	if v.Status == index.Duplicate {
		distance = v.Of.Distance
		if d := l.docs[v.Of.ID]; d != nil && (d.removed != 0 && d.removed < start || d.Document != v.Of.Document) {
			t.Errorf("%+v from %d on: a duplicate of %+v", v, start, d)
		}
	}
	for _, d := range l.docs {
		near := d.Fingerprint.Distance(v.Document.Fingerprint)
		if d.added < start && d.removing == 0 && d.Key != v.Document.Key && near < distance {
			t.Errorf("%+v from %d on, although there is %+v", v, start, d)
		}
	}
}

// racing is an index under change by many.
type racing struct {
	t       *testing.T
	x       *index.Index
	l       *lives
	k       int
	centers []uint64
	second  int64 // what came before is old
	steps   int
}

func (r *racing) near(rng *rand.Rand) fingerprint.Fingerprint {
	return fingerprint.Fingerprint(testgen.Flip(rng, r.centers[rng.IntN(len(r.centers))], ^uint64(0), rng.IntN(5)))
}

// write adds, replaces and deletes documents, those with a key by keys of its own.
func (r *racing) write(rng *rand.Rand, writer int) {
	ctx := context.Background()
	key := func() string { return fmt.Sprintf("writer %d, page %d", writer, rng.IntN(60)) }
	for range r.steps {
		switch rng.IntN(6) {
		case 0, 1:
			docs := make([]index.Document, 1+rng.IntN(4))
			for i := range docs {
				docs[i].Fingerprint = r.near(rng)
			}
			docs[0].Key = key()
			gone := r.l.goAway(func(d *life) bool { return d.Key == docs[0].Key })
			if err := r.x.Add(ctx, docs...); err != nil {
				r.t.Error(err)
			}
			gone()
			r.l.came(docs...)
		case 2, 3:
			keys := []string{key(), key()}
			gone := r.l.goAway(func(d *life) bool { return slices.Contains(keys, d.Key) && d.Key != "" })
			if _, err := r.x.Delete(ctx, keys...); err != nil {
				r.t.Error(err)
			}
			gone()
		default:
			d := index.Document{Key: key(), Fingerprint: r.near(rng)}
			start := r.l.now()
			gone := r.l.goAway(func(other *life) bool { return other.Key == d.Key })
			v, err := r.x.CheckAndAdd(ctx, d)
			if err != nil {
				r.t.Error(err)
				return
			}
			gone()
			r.l.checkVerdict(r.t, start, v, r.k)
			if v.Document.ID != 0 {
				r.l.came(v.Document)
			}
		}
	}
}

// fillUp adds so many that the live filters grow.
func (r *racing) fillUp(rng *rand.Rand, n int) {
	for done := 0; done < n; {
		docs := make([]index.Document, 0, 2000)
		for d := range manyBare(testgen.Uniform(rng, cap(docs))).all() {
			docs = append(docs, d)
		}
		if err := r.x.Add(context.Background(), docs...); err != nil {
			r.t.Error(err)
			return
		}
		done += len(docs)
	}
}

// expire removes what is old, in several commits.
func (r *racing) expire() {
	at := time.Unix(r.second, 0)
	gone := r.l.goAway(func(d *life) bool { return d.Added.Before(at) })
	if _, err := r.x.DeleteBefore(context.Background(), at); err != nil {
		r.t.Error(err)
	}
	gone()
}

func (r *racing) query(rng *rand.Rand, batches bool) {
	ctx := context.Background()
	fps := []fingerprint.Fingerprint{r.near(rng)}
	start := r.l.now()
	if !batches {
		matches, err := r.x.Query(ctx, fps[0])
		if err != nil {
			r.t.Error(err)
		}
		r.l.check(r.t, start, fps[0], r.k, matches)
		return
	}
	for range 130 { // three chunks
		fps = append(fps, r.near(rng))
	}
	for a, err := range r.x.QueryBatch(ctx, fps) {
		if err != nil {
			r.t.Error(err)
		}
		if a.Query%40 == 0 {
			r.l.check(r.t, start, fps[a.Query], r.k, a.Matches)
		}
	}
}

// session lets everyone go at once, until the writers are done.
func (r *racing) session(rng *rand.Rand, fill int, expire bool) {
	var writers, readers sync.WaitGroup
	var stop atomic.Bool
	goOn := func(wg *sync.WaitGroup, f func(*rand.Rand)) {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() { f(own) })
	}
	for w := range 3 {
		goOn(&writers, func(rng *rand.Rand) { r.write(rng, w) })
	}
	goOn(&writers, func(rng *rand.Rand) { r.fillUp(rng, fill) })
	if expire {
		goOn(&writers, func(*rand.Rand) { r.expire() })
	}
	for reader := range 3 {
		goOn(&readers, func(rng *rand.Rand) {
			for first := true; first || !stop.Load() && !r.t.Failed(); first = false {
				r.query(rng, reader == 0)
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
}

// left compares what is there in the end with those that came and did not go.
func (r *racing) left(fill int) {
	r.t.Helper()
	for _, w := range r.l.wrong {
		r.t.Error(w)
	}
	others := 0
	for _, d := range allDocuments(r.t, r.x) {
		known := r.l.docs[d.ID]
		switch {
		case known == nil:
			others++
		case known.removing != 0 || known.Document != d:
			r.t.Errorf("%+v is left, of %+v", d, known)
		default:
			delete(r.l.docs, d.ID)
		}
	}
	for _, d := range r.l.docs {
		if d.removing == 0 {
			r.t.Errorf("%+v is missing", d)
		}
	}
	if others != fill {
		r.t.Errorf("%d other documents, not %d", others, fill)
	}
}

// warnings are errors: filters that can not be made leave answers right, and slow.
func warnings(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type failing struct{ t *testing.T }

func (f failing) Write(line []byte) (int, error) {
	f.t.Errorf("%s", line)
	return len(line), nil
}

// TestQueriesWhileOthersWriteToAPackedIndex wants in every answer what was there before
// it was asked for and stayed, and nothing that was gone by then.
func TestQueriesWhileOthersWriteToAPackedIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 6))
	steps := 150
	if raceEnabled {
		steps = 30
	}
	if atLength() {
		steps = 1500
	}
	for _, c := range []struct {
		plan string
		fill int
	}{
		{"k=3 0-63/32~1 32-63,0-31/32~1", 70_000}, // the first live filters are for 64 Ki
		{"k=4 0-63/20~1 20-41,0-19,42-63/22~1 42-63,0-41/22", 4000},
	} {
		t.Run(c.plan, func(t *testing.T) {
			if raceEnabled && testing.Short() {
				c.fill = min(c.fill, 4000) // filters that grow are raced for in package index
			}
			plan, err := plan.Parse(c.plan)
			if err != nil {
				t.Fatal(err)
			}
			ctx, fsys := context.Background(), vfs.NewMem()
			opts := index.Options{FS: fsys, Plan: plan, Durability: index.NoSync, Logger: warnings(t)}
			r := &racing{t: t, l: &lives{docs: map[uint64]*life{}}, k: plan.MaxDistance, centers: testgen.Uniform(rng, 40), steps: steps}
			var packed []index.Document
			for i := range 3000 {
				d := index.Document{Fingerprint: r.near(rng)}
				if i < 180 {
					d.Key = fmt.Sprintf("writer %d, page %d", i%3, i/3)
				}
				packed = append(packed, d)
			}
			if _, err := compaction.Load(ctx, "ix", seqOf(packed, nil), compaction.LoadOptions{Index: opts}); err != nil {
				t.Fatal(err)
			}
			r.second = time.Now().Unix() + 3600
			opts.Now = func() time.Time { return time.Unix(r.second, 0) }
			r.x = openIndex(t, "ix", opts)
			r.l.came(allDocuments(t, r.x)...)
			filters := r.x.Stats().FilterBytes
			r.session(rng, c.fill, true)
			for wait := 0; c.fill > 1<<16 && r.x.Stats().FilterBytes == filters; wait++ { // growing goes on
				if wait == 300_000 || t.Failed() { // five minutes
					t.Fatalf("live filters have not grown: %+v", r.x.Stats())
				}
				time.Sleep(time.Millisecond)
			}
			// Live filters are made anew when an index is opened. Then all is packed.
			for _, run := range []bool{false, true} {
				if err := r.x.Close(); err != nil {
					t.Fatal(err)
				}
				if run {
					if _, err := compaction.Run(ctx, "ix", compaction.Options{FS: fsys}); err != nil {
						t.Fatal(err)
					}
				}
				r.x = openIndex(t, "ix", opts)
				r.session(rng, 2000, false)
			}
			r.left(c.fill + 4000)
		})
	}
}
