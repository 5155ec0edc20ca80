package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
)

func refused(t *testing.T, client goredis.UniversalClient, o Options, want error, says string) {
	t.Helper()
	if o.Name == "" {
		o.Name = "n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := Open(ctx, client, o)
	if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
		t.Errorf("Open(%+v): %v; want %v and %q", o, err, want, says)
	}
}

func TestOpenRefusesOtherOptions(t *testing.T) {
	client := sharedCluster(t).client(t)
	ctx := t.Context()
	name := fmt.Sprint("refused", time.Now().UnixNano())
	x, err := Open(ctx, client, Options{Name: name})
	must(t, err)
	if x.plan.MaxDistance != check.DefaultMaxDistance ||
		x.analyzer != check.DefaultSigner().Name() {
		t.Errorf("a new index has k = %d, analyzer %q", x.plan.MaxDistance, x.analyzer)
	}
	refused(t, client, Options{Name: name, MaxDistance: 3}, index.ErrMismatch, "k = 7, not 3")
	probing, err := plan.Named("2", 3)
	must(t, err)
	refused(t, client, Options{Name: name, MaxLengthRatio: 0.5}, match.ErrRatio, "")
	refused(t, client, Options{Name: "a{b}"}, nil, "letters")

	for suffix, c := range map[string]struct {
		value string
		want  error
	}{
		"a": {"something", index.ErrNotIndex}, "b": {"neardup-redis 1\nk=0 0-63/64\n",
			index.ErrVersion}, "c": {"neardup-redis 3\nk=9\n4\n", index.ErrCorrupt},
		"d": {"neardup-redis 3\nk=0 0-63/64\n4\nother", index.ErrMismatch},
		"e": {"neardup-redis 3\n" + probing.String() + "\n4\n", index.ErrCorrupt},
		"f": {"neardup-redis 3\nk=0 0-63/64\n25\n", index.ErrCorrupt},
		"g": {"neardup-redis 3\nk=0 0-63/64", index.ErrCorrupt},
	} {
		must(t, client.Set(ctx, name+suffix+":m", c.value, 0).Err())
		refused(t, client, Options{Name: name + suffix}, c.want, "")
	}
	must(t, client.HSet(ctx, name+"h:m", "a", "b").Err())
	refused(t, client, Options{Name: name + "h"}, index.ErrNotIndex, "another type")

	// If the value of a bucket is of another type, no verdict is returned.
	bare, err := Open(ctx, client, Options{Name: name + "k", Bare: true})
	must(t, err)
	d := index.Document{Fingerprint: 5}
	must(t, client.LPush(ctx, bare.placeOf(&d).buckets[0], "a").Err())
	if v, err := checkedOne(ctx, bare, d); !errors.Is(err, index.ErrNotIndex) {
		t.Errorf("a bucket of another type: %v, %v", v, err)
	}
	if _, err := bare.Check(ctx, neardup.Page{Body: []byte("words")}); !errors.Is(err,
		index.ErrMismatch) {
		t.Errorf("a page in a bare index: %v", err)
	}
	must(t, x.Close())
	if _, err := checkedOne(ctx, x, d); !errors.Is(err, index.ErrClosed) {
		t.Errorf("a closed index: %v", err)
	}
}

