package compaction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/testgen"
	"github.com/neardup/neardup/internal/testseed"
)

// script is a history without a word on how it is run.
type script struct {
	k     int
	keep  bool // duplicates
	start int64
	acts  []act
}

// act is one thing to be done.
type act struct {
	what string
	docs []index.Document
	keys []string
	hour int64 // of which "expire" removes what came before it
}

// variant is a way to run a script, none of which may matter.
type variant struct {
	t     *testing.T
	r     *rand.Rand
	name  string
	fs    vfs.FS
	plan  *plan.Plan
	s     *script
	x     *index.Index
	opts  index.Options
	hours int64
	said  []string // what came of it
}

func drawScript(r *rand.Rand, k, length int) *script {
	s := &script{k: k, keep: r.IntN(3) == 0, start: time.Now().Unix() + 3600}
	var seen []uint64
	document := func(key bool) index.Document {
		d := index.Document{Fingerprint: fingerprint.Fingerprint(r.Uint64())}
		if len(seen) > 0 && r.IntN(4) > 0 {
			d.Fingerprint = fingerprint.Fingerprint(testgen.Flip(r, seen[r.IntN(len(seen))], ^uint64(0), r.IntN(k+3)))
		}
		seen = append(seen, uint64(d.Fingerprint))
		if key {
			d.Key = keyName(r.IntN(60))
		}
		switch r.IntN(8) {
		case 0:
			d.Scope = "a.example"
		case 1, 2:
			d.Shingle = fingerprint.Fingerprint(r.Uint64N(3) * 0xff00ff00ff)
		case 3, 4:
			d.Tokens = 100 + 20*r.IntN(4)
		}
		return d
	}
	hour := int64(0)
	for range length {
		a := act{what: []string{"add", "check", "check", "delete", "query", "query", "hour", "expire"}[r.IntN(8)]}
		switch a.what {
		case "add":
			keys := make(map[string]bool) // each once, for it to be the same whatever the batches
			for range 1 + r.IntN(40) {
				if d := document(r.IntN(2) == 0); d.Key == "" || !keys[d.Key] {
					keys[d.Key] = true
					a.docs = append(a.docs, d)
				}
			}
		case "check":
			for range 1 + r.IntN(30) {
				a.docs = append(a.docs, document(r.IntN(2) == 0))
			}
		case "query":
			for range 20 {
				a.docs = append(a.docs, document(false))
			}
		case "delete":
			for range 5 {
				a.keys = append(a.keys, keyName(r.IntN(60)))
			}
		case "hour":
			hour++
		case "expire":
			a.hour = hour - r.Int64N(3)
		}
		s.acts = append(s.acts, a)
	}
	return s
}

func (v *variant) open() {
	v.t.Helper()
	v.opts = index.Options{
		FS: v.fs, Plan: v.plan, KeepDuplicates: v.s.keep, Now: v.now,
		FilterBytes: []int64{0, -1, 64, 1 << 12, 1 << 20}[v.r.IntN(5)],
		CacheBytes:  []int64{0, 1, 1 << 16}[v.r.IntN(3)],
		Durability:  []index.Durability{index.Sync, index.NoSync}[v.r.IntN(2)],
	}
	x, err := index.Open("ix", &v.opts)
	if err != nil {
		v.t.Fatal(err)
	}
	v.x = x
}

// closed does something to the closed index.
func (v *variant) closed(do func() error) {
	v.t.Helper()
	if err := v.x.Close(); err != nil {
		v.t.Fatal(err)
	}
	if err := do(); err != nil {
		v.t.Fatalf("%s: %v", v.name, err)
	}
	v.open()
}

func (v *variant) say(format string, args ...any) {
	v.said = append(v.said, fmt.Sprintf(format, args...))
}

// anyTime is what happens between acts in some variants only.
func (v *variant) anyTime() {
	switch v.r.IntN(12) {
	case 0:
		v.closed(func() error { return nil })
	case 1:
		v.closed(func() error { return v.compact(nil) })
	case 2:
		plans := quickPlans(v.t, v.s.k)
		v.plan = plans[v.r.IntN(len(plans))]
		v.closed(func() error { return v.compact(v.plan) })
	case 3:
		if err := v.x.Sync(context.Background()); err != nil {
			v.t.Fatal(err)
		}
	}
}

func (v *variant) compact(plan *plan.Plan) error {
	_, err := compaction.Run(context.Background(), "ix", compaction.Options{
		FS: v.fs, Plan: plan, MemoryBytes: []int64{0, 1}[v.r.IntN(2)],
		FilterBytes: []int64{0, -1, 1, 1 << 12}[v.r.IntN(4)], CacheBytes: []int64{0, 1}[v.r.IntN(2)],
	})
	return err
}

// pieces cuts documents into batches.
func (v *variant) pieces(docs []index.Document) (batches [][]index.Document) {
	for len(docs) > 0 {
		n := min(len(docs), []int{1, 3, 1000}[v.r.IntN(3)])
		batches, docs = append(batches, docs[:n]), docs[n:]
	}
	return batches
}

