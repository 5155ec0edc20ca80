package bench

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testseed"
)

func shortSoak(seed uint64) SoakOptions {
	return SoakOptions{
		Time: 2 * time.Second, Interval: 200 * time.Millisecond, Documents: 400, Workers: 4, MaxDistance: 3,
		CacheBytes: 32 << 20, FilterBytes: 16 << 20, NoSync: true, Seed: seed,
	}
}

// A soak of a few seconds makes every kind of call, finds nothing wrong, and leaves
// nothing behind but what it was asked for.
func TestSoak(t *testing.T) {
	o := shortSoak(testseed.Of(t))
	o.Dir = t.TempDir() + "/ix"
	report, err := Soak(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	kinds := len(soakKinds) + len(soakUpkeep) + 2
	if len(report.Calls) != kinds {
		t.Errorf("%d kinds of calls, not %d: %+v", len(report.Calls), kinds, report.Calls)
	}
	for _, c := range report.Calls {
		if !(0 < c.P50 && c.P50 <= c.P99 && c.P99 <= c.P999 && c.P999 <= c.Longest) {
			t.Errorf("not in order: %+v", c)
		}
	}
	if len(report.Samples) < 3 || report.Samples[len(report.Samples)-1].Documents == 0 {
		t.Errorf("samples %+v", report.Samples)
	}
	var table, asJSON strings.Builder
	if err := errors.Join(report.WriteTable(&table), report.WriteJSON(&asJSON)); err != nil || !strings.Contains(table.String(), "check-and-add") || !strings.Contains(asJSON.String(), `"p999"`) {
		t.Errorf("%v\n%s\n%s", err, &table, &asJSON)
	}
	if err := withIndex(o.Dir, &index.Options{MustExist: true}, func(*index.Index) error { return nil }); err != nil {
		t.Error(err)
	}
	if _, err := Soak(t.Context(), o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("in an index that is there: %v", err)
	}
}

// An index that changes behind the model's back is found out.
func TestSoakFindsWrongAnswers(t *testing.T) {
	for name, change := range map[string]func(context.Context, *soak) error{
		"a document that no one added": func(ctx context.Context, s *soak) error {
			return s.index.Add(ctx, index.Document{Fingerprint: 1, Key: "stranger", Scope: "scope 1"})
		},
		"a document that is lost": func(ctx context.Context, s *soak) error {
			_, err := s.index.Delete(ctx, s.workers[1].some().Key)
			return err
		},
	} {
		o := shortSoak(7)
		s := &soak{SoakOptions: o, dir: t.TempDir() + "/ix", times: make(map[string]*callTimes), end: time.Now().Add(time.Hour)}
		for _, kind := range []string{"query", "get", "check-and-add", "check-and-add, batch", "add", "delete", "expire", "compact", "checkpoint", compareAll, verifyAll} {
			s.times[kind] = new(callTimes)
		}
		if err := s.openIndex(); err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			s.workers = append(s.workers, s.newWorker(n))
		}
		for range 50 {
			for _, w := range s.workers {
				if err := w.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := change(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := s.compact(t.Context()); !errors.Is(err, ErrWrongAnswer) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.closeIndex(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSoakCanceled(t *testing.T) {
	o := shortSoak(3)
	o.Time = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	o.Logf = func(string, ...any) { cancel() } // with the first sample
	report, err := Soak(ctx, o)
	if !errors.Is(err, context.Canceled) || report == nil || len(report.Calls) == 0 {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestSoakOptions(t *testing.T) {
	for want, change := range map[string]func(*SoakOptions){
		"want more than 0": func(o *SoakOptions) { o.Time = 0 },
		"0 workers":        func(o *SoakOptions) { o.Workers = 0 },
		"3 documents":      func(o *SoakOptions) { o.Documents = 3 },
		"k is 99":          func(o *SoakOptions) { o.MaxDistance = 99 },
	} {
		o := shortSoak(1)
		change(&o)
		if _, err := Soak(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}

// A model answers as going through a list does, through additions, removals and expiry.
func TestSoakModel(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	m := newSoakModel(3)
	naive := make(map[uint64]index.Document)
	for id := uint64(1); id < 3000; id++ {
		d := index.Document{ID: id, Fingerprint: fingerprint.Fingerprint(r.Uint64N(64)), Key: string(rune('a' + r.IntN(400))), Added: time.Unix(int64(id/10), 0)}
		for old, o := range naive {
			if o.Key == d.Key {
				delete(naive, old)
			}
		}
		naive[id] = d
		if err := m.add(d); err != nil {
			t.Fatal(err)
		}
		if id%500 == 0 {
			second, want := int64(id/10-30), 0
			for old, o := range naive {
				if o.Added.Unix() < second {
					delete(naive, old)
					want++
				}
			}
			if got := m.expire(second); got != want {
				t.Fatalf("%d expired, not %d", got, want)
			}
		}
		if m.live() != len(naive) {
			t.Fatalf("%d documents, not %d", m.live(), len(naive))
		}
		asked := fingerprint.Fingerprint(r.Uint64N(64))
		n := 0
		for _, o := range naive {
			if asked.Distance(o.Fingerprint) <= 1 {
				n++
			}
		}
		got := m.query(asked, 0, 1, 0)
		if len(got) != n || !slices.IsSortedFunc(got, func(a, b index.Match) int {
			return 2*(a.Distance-b.Distance) + int(min(1, max(-1, int64(a.ID)-int64(b.ID))))
		}) {
			t.Fatalf("%d matches, not %d: %+v", len(got), n, got)
		}
	}
}

// What is read from times is right to 1/32, and the steps follow each other.
func TestCallTimes(t *testing.T) {
	for step := range 58 * timeSteps {
		if end := stepEnd(step); timeStep(end) != step || timeStep(end+1) != step+1 {
			t.Fatalf("step %d ends at %d, which is in step %d, and the next in %d", step, end, timeStep(end), timeStep(end+1))
		}
	}
	var l callTimes
	for i := range 100_000 {
		l.add(time.Duration(i)*time.Microsecond, 1)
	}
	for _, part := range []float64{.5, .99, .999} {
		got, want := l.quantile(part).Seconds(), part*.1
		if got < want || got > want*33/32 {
			t.Errorf("%v of the calls within %v s, want %v", part, got, want)
		}
	}
}

// Memory or disk that grows is found out, and noise is not.
func TestSoakFlat(t *testing.T) {
	samples := func(memory, disk func(i int) float64) *SoakReport {
		r := new(SoakReport)
		for i := range 60 {
			after := soakUpkeep[i%3].name
			r.Samples = append(r.Samples, SoakSample{After: after, Documents: 100_000, Memory: uint64(memory(i)), Disk: uint64(disk(i))})
		}
		return r
	}
	flat := func(at float64) func(int) float64 {
		return func(i int) float64 { return at * (1 + float64(i%7)/50) }
	}
	grows := func(at float64) func(int) float64 {
		return func(i int) float64 { return at * (1 + float64(i)/60) }
	}
	if err := samples(flat(500<<20), flat(50<<20)).flat(); err != nil {
		t.Error(err)
	}
	if err := samples(grows(500<<20), flat(50<<20)).flat(); !errors.Is(err, ErrNotFlat) || !strings.Contains(err.Error(), "memory from") {
		t.Errorf("memory that grows: %v", err)
	}
	if err := samples(flat(500<<20), grows(50<<20)).flat(); !errors.Is(err, ErrNotFlat) || !strings.Contains(err.Error(), "disk from") {
		t.Errorf("disk that grows: %v", err)
	}
}
