package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/indextest"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/testseed"
	"golang.org/x/sync/errgroup"
)

// A soak works on one index for a time, in real files: workers write, query and delete side by
// side, each in a scope of its own, and compare every answer with a model. In turn, the index
// expires documents, is copied by a checkpoint, and is closed, compacted, opened, compared
// with the models and verified. Neither memory nor disk may grow.
type soak struct {
	time, interval time.Duration
	documents      int // about how many are kept, over all scopes
	seed           uint64

	dir     string
	options index.Options
	index   *index.Index
	open    sync.RWMutex // held by each call of a worker, and alone by what needs all of them to wait
	workers []*soakWorker
	calls   atomic.Int64
	over    atomic.Bool
	samples []soakSample
}

// soakSample is the state after an upkeep.
type soakSample struct {
	after     string
	documents uint64
	memory    uint64 // of the process, with the models; 0: not known on this system
	disk      uint64 // of all files of the index
}

func newSoak(t *testing.T, long, interval time.Duration, documents, workers int) *soak {
	s := &soak{time: long, interval: interval, documents: documents, seed: testseed.Of(t), dir: filepath.Join(t.TempDir(), "ix")}
	s.options = index.Options{CacheBytes: 128 << 20, Durability: index.NoSync}
	for n := range workers {
		w := &soakWorker{soak: s, number: n, r: rand.New(rand.NewPCG(s.seed, uint64(n))), model: indextest.NewModel(indextest.RuleOf(s.options, 3))}
		if n > 0 { // the documents of the first are in the empty scope, and many of them bare
			w.scope = fmt.Sprintf("scope %d", n)
		}
		s.workers = append(s.workers, w)
	}
	return s
}

// TestSoak runs for 2 seconds; with NEARDUP_CI for 10, with NEARDUP_LONG for 15 minutes.
func TestSoak(t *testing.T) {
	s := newSoak(t, 2*time.Second, 200*time.Millisecond, 400, 4)
	switch {
	case atLength():
		s = newSoak(t, 15*time.Minute, 15*time.Second, 200_000, 8)
		s.options.Durability = index.Sync
	case os.Getenv("NEARDUP_CI") != "" && !testing.Short():
		s = newSoak(t, 10*time.Second, 500*time.Millisecond, 20_000, 8)
		fallthrough
	default:
		t.Parallel() // it has too few samples to judge memory
	}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.calls.Load() == 0 || len(s.samples) < len(soakUpkeep) {
		t.Fatalf("%d calls, %d samples", s.calls.Load(), len(s.samples))
	}
	last := s.samples[len(s.samples)-1]
	t.Logf("%d calls, %d samples; at the end %d documents, %d MiB of memory, %d MiB of disk",
		s.calls.Load(), len(s.samples), last.documents, last.memory>>20, last.disk>>20)
}

func (s *soak) run(ctx context.Context) (err error) {
	if s.index, err = index.Open(s.dir, &s.options); err != nil {
		return err
	}
	group, together := errgroup.WithContext(ctx)
	for _, w := range s.workers {
		group.Go(func() error { return w.run(together) })
	}
	group.Go(func() error { return s.keepUp(together) })
	if err := errors.Join(group.Wait(), s.index.Close()); err != nil {
		return fmt.Errorf("seed %d: %w", s.seed, err)
	}
	return flat(s.samples)
}

var soakUpkeep = []struct {
	name string
	do   func(*soak, context.Context) error
}{
	{"expire", (*soak).expire},
	{"checkpoint", (*soak).checkpoint},
	{"compact", (*soak).compact},
}

// keepUp does one upkeep an interval until the time is up, each at least once.
func (s *soak) keepUp(ctx context.Context) error {
	end := time.Now().Add(s.time)
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for n := 0; n < len(soakUpkeep) || time.Now().Before(end); n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		u := soakUpkeep[n%len(soakUpkeep)]
		if err := u.do(s, ctx); err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
		if err := s.sample(u.name); err != nil {
			return err
		}
	}
	s.over.Store(true)
	return s.compact(ctx)
}

