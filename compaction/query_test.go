package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// exactness returns steps that load, add and remove n documents of all data sets, compact the index
// under the next plan, and add and remove more. Queries follow each of these steps.
func exactness(r *rand.Rand, n, most int, plans ...*plan.Plan) (steps []step) {
	d := &drawer{source: r}
	keyed, fps := 0, []uint64(nil) // of all documents so far
	draw := func(n int) []index.Document {
		var all []uint64
		for _, set := range testgen.Sets(r, n) {
			all = append(all, set.Fingerprints...)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		fps = append(fps, all[:n]...)
		docs := bare(all[:n])
		for i := range docs {
			if r.IntN(3) == 0 {
				docs[i].Key, docs[i].Scope = fmt.Sprint("page ", keyed), pick(r, "", "", "a")
				docs[i].Shingles = fingerprint.ShingleSignature{2: uint64(r.IntN(3))}
				keyed++
			}
		}
		return docs
	}
	opts := d.open().open
	opts.MaxShingleDistance, opts.Durability = 1, index.NoSync
	if max(plans[0].Probes(), plans[1].Probes()) > manyProbes && !testenv.Long() {
		opts.FilterBytes, opts.CacheBytes = 0, 0
	}
	work := compaction.Options{MemoryBytes: 1, FilterBytes: pick[int64](r, 0, -1, 1000, 1<<16)}
	made := opts
	made.Plan, work.Plan = plans[0], plans[1]
	steps = []step{{what: "load", docs: draw(n * 3 / 4), open: made, work: work}}
	for i, p := range plans {
		if i > 0 {
			steps = append(steps, step{what: "compact", work: work})
		}
		session := []step{{what: "add", docs: draw(n / 4)}, {what: "delete"}}
		for key := range keyed {
			if r.IntN(2) == 0 {
				session[1].keys = append(session[1].keys, fmt.Sprint("page ", key))
			}
		}
		queries := bare(testgen.Queries(r, fps, max(1, min(most, 4*manyProbes/p.Probes())),
			p.MaxDistance))
		scoped, similar := slices.Clone(queries), slices.Clone(queries)
		scoped[0].Scope, similar[0].Shingles = "a", fingerprint.ShingleSignature{2: 1}
		for _, method := range []string{oneByOne, "each", "scanned", ""} {
			q := step{what: "query", method: method, k: p.MaxDistance, docs: queries}
			limited, in, like, none := q, q, q, q
			limited.k, limited.limit = r.IntN(p.MaxDistance+1), 1+r.IntN(2)
			in.docs, like.docs = scoped[:1+len(queries)/4], similar[:1+len(queries)/4]
			none.docs = nil
			session = append(session, q, limited, in, like, none)
		}
		steps = append(steps, opened(opts, session...)...)
	}
	return steps
}

// TestQueryIsExact compares designs for every k up to 10 with brute force: by default every sixth
// one, in CI every third.
func TestQueryIsExact(t *testing.T) {
	size, tables, every := testenv.Number(400, 400, 400, 10_000), testenv.Number(16, 16, 16, 100),
		uint64(testenv.Number(6, 6, 3, 1))
	if testenv.Race {
		size, tables, every = 300, 4, 24
	}
	s := testenv.Seed(t)
	plans := plansOf(t, 0, 10, func(p *plan.Plan) bool { return len(p.Tables) <= tables })
	for i, p := range plans {
		if uint64(i)%every != s%every {
			continue
		}
		t.Run(fmt.Sprintf("k=%d,tables=%d,%d", p.MaxDistance, len(p.Tables), i),
			func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(s, uint64(i)))
				newHistory(vfs.NewMem()).must(t, exactness(r, max(300, size*3/(2+len(p.Tables))),
					testenv.Number(20, 40, 60, 100), p, plans[r.IntN(len(plans))])...)
			})
	}
}
