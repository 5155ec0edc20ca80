package ordered

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// squares sends the numbers below n through a pipe that squares them.
func squares(n int) func(*Pipe[int]) error {
	return func(p *Pipe[int]) error {
		for i := range n {
			err := p.Go(func(int) (int, error) {
				time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
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
	}
}

func TestResultsComeInOrder(t *testing.T) {
	const n = 200
	for _, workers := range []int{1, 4} {
		for _, ahead := range []int{0, 1, 16} {
			next, sent := 0, false
			for v, err := range All(t.Context(), workers, ahead, squares(n)) {
				want := next * next
				if sent {
					want = -next
				}
				if err != nil || v != want {
					t.Fatalf("%d workers, %d ahead: %d, %v where %d is due", workers,
						ahead, v, err, want)
				}
				if sent = !sent && next%3 == 0; !sent {
					next++
				}
			}
			if next != n {
				t.Errorf("%d workers, %d ahead: %d results", workers, ahead, next)
			}
		}
	}
}

// TestWorkersAreNotShared tests that a worker has one task at a time, and that the number of
// tasks is at most the number of workers plus the room.
func TestWorkersAreNotShared(t *testing.T) {
	const workers, ahead = 3, 5
	var busy [workers]atomic.Bool
	var begun atomic.Int64
	taken := int64(0)
	for _, err := range All(t.Context(), workers, ahead, func(p *Pipe[int]) error {
		for range 200 {
			if err := p.Go(func(worker int) (int, error) {
				if busy[worker].Swap(true) {
					t.Errorf("worker %d has two tasks", worker)
				}
				begun.Add(1)
				runtime.Gosched()
				busy[worker].Store(false)
				return 0, nil
			}); err != nil {
				return err
			}
		}
		return nil
	}) {
		testenv.Must(t, err)
		taken++
		if over := begun.Load() - taken; over > ahead+1 {
			t.Fatalf("%d results wait, room is for %d", over, ahead)
		}
	}
}

// TestTasksWaitForWorkers tests that the input is read ahead, up to the available room, while the
// workers are busy.
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
	select {
	case <-all:
	case <-time.After(10 * time.Second):
		t.Error("input waits for the worker")
	}
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

func TestSendFromManyGoroutines(t *testing.T) {
	sum := 0
	for v, err := range All(t.Context(), 0, 2, func(p *Pipe[int]) error {
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for range 100 {
					testenv.Must(t, p.Send(i))
				}
			})
		}
		group.Wait()
		return nil
	}) {
		testenv.Must(t, err)
		sum += v
	}
	if sum != 2800 {
		t.Errorf("the sum is %d", sum)
	}
}

func TestErrorsEndEverything(t *testing.T) {
	broken := errors.New("broken")
	for name, produce := range map[string]func(*Pipe[int]) error{
		"task": func(p *Pipe[int]) error {
			for i := range 100 {
				if err := p.Go(func(int) (int, error) {
					if i == 20 {
						return 0, broken
					}
					return i, nil
				}); err != nil {
					return err
				}
			}
			return nil
		},
		"produce": func(p *Pipe[int]) error {
			for i := range 20 {
				if err := p.Send(i); err != nil {
					return err
				}
			}
			return broken
		},
	} {
		n := 0
		var last error
		for v, err := range All(t.Context(), 2, 4, produce) {
			if last = err; err == nil && v != n {
				t.Fatalf("%s: %d where %d is due", name, v, n)
			}
			n++
		}
		if n != 21 || !errors.Is(last, broken) {
			t.Errorf("%s: %d values, then %v", name, n-1, last)
		}
	}
}

// TestStops tests that a consumer that stops, or a context that ends, ends the producer and all
// tasks before the call returns.
func TestStops(t *testing.T) {
	var running atomic.Int64
	slowly := func(p *Pipe[int]) error { // its end takes a while
		running.Add(1)
		defer running.Add(-1)
		for {
			if err := p.Go(func(int) (int, error) {
				running.Add(1)
				defer running.Add(-1)
				time.Sleep(time.Millisecond)
				return 1, nil
			}); err != nil {
				time.Sleep(10 * time.Millisecond)
				return err
			}
		}
	}
	ended := func(what string) {
		t.Helper()
		if n := running.Load(); n > 0 {
			t.Errorf("%s: %d are still running", what, n)
		}
	}
	for _, err := range All(t.Context(), 2, 4, slowly) {
		testenv.Must(t, err)
		break
	}
	ended("after a break")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	defer cancel(nil)
	var last error
	for _, err := range All(ctx, 2, 4, slowly) {
		last = err
		cancel(enough)
	}
	if !errors.Is(last, enough) {
		t.Errorf("a context that is done: %v", last)
	}
	ended("after its context")
	p := New(t.Context(), 2, 4, slowly)
	if _, ok, err := p.Next(); !ok {
		t.Errorf("no value: %v", err)
	}
	p.Stop(enough)
	ended("after Stop")
	if _, ok, err := p.Next(); ok || !errors.Is(err, enough) {
		t.Errorf("after Stop: %v, %v", ok, err)
	}
}