// expire drops the oldest documents of each worker that has more than it is to keep.
func (s *soak) expire(ctx context.Context) error {
	s.open.Lock()
	defer s.open.Unlock()
	before, want := time.Time{}, 0
	for _, w := range s.workers {
		if at := len(w.model.Docs) - s.documents/len(s.workers)*3/4; at > 0 && w.model.Docs[at].Added.After(before) {
			before = w.model.Docs[at].Added
		}
	}
	for _, w := range s.workers {
		want += w.model.DeleteBefore(before)
	}
	expired, err := s.index.DeleteBefore(ctx, before)
	return wrongly(err, expired, want)
}

// compact closes the index, compacts it, opens it again, and looks at all of it.
func (s *soak) compact(ctx context.Context) error {
	s.open.Lock()
	defer s.open.Unlock()
	if err := s.index.Close(); err != nil {
		return err
	}
	_, err := compaction.Run(ctx, s.dir, compaction.Options{CacheBytes: s.options.CacheBytes})
	x, openErr := index.Open(s.dir, &s.options)
	if err = errors.Join(err, openErr); err != nil {
		return err
	}
	s.index = x
	all := s.all()
	all.NextID = x.Stats().NextID // duplicates take none, and who added last is not known
	if err := errors.Join(all.Compare(x), indextest.Problems(x)); err != nil {
		return fmt.Errorf("%w: %w", errWrong, err)
	}
	return nil
}

// all is the model of the whole index, once no call is under way.
func (s *soak) all() *indextest.Model {
	all := indextest.NewModel(s.workers[0].model.Rule)
	for _, w := range s.workers {
		all.Docs = append(all.Docs, w.model.Docs...)
	}
	slices.SortFunc(all.Docs, func(a, b index.Document) int { return int(int64(a.ID - b.ID)) })
	return all
}

// ids returns the IDs of all documents, and the next that is given.
func (s *soak) ids() (ids map[uint64]bool, next uint64) {
	s.open.Lock()
	defer s.open.Unlock()
	ids = make(map[uint64]bool)
	for _, d := range s.all().Docs {
		ids[d.ID] = true
	}
	return ids, s.index.Stats().NextID
}

// checkpoint takes one while the workers go on: it is the index of one moment in between. It
// has what was there before and after, and nothing else but what came or went meanwhile.
func (s *soak) checkpoint(ctx context.Context) error {
	dir := s.dir + "-checkpoint"
	before, next := s.ids()
	s.open.RLock()
	err := s.index.Checkpoint(ctx, dir)
	s.open.RUnlock()
	if err != nil {
		return err
	}
	after, _ := s.ids()
	x, err := index.Open(dir, &index.Options{ReadOnly: true, CacheBytes: 16 << 20})
	if err != nil {
		return err
	}
	docs, err := indextest.AllDocuments(x)
	if err := errors.Join(err, x.Close()); err != nil {
		return err
	}
	for _, d := range docs {
		if !before[d.ID] && d.ID < next {
			return fmt.Errorf("%w: a checkpoint has document %d, which was gone", errWrong, d.ID)
		}
		delete(before, d.ID)
	}
	for id := range before {
		if after[id] {
			return fmt.Errorf("%w: a checkpoint lacks document %d", errWrong, id)
		}
	}
	return os.RemoveAll(dir)
}

func (s *soak) sample(after string) error {
	sample := soakSample{after: after, documents: s.index.Stats().Documents, memory: residentMemory()}
	err := filepath.WalkDir(s.dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				sample.disk += uint64(info.Size())
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // files come and go
			return nil
		}
		return err
	})
	s.samples = append(s.samples, sample)
	return err
}

// residentMemory is that of the process where Linux says it, else 0.
func residentMemory() uint64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "\nVmRSS:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseUint(fields[0], 10, 64)
	return kib << 10
}

// Growth of the medians that is let pass: a share, for the noise of the garbage collector
// and of caches that fill, and an amount, for small runs.
const (
	soakGrowth      = 1.2
	soakMemorySlack = 32 << 20
	soakDiskSlack   = 64 // bytes a document
	fewestSamples   = 24 // from which growth is judged
)