func TestOpenRefusesRedisThatMayLoseDocuments(t *testing.T) {
	single := func(settings ...string) *server { return startServer(t, t.TempDir(), settings...) }
	refused(t, single("--appendonly", "no").client, Options{}, ErrUnsafe, "no AOF")
	evicts := single("--appendonly", "yes", "--maxmemory", "50mb",
		"--maxmemory-policy", "allkeys-lru")
	refused(t, evicts.client, Options{}, ErrUnsafe, "allkeys-lru")
	refused(t, single("--appendonly", "yes").client, Options{Replicas: 1}, ErrUnsafe,
		"has 0 replicas")

	locked := single("--appendonly", "yes", "--requirepass", "secret")
	refused(t, goredis.NewClient(&goredis.Options{Addr: locked.address, Password: "wrong"}),
		Options{}, nil, "WRONGPASS")
	refused(t, locked.client, Options{}, nil, "NOAUTH")

	node := single("--appendonly", "yes", "--cluster-enabled", "yes")
	refused(t, node.client, Options{}, nil, "NewClusterClient")
	refused(t, goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{node.address}}),
		Options{}, nil, "no nodes")
	must(t, node.client.ClusterAddSlotsRange(t.Context(), 0, 100).Err())
	refused(t, goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{node.address}}),
		Options{}, ErrUnavailable, "101 of 16384")
	refused(t, goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{evicts.address}}),
		Options{}, nil, "cluster support disabled")
	refused(t, goredis.NewRing(&goredis.RingOptions{}), Options{}, nil, "cannot be used")
}

