package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// connect returns an error if the guarantees of the package do not hold with the configuration of
// Redis.
func connect(ctx context.Context, client goredis.UniversalClient, o *Options) (*cluster, error) {
	c := &cluster{name: names(o.Name), replicas: max(o.Replicas, 0),
		patience: cmp.Or(max(o.Patience, 0), defaultPatience)}
	switch client := client.(type) {
	case *goredis.ClusterClient:
		if c.multi = client; o.Replicas == 0 {
			c.replicas = 1
		}
	case *goredis.Client:
		c.single = client
		c.lacks = append(c.lacks, "it is one server: if it fails, the index is not available")
	default:
		return nil, fmt.Errorf(
			"a %T cannot be used: pass a *redis.ClusterClient or a *redis.Client", client)
	}
	if c.replicas == 0 {
		c.lacks = append(c.lacks, "writes wait for no replica: a failover loses the latest "+
			"documents, and two near-duplicates can both be New")
	}
	if o.NoRestart {
		c.lacks = append(c.lacks,
			"AOF is not required: if a master is restarted empty, the index loses its documents")
	}
	if err := c.coverage(ctx); err != nil {
		return nil, err
	}
	return c,
		c.each(ctx, false, func(ctx context.Context, node *goredis.Client) error {
			return c.look(ctx, node, o)
		})
}

// coverage returns an error if a slot of the cluster has no node.
func (c *cluster) coverage(ctx context.Context) error {
	if c.multi == nil {
		return nil
	}
	text, err := c.multi.ClusterInfo(ctx).Result()
	switch info := fields(text); {
	case err != nil:
		return away("the cluster", err)
	case info["cluster_state"] != "ok" || info["cluster_slots_assigned"] != "16384":
		return fmt.Errorf("%w: cluster state is %q, %s of 16384 slots have a node, %s are "+
			"served: see redis-cli --cluster check",
			ErrUnavailable, info["cluster_state"], info["cluster_slots_assigned"],
			info["cluster_slots_ok"])
	}
	return nil
}

// look returns an error if a node can evict or lose keys.
func (c *cluster) look(ctx context.Context, node *goredis.Client, o *Options) error {
	text, err := node.Info(ctx).Result()
	address, info := node.Options().Addr, fields(text)
	if err != nil {
		return away(address, err)
	}
	if c.single != nil && info["cluster_enabled"] == "1" {
		return errors.New("this is a node of a cluster: open it with redis.NewClusterClient")
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		return fmt.Errorf("%w: maxmemory-policy of %s is %q, which evicts keys: set noeviction",
			ErrUnsafe, address, policy)
	}
	if info["aof_enabled"] != "1" && !o.NoRestart {
		return fmt.Errorf("%w: %s has no AOF, so a master that is restarted before its replica "+
			"takes over is empty: set appendonly yes, or NoRestart if no supervisor restarts nodes",
			ErrUnsafe, address)
	}
	if has, _ := strconv.Atoi(info["connected_slaves"]); info["role"] == "master" &&
		has < c.replicas {
		return fmt.Errorf("%w: master %s has %d replicas, but Replicas is %d: add replicas, or "+
			"set Replicas", ErrUnsafe, address, has, c.replicas)
	}
	return nil
}

// each calls f for every node, one at a time.
func (c *cluster) each(
	ctx context.Context, masters bool, f func(ctx context.Context, node *goredis.Client) error,
) error {
	if c.multi == nil {
		return f(ctx, c.single)
	}
	var mu sync.Mutex
	one := func(ctx context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		return f(ctx, node)
	}
	if masters {
		return c.multi.ForEachMaster(ctx, one)
	}
	return c.multi.ForEachShard(ctx, one)
}

// scanCount is the number of keys that Redis examines per step of a scan.
const scanCount = 1000

// scan calls f with the keys of all masters that begin with the name of the index and the prefix.
// It can pass a key twice, and can miss a key that moves during the scan.
func (c *cluster) scan(ctx context.Context, prefix string, f func(keys []string) error) error {
	return c.each(ctx, true, func(ctx context.Context, node *goredis.Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, string(c.name)+prefix+"*", scanCount).Result()
			if err != nil {
				return away(node.Options().Addr, err)
			}
			if len(keys) > 0 {
				err = f(keys)
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	})
}

// away wraps a temporary error of a node in ErrUnavailable.
func away(node string, err error) error {
	if err == nil || !passes(err) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, node, err)
}

// fields parses lines of the form name:value.
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
	MaxDistance int    `json:"maxDistance"`
	Plan        string `json:"plan"`
	Tables      int    `json:"tables"`
	Analyzer    string `json:"analyzer,omitempty"`
	Format      int    `json:"format"`
	Replicas    int    `json:"replicas"` // the number of replicas that must confirm a write
	Masters     int    `json:"masters"`
	// memory of all masters, including keys of other applications
	UsedBytes uint64   `json:"usedBytes"`
	Lacks     []string `json:"lacks,omitempty"` // guarantees that do not hold, and why
}

// Stats returns the properties of the index and asks every master for its memory. It does not count
// documents.
func (x *Index) Stats(ctx context.Context) (Stats, error) {
	if err := x.begin(ctx); err != nil {
		return Stats{}, err
	}
	defer x.end()
	c := x.cluster
	s := Stats{MaxDistance: x.plan.MaxDistance, Plan: x.plan.String(), Tables: len(x.plan.Tables),
		Analyzer: x.analyzer, Format: format, Replicas: c.replicas, Lacks: c.lacks}
	err := c.each(ctx, true, func(ctx context.Context, node *goredis.Client) error {
		text, err := node.Info(ctx, "memory").Result()
		used, _ := strconv.ParseUint(fields(text)["used_memory"], 10, 64)
		s.Masters, s.UsedBytes = s.Masters+1, s.UsedBytes+used
		return away(node.Options().Addr, err)
	})
	return s, err
}
