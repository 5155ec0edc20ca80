package server

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"golang.org/x/sync/semaphore"
)

// gatherer puts the documents of many calls into few commits. It waits for nothing: a call that comes alone
// is begun at once, and those that come while commits are under way make up the next one. A call that is a batch is one.
type gatherer struct {
	index   *neardup.Index
	queue   chan *job // it holds no more than there may be calls under way
	workers sync.WaitGroup
	batches *semaphore.Weighted

	process string // of the processes that have served the index, this one
	first   uint64 // the next ID when it began

	mu      sync.Mutex
	next    uint64 // ID, when it was sampled
	sampled time.Time
	durable uint64 // an earlier next, of which all below is stored for good
}

// job is the documents of a call, in their order.
type job struct {
	docs     []index.Document
	verdicts []neardup.Verdict // of the first ones; they hold
	err      error             // why there are no more
	done     chan struct{}
}

const (
	// gathered is how many documents make up a commit, as in a batch of the index.
	gathered = 256

	// committing is how many of these are under way: one searches while another waits for the disk.
	committing = 3

	// batching is how many calls that are batches, and how many queries, are in the index: there, each has room for its verdicts or matches.
	batching = 32
)

func newGatherer(x *neardup.Index) *gatherer {
	next := x.Stats().NextID
	g := &gatherer{index: x, queue: make(chan *job), batches: semaphore.NewWeighted(batching), process: strconv.FormatUint(rand.Uint64(), 36), first: next, durable: next}
	for range committing {
		g.workers.Go(g.work)
	}
	return g
}

// check comes to the verdicts on documents. Those that come with an error hold.
func (g *gatherer) check(docs []index.Document) ([]neardup.Verdict, error) {
	j := &job{docs: docs, done: make(chan struct{})}
	if len(docs) >= gathered/2 { // it is a batch; the index has those of many callers share what they wait for
		g.batches.Acquire(context.Background(), 1)
		defer g.batches.Release(1)
		go g.commit([]*job{j}) // a panic in the index ends the process, as in a worker; net/http would go on
	} else {
		g.queue <- j
	}
	<-j.done
	return j.verdicts, j.err
}

func (g *gatherer) close() {
	close(g.queue)
	g.workers.Wait()
}

func (g *gatherer) work() {
	for first := range g.queue {
		jobs, documents := []*job{first}, len(first.docs)
		for documents < gathered {
			select {
			case next, ok := <-g.queue:
				if ok {
					jobs, documents = append(jobs, next), documents+len(next.docs)
					continue
				}
			default:
			}
			break
		}
		g.commit(jobs)
	}
}

// commit checks the documents of jobs together. Where that fails, each job that is not done is tried alone, so
// that no call fails for another one's documents.
func (g *gatherer) commit(jobs []*job) {
	docs := jobs[0].docs
	if len(jobs) > 1 {
		docs = nil
		for _, j := range jobs {
			docs = append(docs, j.docs...)
		}
	}
	next := g.sample()
	verdicts, err := g.index.CheckDocuments(context.Background(), docs)
	if err == nil && slices.ContainsFunc(verdicts, stores) {
		g.mu.Lock()
		g.durable = max(g.durable, next) // what is durable now was written after all that had an ID then
		g.mu.Unlock()
	}
	for _, j := range jobs {
		n := min(len(verdicts), len(j.docs))
		j.verdicts, verdicts = verdicts[:n:n], verdicts[n:]
		if n < len(j.docs) {
			j.err = err
			if len(jobs) > 1 {
				var rest []neardup.Verdict
				rest, j.err = g.index.CheckDocuments(context.Background(), j.docs[n:])
				j.verdicts = append(j.verdicts, rest...)
			}
		}
		close(j.done)
	}
}

// stores reports whether a document was written for a verdict: one that is unchanged is, too.
func stores(v neardup.Verdict) bool { return v.Status != neardup.Duplicate }

// sample returns what the next ID of the index was a tenth of a second ago or later.
func (g *gatherer) sample() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.Sub(g.sampled) > 100*time.Millisecond {
		g.sampled, g.next = now, g.index.Stats().NextID
	}
	return g.next
}

// nextID is what answers tell: an ID that will not be given again even if the machine fails now, for then a page
// that is tried again would be taken for one that was there before; and which process says so.
func (g *gatherer) nextID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strconv.FormatUint(g.durable, 10) + "." + g.process
}

// since is from which ID on documents are newer than what nextID said. Where another process said more than this one
// began with, the index was put back, and any ID may have been given since.
func (g *gatherer) since(said string) (id uint64, ok bool) {
	number, process, _ := strings.Cut(said, ".")
	id, err := strconv.ParseUint(number, 10, 64)
	if process != g.process && id > g.first {
		id = 0
	}
	return id, err == nil
}
