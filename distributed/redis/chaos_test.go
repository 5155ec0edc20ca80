package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// chaos is a run of many clients against a cluster with faults.
type chaos struct {
	t       *testing.T
	c       *servers
	o       Options
	clients int
	cliques [][]index.Document // groups of documents that match each other and no others

	redis *goredis.ClusterClient

	mu       sync.Mutex
	verdicts map[string]index.Verdict // acknowledged verdicts, by key
	failed   atomic.Int64
	deaths   atomic.Int64
}

// dying returns a runner that simulates the death of its process after left commands. Later
// commands are not sent.
func dying(run runner, left int) runner {
	return func(ctx context.Context, durable bool, commands []*command) error {
		if left -= len(commands); left >= 0 {
			return run(ctx, durable, commands)
		}
		if n := len(commands) + left; n > 0 {
			_ = run(ctx, false, commands[:n])
		}
		left = -1 << 40
		return errDied
	}
}

// cliquesOf returns documents in cliques. The members of a clique differ in at most three bits of
// one byte of a random fingerprint.
func cliquesOf(r *rand.Rand, documents, size int) (cliques [][]index.Document) {
	for n := 0; n < documents; n += size {
		center := r.Uint64()
		clique := make([]index.Document, size)
		for i := range clique {
			fp := center ^ 1<<r.IntN(64) // within 2 bits of each other
			clique[i] = index.Document{Key: fmt.Sprintf("https://example.org/%d/%d", n/size, i),
				Fingerprint: fingerprint.Fingerprint(fp)}
		}
		cliques = append(cliques, clique)
	}
	return cliques
}

// work lets each client check its documents repeatedly until enough returns true, in random
// batches. In about one of dieEvery batches, the client dies at one of the commands, and checks
// the documents of this batch again.
func (h *chaos) work(r *rand.Rand, dieEvery int, enough func() bool) {
	var docs []index.Document
	for _, clique := range h.cliques {
		docs = append(docs, clique...)
	}
	h.verdicts = make(map[string]index.Verdict, len(docs))
	// different clients check the documents of a clique at about the same time
	parts := make([][]index.Document, h.clients)
	for i, d := range docs {
		parts[i%h.clients] = append(parts[i%h.clients], d)
	}
	var wg sync.WaitGroup
	for i, part := range parts {
		rng := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		x := h.open()
		wg.Go(func() {
			for again := true; again; again = !h.t.Failed() && !enough() {
				h.client(x, rng, part, dieEvery)
			}
		})
	}
	wg.Wait()
}

func (h *chaos) open() *Index {
	if h.redis == nil {
		h.redis = h.c.client(h.t)
	}
	var x *Index
	var err error
	waitFor(h.t, "Open", func() bool {
		x, err = Open(context.Background(), h.redis, h.o)
		return err == nil
	})
	return x
}

func (h *chaos) client(x *Index, r *rand.Rand, docs []index.Document, dieEvery int) {
	cut := 1
	for len(docs) > 0 {
		batch := docs[:min(len(docs), 1+r.IntN(20))]
		var verdicts []index.Verdict
		var err error
		if dieEvery > 0 && r.IntN(dieEvery) == 0 {
			dead := *newIndex(dying(x.run, cut), &h.o)
			dead.plan, dead.rule, dead.groupBits = x.plan, x.rule, x.groupBits
			cut = 1 + (cut+r.IntN(7))%(12*len(batch))
			if verdicts, err = dead.check(context.Background(), batch); err != nil {
				h.deaths.Add(1)
				verdicts = nil // no client received them
			}
		} else if verdicts, err = x.checkAndAdd(context.Background(), batch); err != nil {
			h.failed.Add(1)
			if !errors.Is(err, ErrUnavailable) {
				h.t.Errorf("a call failed: %v", err)
				return
			}
		}
		h.mu.Lock()
		for i, v := range verdicts {
			h.verdicts[batch[i].Key] = v
		}
		h.mu.Unlock()
		docs = docs[len(verdicts):]
	}
}

// stored returns the stored documents by key.
func (h *chaos) stored() map[string]index.Document {
	docs := make(map[string]index.Document)
	must(h.t, h.open().eachLog(context.Background(), func(logs []*groupLog) error {
		for _, l := range logs {
			for key, s := range l.byKey {
				// a scan may return a document twice
				if d, twice := docs[key]; twice && d.ID != s.doc.ID {
					h.t.Errorf("two documents have the key %s", key)
				}
				docs[key] = s.doc
			}
		}
		return nil
	}))
	return docs
}