// TestSingleServerAndFullMemory tests a single server, which must report its missing settings. If
// its memory is full, calls must fail without leaving part of a document. Deletions and sweeps
// must free memory.
func TestSingleServerAndFullMemory(t *testing.T) {
	s := startServer(t, t.TempDir(), "--appendonly", "yes", "--maxmemory", "20mb")
	ctx := t.Context()
	x, err := Open(ctx, s.client, Options{Name: "n", Bare: true})
	must(t, err)
	stats, err := x.Stats(ctx)
	must(t, err)
	if len(stats.Lacks) != 2 || stats.Masters != 1 || stats.UsedBytes == 0 ||
		stats.MaxDistance != 3 {
		t.Errorf("Stats: %+v", stats)
	}
	r := rand.New(rand.NewPCG(1, 1))
	var stored []string
	for err == nil {
		docs := make([]index.Document, window)
		for i := range docs {
			docs[i] = index.Document{Key: fmt.Sprintf("https://example.org/%d", len(stored)+i),
				Fingerprint: fingerprint.Fingerprint(r.Uint64())}
		}
		var verdicts []index.Verdict
		verdicts, err = x.checkAndAdd(ctx, docs)
		for i := range verdicts {
			stored = append(stored, docs[i].Key)
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("with memory used up: %v", err)
	}
	t.Logf("full after %d documents: %v", len(stored), err)
	for _, key := range []string{stored[0], stored[len(stored)-1]} {
		if _, found, err := x.Get(ctx, key); err != nil || !found {
			t.Errorf("document %s, which was acknowledged: %t, %v", key, found, err)
		}
	}
	n, err := x.Delete(ctx, stored[:len(stored)/2]...)
	if err != nil || n != len(stored)/2 {
		t.Fatalf("Delete: %d, %v", n, err)
	}
	x.grace = 0
	swept, err := x.Sweep(ctx)
	if err != nil || swept.Documents < n {
		t.Fatalf("Sweep: %+v, %v", swept, err)
	}
	if v, err := checkedOne(ctx, x, index.Document{Key: "new", Fingerprint: 1}); err != nil ||
		v.Status != index.New {
		t.Errorf("after the sweep: %v, %v", v, err)
	}
}

// TestCallsReportUnavailableNode tests that a node that dies during a sweep or Stats is
// reported as unavailable, not as damaged.
func TestCallsReportUnavailableNode(t *testing.T) {
	s := startServer(t, t.TempDir(), "--appendonly", "yes")
	x, err := Open(t.Context(), s.client, Options{Name: "n", Bare: true})
	must(t, err)
	s.kill()
	if err := x.eachLog(t.Context(), func([]*groupLog) error { return nil }); !errors.Is(err,
		ErrUnavailable) {
		t.Errorf("a scan: %v", err)
	}
	if _, err := x.Stats(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Stats: %v", err)
	}
	refused(t, s.client, Options{}, ErrUnavailable, s.address)
}

// TestFullMemoryAndLostReplica tests that deletions and sweeps continue if memory is full, also
// with replicas. Without the replica, no call succeeds.
func TestFullMemoryAndLostReplica(t *testing.T) {
	s := startServer(t, t.TempDir(), "--appendonly", "yes")
	host, port, _ := strings.Cut(s.address, ":")
	replica := startServer(t, t.TempDir(), "--appendonly", "yes", "--replicaof", host+" "+port)
	ctx := t.Context()
	waitFor(t, "the replica", func() bool {
		return strings.Contains(s.client.Info(ctx, "replication").Val(), "state=online")
	})
	x, err := Open(ctx, s.client, Options{Name: "n", Bare: true, Replicas: 1,
		Patience: 5 * time.Second})
	must(t, err)
	if _, err := checkedOne(ctx, x, index.Document{Key: "a", Fingerprint: 7}); err != nil {
		t.Fatal(err)
	}
	pending := newCommand(say, x.placeOf(&index.Document{Fingerprint: 7}).buckets[0],
		entryOf(&x.plan.Tables[0], 7, id{1, 7}))
	must(t, x.run(ctx, true, []*command{pending}))
	must(t, s.client.ConfigSet(ctx, "maxmemory", "100kb").Err())
	if _, err := checkedOne(ctx, x, index.Document{Key: "b", Fingerprint: 1 << 40}); !errors.Is(err,
		ErrFull) {
		t.Errorf("with memory used up: %v", err)
	}
	if _, found, err := x.Get(ctx, "a"); err != nil || !found {
		t.Errorf("Get: %t, %v", found, err)
	}
	x.grace = 0
	if swept, err := x.Sweep(ctx); err != nil || swept.Buckets == 0 {
		t.Errorf("Sweep with an uncommitted document: %+v, %v", swept, err)
	}
	if n, err := x.Delete(ctx, "a"); err != nil || n != 1 {
		t.Errorf("Delete: %d, %v", n, err)
	}
	if swept, err := x.Sweep(ctx); err != nil || swept.Documents == 0 {
		t.Errorf("Sweep: %+v, %v", swept, err)
	}

	// Without the replica, neither writes nor reads are confirmed.
	replica.kill()
	must(t, s.client.ConfigSet(ctx, "maxmemory", "0").Err())
	x.cluster.patience = 0
	y, err := Open(ctx, s.client, Options{Name: "n", Bare: true, Replicas: LoseAtFailover})
	must(t, err)
	if v, err := checkedOne(ctx, y, index.Document{Key: "c", Fingerprint: 1 << 20}); err != nil ||
		v.Status != index.New {
		t.Errorf("a check that waits for no replica: %v, %v", v, err)
	}
	if v, err := checkedOne(ctx, x, index.Document{Key: "b", Fingerprint: 1 << 40}); !errors.Is(err,
		ErrUnavailable) {
		t.Errorf("a check, without the replica: %v, %v", v, err)
	}
	if _, _, err := x.Get(ctx, "a"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Get, without the replica: %v", err)
	}
}

// TestFakeIsRedis tests that the fake, the store of the model check, behaves like Redis.
func TestFakeIsRedis(t *testing.T) {
	x := openShared(t, Options{Bare: true})
	f := &fake{keys: map[string]string{}}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	some := func() string { return "abab"[:1+r.IntN(4)] } // never empty, as in the protocol
	for range 3000 {
		key := x.name.group(uint32(r.IntN(3)))
		all := []*command{
			newCommand(get, key), newCommand(say, key, some()), newCommand(create, key, some()+"c"),
			newCommand(amend, key, some(), some(), some()),
			newCommand(amend, key, f.keys[key], "", ""),
		}
		c := all[r.IntN(len(all))]
		must(t, x.run(t.Context(), false, []*command{c}))
		if want := f.do(c); c.value != want {
			t.Fatalf("%d %q %q: %q, the fake says %q", c.verb, c.key, c.args, c.value, want)
		}
	}
}
