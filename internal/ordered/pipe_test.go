package ordered

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// TestResultsComeInOrder tests the order of values and results of tasks. A worker must have one
// task at a time, and at most ahead + 1 results may wait for the receiver.
func TestResultsComeInOrder(t *testing.T) {
	const n = 200
	for _, workers := range []int{1, 4} {
		for _, ahead := range []int{0, 1, 16} {
			busy := make([]atomic.Bool, workers)
			var begun atomic.Int64
			next, taken, sent := 0, 0, false
			for v, err := range All(t.Context(), workers, ahead, func(p *Pipe[int]) error {
				for i := range n {
					err := p.Go(func(worker int) (int, error) {
						if busy[worker].Swap(true) {
							t.Errorf("worker %d has two tasks", worker)
						}
						begun.Add(1)
						time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
						busy[worker].Store(false)
						return i * i, nil
					})
					if i%3 == 0 && err == nil {
						err = p.Send(-i)
					}
					if err != nil {
						return err
					}
				}
				return nil
			}) {
				want := -next
				if !sent {
					want = next * next
					taken++
				}
				if err != nil || v != want {
					t.Fatalf("%d workers, %d ahead: %d, %v; want %d", workers, ahead, v, err, want)
				}
				if sent = !sent && next%3 == 0; !sent {
					next++
				}
				if waiting := int(begun.Load()) - taken; waiting > ahead+1 {
					t.Fatalf("%d results wait, want at most %d", waiting, ahead+1)
				}
			}
			if next != n {
				t.Errorf("%d workers, %d ahead: %d results", workers, ahead, next)
			}
		}
	}
}

// TestTasksWaitForWorkers tests that Go does not wait for busy workers until ahead tasks wait.
func TestTasksWaitForWorkers(t *testing.T) {
	const ahead = 5
	begin, all := make(chan struct{}), make(chan struct{})
	p := New(t.Context(), 1, ahead, func(p *Pipe[int]) error {
		defer close(all)
		for i := range ahead {
			if err := p.Go(func(int) (int, error) { <-begin; return i, nil }); err != nil {
				return err
			}
		}
		return nil
	})
	defer p.Stop(errStopped)
	<-all
	if !p.Ready() {
		t.Error("nothing is ready")
	}
	close(begin)
	for i := range ahead {
		if v, ok, err := p.Next(); v != i || !ok || err != nil {
			t.Fatal(v, ok, err)
		}
	}
}

// TestStops tests that the producer and all tasks end before All returns, if the producer or a task
// fails, the loop ends, or the context ends.
func TestStops(t *testing.T) {
	broken, enough := errors.New("broken"), errors.New("enough")
	var running atomic.Int64
	// Task fails returns an error, and the producer fails after ends tasks.
	slowly := func(fails, ends int) func(p *Pipe[int]) error {
		return func(p *Pipe[int]) error {
			running.Add(1)
			defer running.Add(-1)
			for i := 0; i != ends; i++ {
				if err := p.Go(func(int) (int, error) {
					running.Add(1)
					defer running.Add(-1)
					time.Sleep(time.Millisecond)
					if i == fails {
						return 0, broken
					}
					return i, nil
				}); err != nil {
					time.Sleep(10 * time.Millisecond)
					return err
				}
			}
			return broken
		}
	}
	for what, c := range map[string]struct {
		produce func(p *Pipe[int]) error
		want    error
		most    int
	}{
		"a task fails":       {slowly(20, -1), broken, 20},
		"the producer fails": {slowly(-1, 20), broken, 20},
		"the loop ends":      {slowly(-1, -1), nil, 10},
		"the context ends":   {slowly(-1, -1), enough, -1},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		n := 0
		var last error
		for v, err := range All(ctx, 2, 4, c.produce) {
			if last = err; err != nil {
				continue
			}
			if v != n {
				t.Fatalf("%s: %d, want %d", what, v, n)
			}
			if n++; n == c.most && c.want == nil {
				break
			}
			if c.most < 0 {
				cancel(enough)
			}
		}
		cancel(nil)
		if !errors.Is(last, c.want) || c.most > 0 && n != c.most || running.Load() > 0 {
			t.Errorf("%s: %d values, then %v; %d are still running", what, n, last, running.Load())
		}
	}
	p := New(t.Context(), 2, 4, slowly(-1, -1))
	if _, ok, err := p.Next(); !ok {
		t.Errorf("no value: %v", err)
	}
	p.Stop(enough)
	if _, ok, err := p.Next(); ok || !errors.Is(err, enough) || running.Load() > 0 {
		t.Errorf("after Stop: %v, %v; %d are still running", ok, err, running.Load())
	}
}