func (v *variant) do(a *act) {
	v.t.Helper()
	ctx := context.Background()
	var err error
	switch a.what {
	case "add":
		for _, batch := range v.pieces(slices.Clone(a.docs)) {
			if v.r.IntN(6) == 0 {
				v.closed(func() error {
					_, err := compaction.Load(ctx, "ix", yielding(batch), compaction.LoadOptions{Index: v.opts})
					return err
				})
			} else if err = v.x.Add(ctx, batch...); err != nil {
				break
			}
		}
		v.say("added, up to %d", v.x.Stats().NextID)
	case "check":
		for _, batch := range v.pieces(a.docs) {
			var verdicts []index.Verdict
			if len(batch) == 1 && v.r.IntN(2) == 0 {
				verdicts = make([]index.Verdict, 1)
				verdicts[0], err = v.x.CheckAndAdd(ctx, batch[0])
			} else {
				verdicts, err = v.x.CheckAndAddBatch(ctx, batch)
			}
			for _, verdict := range verdicts {
				v.say("verdict %+v", verdict)
			}
		}
	case "delete":
		var n int
		n, err = v.x.Delete(ctx, a.keys...)
		v.say("deleted %d", n)
	case "expire":
		var n int
		n, err = v.x.DeleteBefore(ctx, time.Unix(v.s.start+3600*a.hour, 0))
		v.say("expired %d", n)
	case "hour":
		v.hours++
	case "query":
		v.query(a)
	}
	if err != nil {
		v.t.Fatalf("%s: %s: %v", v.name, a.what, err)
	}
}

func (v *variant) now() time.Time { return time.Unix(v.s.start+3600*v.hours, 0) }

func (v *variant) query(a *act) {
	ctx := context.Background()
	if v.r.IntN(2) == 0 {
		fps := make([]fingerprint.Fingerprint, len(a.docs))
		for i, d := range a.docs {
			fps[i] = d.Fingerprint
		}
		for answer, err := range v.x.QueryBatch(ctx, fps) {
			if err != nil {
				v.t.Fatal(err)
			}
			v.say("matches %+v", answer.Matches)
		}
		return
	}
	for _, d := range a.docs {
		matches, err := v.x.Query(ctx, d.Fingerprint)
		if err != nil {
			v.t.Fatal(err)
		}
		v.say("matches %+v", matches)
	}
}

// run returns all that was said, and what is there in the end.
func (v *variant) run() []string {
	v.open()
	for i := range v.s.acts {
		v.do(&v.s.acts[i])
		v.anyTime()
	}
	for p := range v.x.Verify(context.Background()) {
		v.t.Errorf("%s: %v", v.name, p)
	}
	var docs []index.Document
	for d, err := range v.x.Documents(context.Background()) {
		if err != nil {
			v.t.Fatal(err)
		}
		docs = append(docs, d)
	}
	slices.SortFunc(docs, func(a, b index.Document) int { return int(a.ID) - int(b.ID) })
	for _, d := range docs {
		v.say("there is %+v", d)
	}
	if err := v.x.Close(); err != nil {
		v.t.Fatal(err)
	}
	return v.said
}

// quickPlans are those of all designs for k that do not take long without filters.
func quickPlans(t *testing.T, k int) (plans []*plan.Plan) {
	t.Helper()
	for _, d := range plan.Designs(k) {
		p, err := plan.Named(d, k)
		if err != nil {
			t.Fatal(err)
		}
		if p.Probes() <= manyProbes || atLength() {
			plans = append(plans, p)
		}
	}
	return plans
}

// One random history gives one result: the same verdicts, answers, IDs, times and
// documents, under every plan, with any memory for filters and caches, in batches of
// any size, however documents come in, and whenever the index is opened again or packed.
func TestMetamorphic(t *testing.T) {
	scripts, variants, length := 4, 5, 30
	switch {
	case atLength():
		scripts, variants, length = 300, 12, 60
	case raceEnabled || testing.Short():
		scripts, variants, length = 2, 3, 15
	case os.Getenv("NEARDUP_CI") != "":
		scripts, variants = 16, 6
	}
	seed := testseed.Of(t)
	for n := range scripts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			s := drawScript(r, []int{3, 3, 0, 1, 5}[r.IntN(5)], length)
			var want []string
			var first string
			for i := range variants {
				plans := quickPlans(t, s.k)
				plan := plans[(n+i)%len(plans)]
				v := &variant{t: t, r: rand.New(rand.NewPCG(r.Uint64(), 2)), fs: vfs.NewMem(), plan: plan, s: s}
				v.name = fmt.Sprintf("variant %d, begun with %v", i, plan)
				got := v.run()
				if want == nil {
					want, first = got, v.name
				} else if diff := difference(got, want); diff != "" {
					t.Fatalf("%s is not as %s: %s", v.name, first, diff)
				}
			}
		})
	}
	t.Logf("NEARDUP_SEED=%d: %d histories of %d acts, each in %d ways", seed, scripts, length, variants)
}
