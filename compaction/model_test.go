package compaction_test

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
	"pgregory.net/rapid"
)

// checks sets how many histories rapid draws by default, and at full length.
func checks(t *testing.T, few, many int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue {
		return // as the command line says
	}
	if atLength() {
		few = many
	}
	if err := flag.Set("rapid.checks", fmt.Sprint(few)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Value.Set(f.DefValue) })
}

// history runs random operations on an index and on the reference.
type history struct {
	x    *index.Index
	opts index.Options
	fs   vfs.FS
	m    *reference
}

var modelPlans = []string{
	"k=0 0-63/64",
	"k=1 0-63/32 32-63,0-31/32",
	"k=2 0-63/12~2",
	"k=3 0-63/20 20-39,0-19,40-63/20 40-63,0-39/24~1",
	"k=3 0-63/32~1 32-63,0-31/32~1",
	"k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1",
}

func drawPlan(t *rapid.T) *plan.Plan {
	p, err := plan.Parse(rapid.SampledFrom(modelPlans).Draw(t, "plan"))
	if rapid.Bool().Draw(t, "a design") {
		p, err = plan.Named(rapid.SampledFrom([]string{"2", "3", "4", "10", "16", "20"}).Draw(t, "design"), rapid.IntRange(0, 4).Draw(t, "k"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var modelKeys = append([]string{"a", "b", "c", "d", "e", "f"}, collidingKeys...)

// drawDocument draws from few fingerprints, keys and scopes, so that all of them meet.
func drawDocument(t *rapid.T) index.Document {
	fp := rapid.SampledFrom([]uint64{0, 0xffff, 0xffff << 24, ^uint64(0)}).Draw(t, "center")
	for range rapid.IntRange(0, 5).Draw(t, "flips") {
		fp ^= 1 << rapid.SampledFrom([]int{0, 1, 15, 16, 31, 32, 47, 48, 62, 63}).Draw(t, "bit")
	}
	d := index.Document{
		Fingerprint: fingerprint.Fingerprint(fp),
		Key:         rapid.SampledFrom(slices.Concat(modelKeys, make([]string, 4))).Draw(t, "key"),
		Scope:       rapid.SampledFrom(slices.Concat(collidingKeys, []string{"", "", "", "s"})).Draw(t, "scope"),
	}
	if rapid.IntRange(0, 3).Draw(t, "shingle") == 0 {
		d.Shingle = 7
	}
	if rapid.IntRange(0, 3).Draw(t, "length") == 0 {
		d.Tokens = 300
	}
	return d
}

func drawDocuments(t *rapid.T, most int) []index.Document {
	docs := make([]index.Document, rapid.IntRange(0, most).Draw(t, "documents"))
	same := rapid.IntRange(0, 5).Draw(t, "all the same") == 0
	for i := range docs {
		if same && i > 0 { // a posting of many
			docs[i] = index.Document{Fingerprint: docs[0].Fingerprint}
		} else {
			docs[i] = drawDocument(t)
		}
	}
	return docs
}

func (h *history) open(t *rapid.T) {
	h.opts.FS, h.opts.KeepDuplicates, h.opts.Now = h.fs, h.m.keep, h.m.now
	h.opts.FilterBytes = rapid.SampledFrom([]int64{0, -1, 64, 1 << 10, 1 << 20}).Draw(t, "filter bytes")
	h.opts.CacheBytes = rapid.SampledFrom([]int64{0, 1, 1 << 16}).Draw(t, "cache bytes")
	h.opts.Durability = rapid.SampledFrom([]index.Durability{index.Sync, index.NoSync}).Draw(t, "durability")
	x, err := index.Open("ix", &h.opts)
	if err != nil {
		t.Fatal(err)
	}
	h.x = x
}

func (h *history) close(t *rapid.T) {
	if err := h.x.Close(); err != nil {
		t.Fatal(err)
	}
}

func (h *history) add(t *rapid.T) {
	docs := drawDocuments(t, 40)
	want := slices.Clone(docs)
	h.m.add(want)
	err := h.x.Add(t.Context(), docs...)
	if diff := difference(docs, want); err != nil || diff != "" {
		t.Fatalf("added: %v: %s", err, diff)
	}
}

func (h *history) checkAndAdd(t *rapid.T) {
	d := drawDocument(t)
	got, err := h.x.CheckAndAdd(t.Context(), d)
	if want := h.m.checkAndAdd(d); err != nil || got != want {
		t.Fatalf("%v: %+v, not %+v", err, got, want)
	}
}

func (h *history) checkAndAddBatch(t *rapid.T) {
	docs := drawDocuments(t, 12)
	var want []index.Verdict
	for _, d := range docs {
		want = append(want, h.m.checkAndAdd(d))
	}
	got, err := h.x.CheckAndAddBatch(t.Context(), docs)
	if diff := difference(got, want); err != nil || diff != "" {
		t.Fatalf("verdicts: %v: %s", err, diff)
	}
}

func (h *history) delete(t *rapid.T) {
	keys := rapid.SliceOfN(rapid.SampledFrom(slices.Concat(modelKeys, []string{"", "nobody's"})), 0, 6).Draw(t, "keys")
	n, err := h.x.Delete(t.Context(), keys...)
	if want := h.m.delete(keys); err != nil || n != want {
		t.Fatalf("deleted %d of %d: %v", n, want, err)
	}
}

func (h *history) deleteBefore(t *rapid.T) {
	at := time.Unix(h.m.second, 0)
	if len(h.m.docs) > 0 && rapid.Bool().Draw(t, "before that of a document") {
		at = rapid.SampledFrom(h.m.docs).Draw(t, "document").Added
	}
	n, err := h.x.DeleteBefore(t.Context(), at)
	if want := h.m.deleteBefore(at); err != nil || n != want {
		t.Fatalf("expired %d of %d before %v: %v", n, want, at, err)
	}
}

func (h *history) sync(t *rapid.T) {
	if err := h.x.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (h *history) reopen(t *rapid.T) {
	h.close(t)
	h.open(t)
}

// readOnly looks at the index as it is when it can not be changed.
func (h *history) readOnly(t *rapid.T) {
	h.close(t)
	x, err := index.Open("ix", &index.Options{FS: h.fs, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	h.check(t, x)
	if err := x.Add(t.Context(), index.Document{}); !errors.Is(err, index.ErrReadOnly) {
		t.Fatalf("adding: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	h.open(t)
}

// wait lets an hour go by, or sets the clock back.
func (h *history) wait(t *rapid.T) {
	h.m.second += rapid.SampledFrom([]int64{3600, 3600, 1, -1, -7200}).Draw(t, "seconds")
}

func (h *history) run(t *rapid.T) { h.compact(t, nil) }

func (h *history) replan(t *rapid.T) { h.compact(t, drawPlan(t)) }

func (h *history) compact(t *rapid.T, plan *plan.Plan) {
	h.close(t)
	var told atomic.Int64
	report, err := compaction.Run(t.Context(), "ix", compaction.Options{
		Plan: plan, FS: h.fs,
		MemoryBytes: rapid.SampledFrom([]int64{0, 1}).Draw(t, "memory bytes"),
		FilterBytes: rapid.SampledFrom([]int64{0, -1, 1, 1 << 12}).Draw(t, "filter bytes of compaction"),
		Progress:    func(compaction.Progress) { told.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if plan == nil {
		plan = h.opts.Plan
	}
	if report.Plan != plan.String() || report.Loaded != 0 || report.Replaced != 0 || told.Load() == 0 {
		t.Fatalf("%+v, told %d times", report, told.Load())
	}
	h.opts.Plan = plan // of which Open makes sure
	h.m.k = plan.MaxDistance
	h.open(t)
	h.checkReport(t, report)
}

// checkReport compares a report with what there is.
func (h *history) checkReport(t *rapid.T, r compaction.Report) {
	fps := map[uint64]bool{}
	for _, d := range h.m.docs {
		fps[store.Stored(uint64(d.Fingerprint), d.Scope)] = true
	}
	stats := h.x.Stats()
	if r.Documents != uint64(len(h.m.docs)) || len(r.Tables) != stats.Tables || stats.Packed != uint64(len(fps)) || stats.Live != 0 {
		t.Fatalf("%+v and %+v of %d documents, %d fingerprints", r, stats, len(h.m.docs), len(fps))
	}
	for i, table := range r.Tables {
		if table.EntriesAfter != uint64(len(fps)) || table.EntriesBefore != r.Tables[0].EntriesBefore {
			t.Fatalf("table %d: %+v of %d fingerprints", i, table, len(fps))
		}
	}
	if r.BytesBefore == 0 || r.BytesAfter == 0 || r.Seconds <= 0 {
		t.Fatalf("%+v", r)
	}
}

func seqOf(docs []index.Document, last error) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
		if last != nil {
			yield(index.Document{}, last)
		}
	}
}

func (h *history) loadOptions(t *rapid.T) compaction.LoadOptions {
	o := compaction.LoadOptions{Index: h.opts, MemoryBytes: rapid.SampledFrom([]int64{0, 1}).Draw(t, "memory bytes")}
	o.Index.FilterBytes = rapid.SampledFrom([]int64{0, -1, 1, 1 << 12}).Draw(t, "filter bytes of the load")
	return o
}

func (h *history) load(t *rapid.T) {
	h.close(t)
	docs := drawDocuments(t, 60)
	report, err := compaction.Load(t.Context(), "ix", seqOf(docs, nil), h.loadOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	replaced := h.m.load(slices.Clone(docs))
	h.open(t)
	if report.Loaded != uint64(len(docs)) || report.Replaced != uint64(replaced) || report.Documents != uint64(len(h.m.docs)) {
		t.Fatalf("%+v: %d loaded, %d replaced, %d there", report, len(docs), replaced, len(h.m.docs))
	}
	if len(docs) > 0 {
		h.checkReport(t, report)
	}
}

// failToLoad changes nothing.
func (h *history) failToLoad(t *rapid.T) {
	h.close(t)
	enough := errors.New("enough")
	docs := drawDocuments(t, 20)
	if rapid.Bool().Draw(t, "too large") {
		docs = append(docs, index.Document{Key: string(make([]byte, index.MaxKeyBytes+1))})
		enough = index.ErrTooLarge
	}
	if _, err := compaction.Load(t.Context(), "ix", seqOf(docs, enough), h.loadOptions(t)); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	h.open(t)
}

// check compares everything with the reference.
func (h *history) check(t *rapid.T, x *index.Index) {
	t.Helper()
	h.m.checkDocuments(t, x)
	for p := range x.Verify(t.Context()) {
		t.Fatalf("verify: %v", p)
	}
	k, limit := rapid.IntRange(0, h.m.k).Draw(t, "k"), rapid.IntRange(0, 4).Draw(t, "limit")
	asked := map[[2]string]bool{}
	for _, d := range h.m.docs {
		if q := [2]string{d.Fingerprint.String(), d.Scope}; !asked[q] {
			asked[q] = true
			h.m.checkQuery(t, x, d.Fingerprint, d.Scope, k, limit)
		}
	}
	for range 3 {
		near := drawDocument(t)
		h.m.checkQuery(t, x, near.Fingerprint, near.Scope, k, limit)
	}
	for _, key := range modelKeys {
		_, found, err := x.Get(t.Context(), key)
		if want := slices.ContainsFunc(h.m.docs, func(d index.Document) bool { return d.Key == key }); err != nil || found != want {
			t.Fatalf("key %q: %v, %v, not %v", key, found, err, want)
		}
	}
}

// TestHistoriesAreTheModel compares an index with the reference after each step.
func TestHistoriesAreTheModel(t *testing.T) {
	checks(t, 40, 2000)
	rapid.Check(t, func(t *rapid.T) {
		plan := drawPlan(t)
		h := &history{fs: vfs.NewMem(), m: &reference{k: plan.MaxDistance}}
		h.m.keep, h.m.second = rapid.Bool().Draw(t, "keep duplicates"), time.Now().Unix()
		h.opts.Plan = plan
		h.open(t)
		defer func() { h.x.Close() }()
		h.wait(t)
		steps := map[string]func(*rapid.T){
			"Add": h.add, "CheckAndAdd": h.checkAndAdd, "CheckAndAddBatch": h.checkAndAddBatch,
			"Delete": h.delete, "DeleteBefore": h.deleteBefore, "Sync": h.sync, "reopen": h.reopen,
			"read-only": h.readOnly, "wait": h.wait, "Run": h.run, "replan": h.replan,
			"Load": h.load, "failing Load": h.failToLoad,
		}
		names := slices.Sorted(maps.Keys(steps))
		names = append(names, "Add", "CheckAndAdd", "CheckAndAddBatch", "Delete", "DeleteBefore", "Run", "Load")
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			steps[rapid.SampledFrom(names).Draw(t, "step")](t)
			h.check(t, h.x)
		}
	})
}
