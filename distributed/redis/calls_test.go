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

// A master that dies while slots move may lose a cell and not its key. Nothing goes round in circles for it.
func TestKeyWithoutItsRecord(t *testing.T) {
	for _, cell := range []string{"", dead} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		f := &fake{keys: map[string]string{}, time: 10_000}
		x := testIndex(f)
		docs := []index.Document{{Key: "a", Fingerprint: 7}, {Key: "b", Fingerprint: 9}}
		verdicts, err := x.check(ctx, docs)
		must(t, err)
		if f.keys[x.name.cell(id(verdicts[0].Document.ID))] = cell; cell == "" {
			delete(f.keys, x.name.cell(id(verdicts[0].Document.ID)))
		}
		if _, found, err := x.Get(ctx, "a"); found || err != nil {
			t.Errorf("Get: %t, %v", found, err)
		}
		if n, err := x.Delete(ctx, "a"); n != 0 || err != nil {
			t.Errorf("Delete: %d, %v", n, err)
		}
		again, err := x.check(ctx, []index.Document{{Key: "a", Fingerprint: 9}})
		if err != nil || again[0].Status != index.Duplicate {
			t.Errorf("a page like another one: %+v, %v", again, err)
		}
	}
}

// A slot that is on its way refuses the write of a barrier; others of the group are tried.
func TestBarriersOfAllSlotsOfAGroup(t *testing.T) {
	c := &cluster{name: "n", scratch: make(map[*goredis.Client]string)}
	g := &group{commands: []*command{{keys: []string{"n:ba"}}, {keys: []string{"n:{b}d"}}}}
	tried := make(map[string]bool)
	for range 100 {
		tried[c.scratchKey(g)] = true
		delete(c.scratch, g.node)
	}
	if !tried["n:w{n:ba}"] || !tried["n:w{b}"] || len(tried) != 2 {
		t.Errorf("tried %v", tried)
	}
}