// verify compares the final state with the guarantees.
func (h *chaos) verify() {
	h.t.Helper()
	// cliques with no stored document, with one, and with several
	alive, cliques := h.stored(), [3]int{}
	for _, clique := range h.cliques {
		n := 0
		for _, d := range clique {
			if _, there := alive[d.Key]; there {
				n++
			}
		}
		cliques[min(n, 2)]++
	}
	h.t.Logf("%d documents in %d cliques: %d with one, %d with none, %d with several; %d calls "+
		"failed, %d clients died, %d masters were killed, %d slots moved",
		len(h.verdicts), len(h.cliques), cliques[1], cliques[0], cliques[2], h.failed.Load(),
		h.deaths.Load(), h.c.killed, h.c.moved.Load())
	if cliques[1] < len(h.cliques) {
		h.t.Errorf("%d cliques with none, %d with several", cliques[0], cliques[2])
	}
	lost := 0
	for key, v := range h.verdicts {
		if v.Status == index.Duplicate {
			key = v.Of.Key
		}
		if _, there := alive[key]; !there {
			lost++
		}
	}
	if lost > 0 {
		h.t.Errorf("%d of %d verdicts name documents that are not stored", lost, len(h.verdicts))
	}
}

// rounds returns the length of a test: short by default, and long with NEARDUP_LONG.
func rounds(short, long int) int {
	if os.Getenv("NEARDUP_LONG") != "" {
		return long
	}
	return short
}

func seeds(n int) (all []uint64) {
	first := uint64(time.Now().UnixNano())
	for i := range n {
		all = append(all, first+uint64(i))
	}
	return all
}

// hurt moves slots until work is done, and injects faults in between. At the end it repairs the
// cluster. moved reports whether enough slots have moved.
func hurt(
	t *testing.T, c *servers, r *rand.Rand, moves int64, work func(moved func() bool),
	harms ...func(*rand.Rand),
) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(func() bool { return c.moved.Load() >= moves })
	}()
	for working := true; working; {
		c.healthy(t) // a master that dies while it moves a slot may lose the slot
		for moves := r.IntN(10); moves > 0 && working; moves-- {
			c.moveSlots(t, r)
			select {
			case <-done:
				working = false
			default:
			}
		}
		if working {
			harms[r.IntN(len(harms))](r)
		}
	}
	c.healthy(t)
}

// master returns a random node that serves slots.
func (c *servers) master(r *rand.Rand) *server {
	for _, i := range r.Perm(len(c.all)) {
		if len(c.all[i].slots(context.Background())) > 0 {
			return c.all[i]
		}
	}
	return nil
}

// killMaster kills a master with SIGKILL. It starts the master again after its replica has taken
// over.
func (c *servers) killMaster(t *testing.T) func(*rand.Rand) {
	return func(r *rand.Rand) {
		c.healthy(t)
		s := c.master(r)
		s.kill()
		c.killed++
		time.Sleep(rand.N(3 * c.nodeTimeout))
		s.start(t)
		c.healthy(t)
	}
}

// pause stops a master or replica for a while, so that it returns with old data.
func (c *servers) pause(*testing.T) func(*rand.Rand) {
	return func(r *rand.Rand) {
		s := c.all[r.IntN(len(c.all))]
		_ = s.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(rand.N(3 * c.nodeTimeout))
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
	}
}

