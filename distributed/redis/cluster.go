package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// cluster runs commands on a Redis Cluster, or on a single server.
type cluster struct {
	client   goredis.UniversalClient
	name     names
	replicas int
	patience time.Duration

	mu      sync.Mutex
	scratch map[*goredis.Client]string // of each node, a key that it serves
}

const (
	waitTime   = time.Second // for replicas, at a time
	firstPause = 2 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// group is what goes to one node in one pipeline.
type group struct {
	node     *goredis.Client
	asking   bool // the slot is on its way to this node
	commands []*command
}

// run repeats what fails for reasons that pass, a failover or a moving slot.
func (c *cluster) run(ctx context.Context, durable bool, commands []*command) error {
	deadline, pause := time.Now().Add(c.patience), firstPause
	whole := false
	durable = durable && c.replicas > 0
	for left := commands; ; {
		failed := c.attempt(ctx, durable, whole, left)
		if len(failed) == 0 {
			return nil
		}
		soon := false
		for _, f := range failed {
			if !passes(f.err) {
				return c.explain(f)
			}
			if goredis.HasErrorPrefix(f.err, "NOSCRIPT") {
				whole, soon = true, true
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w for %v: %w; whether the call took effect is not known: repeat it", ErrUnavailable, c.patience, failed[0].err)
		}
		if left = failed; !soon {
			c.reload(ctx)
			time.Sleep(pause)
			pause = min(2*pause, lastPause)
		}
	}
}

// attempt sends commands, and returns those that have to be sent again.
func (c *cluster) attempt(ctx context.Context, durable, whole bool, commands []*command) (failed []*command) {
	groups := make(map[*goredis.Client]*group)
	for _, cmd := range commands {
		node, asking, err := c.node(ctx, cmd)
		if cmd.err = err; err != nil {
			failed = append(failed, cmd)
			continue
		}
		if asking { // rare, and by itself: what follows would not be asked for
			g := &group{node: node, asking: true, commands: []*command{cmd}}
			failed = append(failed, c.send(ctx, g, durable, whole)...)
			continue
		}
		if groups[node] == nil {
			groups[node] = &group{node: node}
		}
		groups[node].commands = append(groups[node].commands, cmd)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	send := func(g *group) {
		again := c.send(ctx, g, durable, whole)
		mu.Lock()
		failed = append(failed, again...)
		mu.Unlock()
	}
	last := (*group)(nil)
	for _, g := range groups {
		if last != nil {
			wg.Go(func() { send(g) })
		} else {
			last = g
		}
	}
	if last != nil {
		send(last)
	}
	wg.Wait()
	return failed
}

// node finds where a command goes: to its master, or to where the last reply has sent it.
func (c *cluster) node(ctx context.Context, cmd *command) (node *goredis.Client, asking bool, err error) {
	multi, ok := c.client.(*goredis.ClusterClient)
	if !ok {
		return c.client.(*goredis.Client), false, nil
	}
	if address, ask := goredis.IsAskError(cmd.err); cmd.err != nil && ask {
		_ = multi.ForEachMaster(ctx, func(_ context.Context, n *goredis.Client) error {
			if n.Options().Addr == address {
				c.mu.Lock()
				node = n
				c.mu.Unlock()
			}
			return nil
		})
		if node != nil {
			return node, true, nil
		}
	}
	node, err = multi.MasterForKey(ctx, cmd.key)
	return node, false, err
}

// barrierLua always writes, also where memory is used up: what is read and what makes room needs a barrier, too.
const barrierLua = `
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], '', 'EX', 60)
return ''`

// send does a group, and returns what of it has to be done again.
func (c *cluster) send(ctx context.Context, g *group, durable, whole bool) (failed []*command) {
	pipe := g.node.Pipeline()
	written, read := make([]goredis.Cmder, len(g.commands)), make([]*goredis.StringCmd, len(g.commands))
	writes := false
	for i, cmd := range g.commands {
		written[i], read[i] = cmd.queue(ctx, pipe, g.asking, whole)
		writes = writes || cmd.verb == say
	}
	var scratch, waited *goredis.Cmd
	if durable {
		if !writes { // an amend or a create may have found nothing to do
			scratch = pipe.Do(ctx, "EVAL", barrierLua, 1, c.scratchKey(g))
		}
		waited = pipe.Do(ctx, "WAIT", c.replicas, waitTime.Milliseconds())
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	var barrier error
	if durable {
		barrier = c.reached(g.node, scratch, waited)
	}
	if durable && writes && !slices.ContainsFunc(written, func(w goredis.Cmder) bool { return w != nil && w.Err() == nil }) {
		barrier = fmt.Errorf("%w: nothing was written to wait for", errReplicas)
	}
	for i, cmd := range g.commands {
		if cmd.value, cmd.err = read[i].Result(); errors.Is(cmd.err, goredis.Nil) {
			cmd.err = nil
		}
		if written[i] != nil && written[i].Err() != nil {
			cmd.err = written[i].Err()
		}
		if cmd.err == nil {
			cmd.err = barrier
		}
		if cmd.err != nil {
			failed = append(failed, cmd)
		}
	}
	return failed
}

// reached reports why replicas do not have all that their master had when the group was done.
func (c *cluster) reached(node *goredis.Client, scratch, waited *goredis.Cmd) error {
	if scratch != nil && scratch.Err() != nil {
		c.mu.Lock()
		delete(c.scratch, node) // its slot may have moved
		c.mu.Unlock()
		return scratch.Err()
	}
	n, err := waited.Int()
	if err == nil && n < c.replicas {
		err = fmt.Errorf("%w: %d of %d replicas of %s have answered", errReplicas, n, c.replicas, node.Options().Addr)
	}
	return err
}

var errReplicas = errors.New("WAIT")

// scratchKey is a key that the group's node serves.
func (c *cluster) scratchKey(g *group) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, known := c.scratch[g.node]
	if !known && g.asking {
		return g.commands[0].key + "?" // is refused, and so the command repeated until the slot has arrived
	}
	if !known {
		// another one when it is tried again: this slot may be on its way
		key = string(c.name) + ":w{" + g.commands[rand.IntN(len(g.commands))].key + "}"
		c.scratch[g.node] = key
	}
	return key
}

func (c *cluster) reload(ctx context.Context) {
	if multi, ok := c.client.(*goredis.ClusterClient); ok {
		multi.ReloadState(ctx)
	}
}

// passes reports whether an error is of the kind that a failover, a moving slot or a slow network gives.
// What Redis says of a command is no such error, but for some words.
func passes(err error) bool {
	if errors.Is(err, goredis.ErrClosed) {
		return false
	}
	if errors.Is(err, errReplicas) || goredis.HasErrorPrefix(err, "NOSCRIPT") {
		return true
	}
	for _, prefix := range []string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "BUSY", "UNBLOCKED", "ERR max number of clients"} {
		if goredis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	var said goredis.Error
	return !errors.As(err, &said)
}

// explain says what an error that does not pass means.
func (c *cluster) explain(cmd *command) error {
	switch err := cmd.err; {
	case goredis.HasErrorPrefix(err, "OOM"):
		return fmt.Errorf("%w: %w; nothing was stored: raise maxmemory, add nodes, or Delete and Sweep", ErrFull, err)
	case goredis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w: key %q is of another use: %w", ErrNotIndex, cmd.key, err)
	default:
		return fmt.Errorf("redis: %w", err)
	}
}
