package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// nodes is what Redis is like.
type nodes struct {
	client   goredis.UniversalClient
	cluster  bool
	replicas int // that are waited for
	lacks    []string
}

// each calls f for every node, one at a time.
func (n *nodes) each(ctx context.Context, masters bool, f func(ctx context.Context, node *goredis.Client) error) error {
	multi, ok := n.client.(*goredis.ClusterClient)
	if !ok {
		return f(ctx, n.client.(*goredis.Client))
	}
	var mu sync.Mutex
	one := func(ctx context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		return f(ctx, node)
	}
	if masters {
		return multi.ForEachMaster(ctx, one)
	}
	return multi.ForEachShard(ctx, one)
}

// inspect refuses a Redis that cannot keep what the package promises.
func inspect(ctx context.Context, client goredis.UniversalClient, o *Options) (*nodes, error) {
	n := &nodes{client: client, replicas: max(o.Replicas, 0)}
	switch client.(type) {
	case *goredis.ClusterClient:
		n.cluster = true
	case *goredis.Client:
	default:
		return nil, fmt.Errorf("a %T cannot be used: give a *redis.ClusterClient or a *redis.Client", client)
	}
	if o.Replicas == 0 && n.cluster {
		n.replicas = 1
	}
	if err := n.coverage(ctx); err != nil {
		return nil, err
	}
	if err := n.each(ctx, false, func(ctx context.Context, node *goredis.Client) error { return n.look(ctx, node, o) }); err != nil {
		return nil, err
	}
	if !n.cluster {
		n.lacks = append(n.lacks, "it is one server: when it is away, so is the index")
	}
	if n.replicas == 0 {
		n.lacks = append(n.lacks, "no replica is waited for: a failover loses what was answered just before it, and near-duplicates can both be New")
	}
	if o.NoRestart {
		n.lacks = append(n.lacks, "AOF is not asked for: a master that is restarted empty empties the index")
	}
	return n, nil
}

// coverage refuses a cluster of whose slots some have no node.
func (n *nodes) coverage(ctx context.Context) error {
	text, err := n.client.ClusterInfo(ctx).Result()
	off := err != nil && strings.Contains(err.Error(), "cluster support disabled")
	switch {
	case n.cluster && off:
		return fmt.Errorf("this is no cluster: open it with redis.NewClient")
	case !n.cluster && off:
		return nil
	case !n.cluster && goredis.HasErrorPrefix(err, "ERR"): // of a server that knows no clusters
		return nil
	case err != nil:
		return err
	case !n.cluster:
		return fmt.Errorf("this is a node of a cluster: open it with redis.NewClusterClient")
	}
	info := fields(text)
	if info["cluster_state"] != "ok" || info["cluster_slots_assigned"] != "16384" {
		return fmt.Errorf("%w: cluster state is %q, %s of 16384 slots have a node, %s are served: see redis-cli --cluster check",
			ErrUnavailable, info["cluster_state"], info["cluster_slots_assigned"], info["cluster_slots_ok"])
	}
	return nil
}

// look refuses a node that may drop or lose keys.
func (n *nodes) look(ctx context.Context, node *goredis.Client, o *Options) error {
	text, err := node.Info(ctx).Result()
	address := node.Options().Addr
	if err != nil {
		return fmt.Errorf("%w: INFO of node %s: %w", ErrUnavailable, address, err)
	}
	info := fields(text)
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		return fmt.Errorf("%w: maxmemory-policy of %s is %q, which drops keys: set noeviction", ErrUnsafe, address, policy)
	}
	if info["aof_enabled"] != "1" && !o.NoRestart {
		return fmt.Errorf("%w: %s has no AOF: a master that is restarted before its replica takes over comes back empty. Set appendonly yes, or NoRestart if nothing restarts nodes by itself", ErrUnsafe, address)
	}
	if info["role"] == "master" {
		if has, _ := strconv.Atoi(info["connected_slaves"]); has < n.replicas {
			return fmt.Errorf("%w: master %s has %d replicas, and %d are to have each write: add some, or set Replicas", ErrUnsafe, address, has, n.replicas)
		}
	}
	return nil
}

// awayIfPasses makes an error ErrUnavailable where the call may be repeated.
func awayIfPasses(node *goredis.Client, err error) error {
	if err == nil || !passes(err) {
		return err
	}
	return fmt.Errorf("%w: node %s: %w", ErrUnavailable, node.Options().Addr, err)
}

// fields reads lines of name:value.
func fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// Stats describe an index and its Redis.
type Stats struct {
	MaxDistance int      `json:"maxDistance"`
	Plan        string   `json:"plan"`
	Tables      int      `json:"tables"`
	Analyzer    string   `json:"analyzer,omitempty"`
	Format      int      `json:"format"`
	Replicas    int      `json:"replicas"` // that are waited for
	Masters     int      `json:"masters"`
	UsedBytes   uint64   `json:"usedBytes"`       // of memory on all masters, by all that is in them
	Lacks       []string `json:"lacks,omitempty"` // what keeps this Redis from what the package promises
}

// Stats asks every master for its memory. How many documents there are is not counted.
func (x *Index) Stats(ctx context.Context) (Stats, error) {
	if err := x.begin(ctx); err != nil {
		return Stats{}, err
	}
	defer x.end()
	s := Stats{MaxDistance: x.plan.MaxDistance, Plan: x.plan.String(), Tables: len(x.plan.Tables), Analyzer: x.analyzer, Format: format, Replicas: x.nodes.replicas, Lacks: x.nodes.lacks}
	err := x.nodes.each(ctx, true, func(ctx context.Context, node *goredis.Client) error {
		text, err := node.Info(ctx, "memory").Result()
		used, _ := strconv.ParseUint(fields(text)["used_memory"], 10, 64)
		s.Masters, s.UsedBytes = s.Masters+1, s.UsedBytes+used
		return awayIfPasses(node, err)
	})
	return s, err
}
