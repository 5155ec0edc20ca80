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

// chaos is a run of many clients against a cluster that is being hurt.
type chaos struct {
	t       *testing.T
	c       *servers
	o       Options
	clients int
	cliques [][]index.Document // of near-duplicates, which match each other and nothing else

	redis *goredis.ClusterClient

	mu       sync.Mutex
	verdicts map[string]index.Verdict // that were acknowledged, by key
	failed   atomic.Int64
	deaths   atomic.Int64
}

// dying is a runner whose process dies at a command: that one and those behind it are never sent.
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

// cliquesOf makes documents in cliques; bits of one byte of a random fingerprint tell the members apart, three at most.
func cliquesOf(r *rand.Rand, documents, size int) (cliques [][]index.Document) {
	for n := 0; n < documents; n += size {
		center := r.Uint64()
		clique := make([]index.Document, size)
		for i := range clique {
			fp := center ^ 1<<r.IntN(64) // within 2 of each other
			clique[i] = index.Document{Key: fmt.Sprintf("https://example.org/%d/%d", n/size, i), Fingerprint: fingerprint.Fingerprint(fp)}
		}
		cliques = append(cliques, clique)
	}
	return cliques
}

// work lets clients check all documents, each in batches of its own, in an order of its own, and all over again until that is
// enough. One of dieEvery batches is cut short by the death of its client, at each command in turn; its documents are checked again later.
func (h *chaos) work(r *rand.Rand, dieEvery int, enough func() bool) {
	var docs []index.Document
	for _, clique := range h.cliques {
		docs = append(docs, clique...)
	}
	h.verdicts = make(map[string]index.Verdict, len(docs))
	// neighbours are of one clique, and go to different clients at about the same time
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
				verdicts = nil // nobody heard of them
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

// stored are the documents that are there, by key.
func (h *chaos) stored() map[string]index.Document {
	docs := make(map[string]index.Document)
	must(h.t, h.open().eachLog(context.Background(), func(logs []*groupLog) error {
		for _, l := range logs {
			for key, s := range l.byKey {
				if d, twice := docs[key]; twice && d.ID != s.doc.ID { // a scan may come by twice
					h.t.Errorf("two documents have the key %s", key)
				}
				docs[key] = s.doc
			}
		}
		return nil
	}))
	return docs
}

// verify holds the end to what was promised.
func (h *chaos) verify() {
	h.t.Helper()
	alive, cliques := h.stored(), [3]int{} // with no document that is stored, with one, with several
	for _, clique := range h.cliques {
		n := 0
		for _, d := range clique {
			if _, there := alive[d.Key]; there {
				n++
			}
		}
		cliques[min(n, 2)]++
	}
	h.t.Logf("%d documents in %d cliques: %d with one, %d with none, %d with several; %d calls failed, %d clients died, %d masters were killed, %d slots moved",
		len(h.verdicts), len(h.cliques), cliques[1], cliques[0], cliques[2], h.failed.Load(), h.deaths.Load(), h.c.killed, h.c.moved.Load())
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
		h.t.Errorf("%d of %d verdicts rest on documents that are not there", lost, len(h.verdicts))
	}
}

// rounds says how long a test is: short by default, all that is promised with NEARDUP_LONG.
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

