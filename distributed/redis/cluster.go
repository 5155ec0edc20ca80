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

	"github.com/neardup/neardup/index"
)

// cluster runs commands on a Redis Cluster, or on a single server.
type cluster struct {
	multi    *goredis.ClusterClient
	single   *goredis.Client // set if multi is nil
	name     names
	replicas int // the number of replicas that must confirm
	patience time.Duration
	lacks    []string
}

const (
	waitTime   = time.Second // for replicas, per attempt
	firstPause = 2 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// run runs commands. It repeats commands that fail for temporary reasons, such as a failover or a
// moving slot.
func (c *cluster) run(ctx context.Context, durable bool, commands []*command) error {
	deadline, pause := time.Now().Add(c.patience), firstPause
	for {
		c.attempt(ctx, durable && c.replicas > 0, commands)
		commands = slices.DeleteFunc(slices.Clone(commands),
			func(cmd *command) bool { return cmd.err == nil })
		if len(commands) == 0 {
			return nil
		}
		for _, cmd := range commands {
			if !passes(cmd.err) {
				return cmd.explain()
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w for %v: %w; the call may have taken effect: repeat it",
				ErrUnavailable, c.patience, commands[0].err)
		}
		if c.multi != nil {
			c.multi.ReloadState(ctx)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, lastPause)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt sends commands once, to all nodes at the same time.
func (c *cluster) attempt(ctx context.Context, durable bool, commands []*command) {
	groups := make(map[*goredis.Client][]*command)
	for _, cmd := range commands {
		node, asking, err := c.node(ctx, cmd)
		switch {
		case err != nil:
			cmd.err = err
		case asking: // rare; sent alone, since ASKING applies to one command
			c.send(ctx, node, []*command{cmd}, durable, true)
		default:
			groups[node] = append(groups[node], cmd)
		}
	}
	var wg sync.WaitGroup
	for node, group := range groups {
		wg.Go(func() { c.send(ctx, node, group, durable, false) })
	}
	wg.Wait()
}

// node returns the node of a command: its master, or the node to which the last reply redirected it
// with ASK.
func (c *cluster) node(
	ctx context.Context, cmd *command,
) (node *goredis.Client, asking bool, err error) {
	if c.multi == nil {
		return c.single, false, nil
	}
	if address, ask := goredis.IsAskError(cmd.err); ask {
		_ = c.each(ctx, true, func(_ context.Context, n *goredis.Client) error {
			if n.Options().Addr == address {
				node = n
			}
			return nil
		})
		if node != nil {
			return node, true, nil
		}
	}
	node, err = c.multi.MasterForKey(ctx, cmd.key)
	return node, false, err
}

// send sends the commands of one node in one pipeline, and sets the error of each command.
func (c *cluster) send(
	ctx context.Context, node *goredis.Client, commands []*command, durable, asking bool,
) {
	var writes []*command // WAIT covers them
	for _, cmd := range commands {
		if cmd.verb == say {
			writes = append(writes, cmd)
		}
	}
	all := commands
	if durable && len(writes) == 0 { // an amend or a create may find nothing to do
		writes = []*command{newCommand(barrier, c.scratchKey(commands))}
		all = append(slices.Clone(commands), writes...)
	}
	pipe, replies := node.Pipeline(), make([][]*goredis.Cmd, len(all))
	for i, cmd := range all {
		replies[i] = cmd.queue(ctx, pipe, asking)
	}
	var waited *goredis.Cmd
	if durable {
		waited = pipe.Do(ctx, "WAIT", c.replicas, waitTime.Milliseconds())
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, cmd := range all {
		cmd.take(replies[i])
	}
	if !durable {
		return
	}
	n, err := waited.Int()
	if err == nil && n < c.replicas {
		err = fmt.Errorf("%w: %d of %d replicas of %s have answered", errReplicas, n, c.replicas,
			node.Options().Addr)
	}
	if !slices.ContainsFunc(writes, func(cmd *command) bool { return cmd.err == nil }) {
		// If the slot of the write moves, the other commands may have read a node without the data.
		if err = writes[0].err; passes(err) {
			err = fmt.Errorf("%w: the write to wait for failed: %v", errReplicas, err)
		}
	}
	for _, cmd := range commands {
		if cmd.err == nil {
			cmd.err = err
		}
	}
}

var errReplicas = errors.New("WAIT")

// scratchKey returns a key in the slot of one of the commands. It chooses the command at random,
// since a moving slot can refuse the key, and the next attempt should use another slot.
func (c *cluster) scratchKey(commands []*command) string {
	return string(c.name) + ":w{" + commands[rand.IntN(len(commands))].key + "}"
}

// passes reports whether an error is temporary, as the errors of a failover, a moving slot or a
// slow network are. An error reply of Redis is temporary only if it begins with one of the listed
// words.
func passes(err error) bool {
	var said goredis.Error
	if errors.Is(err, goredis.ErrClosed) {
		return false
	}
	return errors.Is(err, errReplicas) || !errors.As(err, &said) || slices.ContainsFunc([]string{
		"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN",
		"NOREPLICAS", "BUSY", "UNBLOCKED", "max number of clients",
	}, func(prefix string) bool { return goredis.HasErrorPrefix(err, prefix) })
}

// explain adds the cause and the remedy to an error that is not temporary.
func (c *command) explain() error {
	switch {
	case goredis.HasErrorPrefix(c.err, "OOM"):
		return fmt.Errorf("%w: %w; nothing was stored: raise maxmemory, add nodes, or Delete and "+
			"Sweep", ErrFull, c.err)
	case goredis.HasErrorPrefix(c.err, "WRONGTYPE"):
		return fmt.Errorf("%w: key %q has a value of another type: %w", index.ErrNotIndex, c.key,
			c.err)
	default:
		return fmt.Errorf("redis: %w", c.err)
	}
}