// cutReplica disconnects a replica from its master for a while.
func (c *servers) cutReplica(t *testing.T) func(*rand.Rand) {
	return func(r *rand.Rand) {
		ctx := context.Background()
		s := c.master(r)
		if s == nil {
			return
		}
		for range 20 {
			s.client.Do(ctx, "CLIENT", "KILL", "TYPE", "replica")
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// moveSlots moves some slots with their keys from one master to another. It returns when all
// nodes know the new owner. A master that died before that, or moved other slots, would lose
// them.
func (c *servers) moveSlots(t *testing.T, r *rand.Rand) {
	from, to, n := c.master(r), c.master(r), 1+r.IntN(10)
	if from == to || from == nil || to == nil {
		return
	}
	waitFor(t, "slots to move", func() bool {
		err := cli("reshard", from.address, "--cluster-from", from.id, "--cluster-to", to.id,
			"--cluster-slots", fmt.Sprint(n), "--cluster-yes",
			"--cluster-replace") // a new master may have old keys of a slot that was moved earlier
		if err != nil {
			t.Log(err, cli("fix", from.address)) // a busy machine may take a live node for dead
		}
		return err == nil
	})
	c.moved.Add(int64(n))
	c.healthy(t)
}

func TestManyClientsDuringFaults(t *testing.T) {
	for _, seed := range seeds(rounds(1, 10)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := startCluster(t, t.TempDir(), 3, 1,
				time.Duration(rounds(500, 2000))*time.Millisecond)
			h := &chaos{t: t, c: c, clients: 64, cliques: cliquesOf(r, rounds(8_000, 100_000), 4),
				o: Options{Name: "chaos", Bare: true, MaxDistance: 3, Lease: 300 * time.Millisecond,
					Patience: time.Minute}}
			moves := int64(rounds(50, 1000))
			hurt(t, c, r, moves, func(moved func() bool) { h.work(r, 20, moved) }, c.killMaster(t),
				c.killMaster(t), c.pause(t), c.cutReplica(t))
			h.verify()
		})
	}
}

// TestRecrawlsDuringFaults runs recrawls that swap contents, deletions and sweeps, while
// masters die. At the end no two documents may match. After every page was crawled once more,
// each content must be stored.
func TestRecrawlsDuringFaults(t *testing.T) {
	for _, seed := range seeds(rounds(1, 10)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			c := startCluster(t, t.TempDir(), 3, 1,
				time.Duration(rounds(500, 2000))*time.Millisecond)
			h := &chaos{t: t, c: c, o: Options{Name: "recrawls", Bare: true, MaxDistance: 3,
				Lease: 300 * time.Millisecond, Patience: time.Minute}}
			contents, sites := make([]fingerprint.Fingerprint, 40), rounds(30, 100)
			for i := range contents {
				contents[i] = fingerprint.Fingerprint(r.Uint64())
			}
			key := func(site, n int) string {
				return fmt.Sprintf("https://%d.example.org/%d", site, n)
			}
			// crawl visits the pages of each site, whose contents rotate, so every visit finds
			// the former content of another page
			crawl := func(visits int, others bool) {
				var wg sync.WaitGroup
				for site := range sites {
					rng, x := rand.New(rand.NewPCG(r.Uint64(), uint64(site))), h.open()
					x.grace, x.longLog = 3*time.Second, 500 // logs are rewritten often
					wg.Go(func() {
						scope := fmt.Sprint(site / 3) // three clients per scope
						for visit := range visits {
							n := rng.IntN(len(contents))
							d := index.Document{Key: key(site/3, n), Scope: scope,
								Fingerprint: contents[(n+
									visit)%len(contents)] ^ fingerprint.Fingerprint(
									1<<rng.IntN(64))}
							var err error
							switch {
							case others && rng.IntN(20) == 0:
								_, err = x.Delete(context.Background(), d.Key)
							case others && rng.IntN(200) == 0:
								_, err = x.Sweep(context.Background())
							default:
								_, err = checkedOne(context.Background(), x, d)
							}
							if err != nil && !errors.Is(err, ErrUnavailable) {
								t.Errorf("a call failed: %v", err)
								return
							}
						}
					})
				}
				wg.Wait()
			}
			hurt(t, c, r, 0, func(func() bool) { crawl(rounds(150, 2000), true) },
				c.killMaster(t), c.pause(t))
			t.Logf("%d masters were killed, %d slots moved", c.killed, c.moved.Load())
			h.noTwoMatch()
			x := h.open()
			for site := range (sites + 2) / 3 {
				for n := range contents {
					d := index.Document{Key: key(site, n), Scope: fmt.Sprint(site),
						Fingerprint: contents[n]}
					v, err := checkedOne(t.Context(), x, d)
					must(t, err)
					if matches, err := x.Query(t.Context(),
						index.Query{Signature: d.Signature(), Scope: d.Scope}); err != nil ||
						len(matches) == 0 {
						t.Fatalf(
							"verdict %v for %s, but no stored document matches: %v", v, d.Key, err)
					}
				}
			}
			h.noTwoMatch()
		})
	}
}

// noTwoMatch fails if two stored documents match.
func (h *chaos) noTwoMatch() {
	docs, rule := h.stored(), h.open().rule
	byScope := make(map[string][]index.Document)
	for _, d := range docs {
		for _, other := range byScope[d.Scope] {
			if rule.Matches(&d, &other) {
				h.t.Errorf("two that match are stored: %+v, %+v", d, other)
			}
		}
		byScope[d.Scope] = append(byScope[d.Scope], d)
	}
	h.t.Logf("%d documents in %d scopes", len(docs), len(byScope))
}