// hurt moves slots until work is done, with harm now and then, and heals all at the end. Work may go on until
// so many slots have moved.
func hurt(t *testing.T, c *servers, r *rand.Rand, moves int64, work func(moved func() bool), harms ...func(*rand.Rand)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(func() bool { return c.moved.Load() >= moves })
	}()
	for working := true; working; {
		c.healthy(t) // a master that dies while it gives a slot away may take it with it
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

// master is one that serves slots.
func (c *servers) master(r *rand.Rand) *server {
	for _, i := range r.Perm(len(c.all)) {
		if len(c.all[i].slots(context.Background())) > 0 {
			return c.all[i]
		}
	}
	return nil
}

// killMaster kills one with -9 and starts it again once its replica has taken over.
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

// pause stops a node for a while, master or replica, so that it comes back with what it held.
func (c *servers) pause(*testing.T) func(*rand.Rand) {
	return func(r *rand.Rand) {
		s := c.all[r.IntN(len(c.all))]
		_ = s.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(rand.N(3 * c.nodeTimeout))
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
	}
}

// cutReplica lets a replica lose its master for a while.
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

// moveSlots moves some from a master to another, keys and all, and returns when all nodes know of it: a master that
// dies or gives away others before takes them with it.
func (c *servers) moveSlots(t *testing.T, r *rand.Rand) {
	from, to, n := c.master(r), c.master(r), 1+r.IntN(10)
	if from == to || from == nil || to == nil {
		return
	}
	waitFor(t, "slots to move", func() bool {
		err := cli("reshard", from.address, "--cluster-from", from.id, "--cluster-to", to.id, "--cluster-slots", fmt.Sprint(n), "--cluster-yes",
			"--cluster-replace") // a replica that became the master may have old keys of a slot that was given away before
		if err != nil {
			t.Log(err, cli("fix", from.address)) // a busy machine may take a node for dead
		}
		return err == nil
	})
	c.moved.Add(int64(n))
	c.healthy(t)
}

func TestManyClientsWhileTheClusterIsHurt(t *testing.T) {
	for _, seed := range seeds(rounds(1, 10)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := startCluster(t, t.TempDir(), 3, 1, time.Duration(rounds(500, 2000))*time.Millisecond)
			h := &chaos{t: t, c: c, clients: 64, cliques: cliquesOf(r, rounds(8_000, 100_000), 4),
				o: Options{Name: "chaos", Bare: true, MaxDistance: 3, Lease: 300 * time.Millisecond, Patience: time.Minute}}
			moves := int64(rounds(50, 1000))
			hurt(t, c, r, moves, func(moved func() bool) { h.work(r, 20, moved) }, c.killMaster(t), c.killMaster(t), c.pause(t), c.cutReplica(t))
			h.verify()
		})
	}
}

// Recrawls that swap contents, deletions and sweeps, while masters die: at the end no two match, and after every page was
// crawled once more each content is there.
func TestRecrawlsWhileTheClusterIsHurt(t *testing.T) {
	for _, seed := range seeds(rounds(1, 10)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			c := startCluster(t, t.TempDir(), 3, 1, time.Duration(rounds(500, 2000))*time.Millisecond)
			h := &chaos{t: t, c: c, o: Options{Name: "recrawls", Bare: true, MaxDistance: 3, Lease: 300 * time.Millisecond, Patience: time.Minute}}
			contents, sites := make([]fingerprint.Fingerprint, 40), rounds(30, 100)
			for i := range contents {
				contents[i] = fingerprint.Fingerprint(r.Uint64())
			}
			key := func(site, n int) string { return fmt.Sprintf("https://%d.example.org/%d", site, n) }
			// crawl visits the pages of each site, whose contents rotate: every visit finds what another page had
			crawl := func(visits int, others bool) {
				var wg sync.WaitGroup
				for site := range sites {
					rng, x := rand.New(rand.NewPCG(r.Uint64(), uint64(site))), h.open()
					x.grace, x.longLog = 3*time.Second, 500 // so that logs are rewritten all the time
					wg.Go(func() {
						scope := fmt.Sprint(site / 3) // three clients to a scope
						for visit := range visits {
							n := rng.IntN(len(contents))
							d := index.Document{Key: key(site/3, n), Scope: scope, Fingerprint: contents[(n+visit)%len(contents)] ^ fingerprint.Fingerprint(1<<rng.IntN(64))}
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
			hurt(t, c, r, 0, func(func() bool) { crawl(rounds(150, 2000), true) }, c.killMaster(t), c.pause(t))
			t.Logf("%d masters were killed, %d slots moved", c.killed, c.moved.Load())
			h.noTwoMatch()
			x := h.open()
			for site := range (sites + 2) / 3 {
				for n := range contents {
					d := index.Document{Key: key(site, n), Scope: fmt.Sprint(site), Fingerprint: contents[n]}
					v, err := checkedOne(t.Context(), x, d)
					must(t, err)
					if matches, err := x.Query(t.Context(), index.Query{Signature: d.Signature(), Scope: d.Scope}); err != nil || len(matches) == 0 {
						t.Fatalf("%v was said of %s, and nothing is stored that is like it: %v", v, d.Key, err)
					}
				}
			}
			h.noTwoMatch()
		})
	}
}

// noTwoMatch holds what is stored to what it never may be.
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
