package server

import (
	"context"
	"sync"

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
	g := &gatherer{index: x, queue: make(chan *job), batches: semaphore.NewWeighted(batching)}
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
	verdicts, err := g.index.CheckDocuments(context.Background(), docs)
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
