package redis

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/neardup/neardup/index"
)

// stuck is a Redis that does not answer for a while.
type stuck struct {
	runner
	until chan struct{}
}

func (s stuck) run(ctx context.Context, durable bool, commands []*command) error {
	<-s.until
	return s.runner.run(ctx, durable, commands)
}

// While Redis is away, calls that give up leave nothing behind that grows; Close waits for what is under way.
func TestCallsThatGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := stuck{&fake{keys: map[string]string{}, time: 10_000}, make(chan struct{})}
		x := testIndex(away)
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := x.CheckAndAdd(ctx, index.Document{Fingerprint: 7}); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("call %d: %v", i, err)
			}
			cancel()
		}
		if n := len(x.gather.waiting); n > 0 {
			t.Errorf("%d documents are kept of calls that have returned", n)
		}
		closed := make(chan struct{})
		go func() { x.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed with calls under way")
		default:
		}
		close(away.until)
		<-closed
	})
}

// A call that waits for another one's numbers returns when its context ends.
func TestDrawHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := stuck{&fake{keys: map[string]string{}, time: 10_000}, make(chan struct{})}
		x := testIndex(away)
		go x.draw(context.Background(), 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := x.draw(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		close(away.until)
	})
}

// A slot that is on its way refuses the write of a barrier; others of the group are tried.
func TestBarriersOfAllSlotsOfAGroup(t *testing.T) {
	c := &cluster{name: "n", scratch: make(map[*goredis.Client]string)}
	g := &group{commands: []*command{{key: "n:ba"}, {key: "n:gb"}}}
	tried := make(map[string]bool)
	for range 100 {
		tried[c.scratchKey(g)] = true
		delete(c.scratch, g.node)
	}
	if !tried["n:w{n:ba}"] || !tried["n:w{n:gb}"] || len(tried) != 2 {
		t.Errorf("tried %v", tried)
	}
}

// most is a runner that knows how many commands it got at once at most.
type most struct {
	runner
	commands int
}

func (m *most) run(ctx context.Context, durable bool, commands []*command) error {
	m.commands = max(m.commands, len(commands))
	return m.runner.run(ctx, durable, commands)
}

// What a deletion by age reads at once is bounded, however many documents a step of the scan finds.
func TestDeleteBeforeInParts(t *testing.T) {
	x := openShared(t, Options{Bare: true, MaxDistance: 3, Expected: 1})
	if _, err := x.CheckAndAddBatch(t.Context(), made(0, 1000)); err != nil {
		t.Fatal(err)
	}
	m := &most{runner: x.run}
	x.run = m
	if n, err := x.DeleteBefore(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 1000 {
		t.Fatalf("%d documents, %v", n, err)
	}
	if m.commands > window*len(x.plan.Tables) {
		t.Errorf("%d commands at once", m.commands)
	}
}