// flat compares the last quarter of the samples with the second one; in the first the index
// and the caches fill.
func flat(samples []soakSample) error {
	if len(samples) < fewestSamples {
		return nil
	}
	quarter := len(samples) / 4
	middle, end := samples[quarter:2*quarter], samples[len(samples)-quarter:]
	memory := func(s soakSample) float64 { return float64(s.memory) }
	if a, b := medianOf(middle, memory), medianOf(end, memory); b > soakGrowth*a+soakMemorySlack {
		return fmt.Errorf("memory grew from %.0f to %.0f bytes", a, b)
	}
	packed := func(s soakSample) float64 { // bytes a document right after a compaction
		if s.after != "compact" || s.documents == 0 {
			return 0
		}
		return float64(s.disk) / float64(s.documents)
	}
	if a, b := medianOf(middle, packed), medianOf(end, packed); b > soakGrowth*a+soakDiskSlack {
		return fmt.Errorf("disk grew from %.1f to %.1f bytes a document after compaction", a, b)
	}
	return nil
}

// medianOf leaves out zeros.
func medianOf(samples []soakSample, of func(soakSample) float64) float64 {
	values := []float64{0}
	for _, s := range samples {
		if v := of(s); v > 0 {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values[(len(values)+1)/2*min(1, len(values)-1)]
}

// Memory or disk that grows is found out, and noise is not.
func TestSoakFlat(t *testing.T) {
	noise := func(at float64) func(int) float64 {
		return func(i int) float64 { return at * (1 + float64(i%7)/50) }
	}
	grows := func(at float64) func(int) float64 {
		return func(i int) float64 { return at * (1 + float64(i)/60) }
	}
	for _, c := range []struct {
		memory, disk func(int) float64
		want         string
	}{
		{noise(500 << 20), noise(50 << 20), "<nil>"},
		{grows(500 << 20), noise(50 << 20), "memory grew"},
		{noise(500 << 20), grows(50 << 20), "disk grew"},
	} {
		var samples []soakSample
		for i := range 60 {
			samples = append(samples, soakSample{soakUpkeep[i%3].name, 100_000, uint64(c.memory(i)), uint64(c.disk(i))})
		}
		if err := flat(samples); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%v, not %s", err, c.want)
		}
	}
}

// An index that changes behind the models' back is found out.
func TestSoakFindsWrongAnswers(t *testing.T) {
	for name, change := range map[string]func(context.Context, *soak) error{
		"a document that no one added": func(ctx context.Context, s *soak) error {
			return s.index.Add(ctx, index.Document{Fingerprint: 1, Key: "stranger", Scope: "scope 1"})
		},
		"a document that is lost": func(ctx context.Context, s *soak) error {
			_, err := s.index.Delete(ctx, s.workers[1].some().Key)
			return err
		},
		"another document under a key": func(ctx context.Context, s *soak) error {
			d := *s.workers[1].some()
			d.Fingerprint = ^d.Fingerprint
			return s.index.Add(ctx, d)
		},
	} {
		s := newSoak(t, time.Hour, time.Hour, 400, 2)
		var err error
		if s.index, err = index.Open(s.dir, &s.options); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			for _, w := range s.workers {
				if err := w.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(s.compact(t.Context()), change(t.Context(), s)); err != nil {
			t.Fatal(err)
		}
		if err := s.compact(t.Context()); !errors.Is(err, errWrong) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.index.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// soakWorker makes one call after the other in a scope of its own, and compares what comes of
// it with its model. Others get IDs too, so the model takes those that the index gave.
type soakWorker struct {
	*soak
	number int
	scope  string
	r      *rand.Rand
	model  *indextest.Model
	pages  int // how many keys there were
}

func (w *soakWorker) run(ctx context.Context) error {
	for ctx.Err() == nil && !w.over.Load() {
		if err := w.step(ctx); err != nil {
			return fmt.Errorf("worker %d: %w", w.number, err)
		}
	}
	return ctx.Err()
}

func (w *soakWorker) step(ctx context.Context) error {
	w.open.RLock()
	defer w.open.RUnlock()
	w.calls.Add(1)
	switch draw := w.r.IntN(100); {
	case draw < 42:
		k := w.r.IntN(w.model.Rule.MaxDistance + 1)
		return w.model.Query(w.index, w.document(), k, w.r.IntN(4))
	case draw < 54:
		return w.get(ctx)
	case draw < 68:
		d := w.document()
		v, err := w.index.CheckAndAdd(ctx, d)
		return w.checked(err, []index.Document{d}, []index.Verdict{v})
	case draw < 78:
		docs := w.batch()
		verdicts, err := w.index.CheckAndAddBatch(ctx, docs)
		return w.checked(err, docs, verdicts)
	case draw < 90 || len(w.model.Docs) < w.documents/len(w.workers): // until there are as many as there are to be
		return w.add(ctx)
	}
	return w.delete(ctx)
}

// document draws a new document, every other one near to one that is there.
func (w *soakWorker) document() index.Document {
	d := index.Document{Scope: w.scope, Fingerprint: fingerprint.Fingerprint(w.r.Uint64())}
	if w.r.IntN(3) > 0 && w.scope != "" {
		d.Shingle = fingerprint.Fingerprint(w.r.Uint64())
	}
	if near := w.some(); near != nil && w.r.IntN(2) == 0 {
		d.Fingerprint = near.Fingerprint ^ w.flips(w.r.IntN(w.model.Rule.MaxDistance+3))
		if d.Shingle != 0 && w.r.IntN(2) == 0 {
			d.Shingle = near.Shingle ^ w.flips(w.r.IntN(2*match.For("", 3).MaxShingleDistance))
		}
	}
	if w.scope == "" && w.r.IntN(2) == 0 {
		return d
	}
	if known := w.some(); known != nil && w.r.IntN(5) == 0 {
		d.Key = known.Key // a recrawl
	} else {
		w.pages++
		d.Key = fmt.Sprintf("http://%d.example/%d", w.number, w.pages)
	}
	return d
}

// flips draws up to n bits.
func (w *soakWorker) flips(n int) (flips fingerprint.Fingerprint) {
	for range n {
		flips |= 1 << w.r.IntN(64)
	}
	return flips
}

// some draws a document that is there; nil if there is none.
func (w *soakWorker) some() *index.Document {
	if len(w.model.Docs) == 0 {
		return nil
	}
	return &w.model.Docs[w.r.IntN(len(w.model.Docs))]
}

func (w *soakWorker) batch() []index.Document {
	docs := make([]index.Document, 1+w.r.IntN(64))
	for i := range docs {
		docs[i] = w.document()
	}
	return docs
}

func (w *soakWorker) add(ctx context.Context) error {
	docs := w.batch()
	if err := w.index.Add(ctx, docs...); err != nil {
		return err
	}
	last := make(map[string]int) // of several with one key the last counts
	for i, d := range docs {
		last[d.Key] = i
	}
	for i, d := range docs {
		if d.Key != "" && last[d.Key] != i {
			continue
		}
		if d.ID < w.model.NextID {
			return fmt.Errorf("%w: ID %d is not above those before", errWrong, d.ID)
		}
		w.model.NextID, w.model.Now = d.ID, d.Added
		w.model.Add(d)
	}
	return nil
}

// checked compares verdicts with the model's own.
func (w *soakWorker) checked(err error, docs []index.Document, verdicts []index.Verdict) error {
	if err = wrongly(err, len(verdicts), len(docs)); err != nil {
		return err
	}
	for i, got := range verdicts {
		if id := got.Document.ID; id >= w.model.NextID {
			w.model.NextID, w.model.Now = id, got.Document.Added
		}
		if err := wrongly(nil, got, w.model.CheckAndAdd(docs[i])); err != nil {
			return fmt.Errorf("document %d of %d: %w", i, len(docs), err)
		}
	}
	return nil
}

func (w *soakWorker) get(ctx context.Context) error {
	key := w.document().Key
	if d := w.some(); d != nil && w.r.IntN(4) > 0 {
		key = d.Key
	}
	got, found, err := w.index.Get(ctx, key)
	want, stored := w.model.Docs.Key(key)
	if err = wrongly(err, found, stored); err != nil {
		return err
	}
	return wrongly(nil, got, want)
}

func (w *soakWorker) delete(ctx context.Context) error {
	keys := []string{"no such key"}
	for range 1 + w.r.IntN(128) {
		if d := w.some(); d != nil {
			keys = append(keys, d.Key)
		}
	}
	deleted, err := w.index.Delete(ctx, keys...)
	return wrongly(err, deleted, w.model.Delete(keys...))
}
