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

var errWrongAnswer = errors.New("wrong answer")

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
		w := &soakWorker{soak: s, number: n, random: rand.New(rand.NewPCG(s.seed, uint64(n))), model: newSoakModel(3)}
		if n > 0 { // the documents of the first are in the empty scope, and many of them bare
			w.scope = fmt.Sprintf("scope %d", n)
		}
		s.workers = append(s.workers, w)
	}
	return s
}

// TestSoak runs for 2 seconds; with NEARDUP_CI for 20, with NEARDUP_LONG for 15 minutes.
func TestSoak(t *testing.T) {
	s := newSoak(t, 2*time.Second, 200*time.Millisecond, 400, 4)
	switch {
	case os.Getenv("NEARDUP_LONG") != "":
		s = newSoak(t, 15*time.Minute, 15*time.Second, 200_000, 8)
		s.options.Durability = index.Sync
	case os.Getenv("NEARDUP_CI") != "" && !testing.Short():
		s = newSoak(t, 20*time.Second, time.Second, 20_000, 8)
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
	second, want := int64(0), 0
	for _, w := range s.workers {
		if at := len(w.model.docs) - s.documents/len(s.workers)*3/4; at > 0 {
			second = max(second, w.model.docs[at].Added.Unix())
		}
	}
	for _, w := range s.workers {
		want += w.model.expire(second)
	}
	expired, err := s.index.DeleteBefore(ctx, time.Unix(second, 0))
	if err == nil && expired != want {
		err = fmt.Errorf("%w: %d documents expired, not %d", errWrongAnswer, expired, want)
	}
	return err
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
	if err := s.compare(ctx); err != nil {
		return err
	}
	for p := range x.Verify(ctx) {
		return fmt.Errorf("%w: %v", errWrongAnswer, p)
	}
	return nil
}

// compare looks whether the index has the documents of the models, and no others.
func (s *soak) compare(ctx context.Context) error {
	models, want, n := make(map[string]*soakModel), 0, 0
	for _, w := range s.workers {
		models[w.scope] = w.model
		want += len(w.model.docs)
	}
	for d, err := range s.index.Documents(ctx) {
		if err != nil {
			return err
		}
		n++
		m := models[d.Scope]
		if m == nil {
			return fmt.Errorf("%w: a document that no one added: %+v", errWrongAnswer, d)
		}
		if at, found := m.at(d.ID); !found || m.docs[at] != d {
			return fmt.Errorf("%w: a document that should not be there: %+v", errWrongAnswer, d)
		}
	}
	if stats := s.index.Stats(); n != want || stats.Documents != uint64(want) {
		return fmt.Errorf("%w: %d documents, %d by the counter, and %d were stored", errWrongAnswer, n, stats.Documents, want)
	}
	return nil
}

// ids returns the IDs of all documents, once no call is under way, and the largest given.
func (s *soak) ids() (ids []uint64, last uint64) {
	s.open.Lock()
	defer s.open.Unlock()
	for _, w := range s.workers {
		for _, d := range w.model.docs {
			ids = append(ids, d.ID)
		}
	}
	slices.Sort(ids)
	return ids, s.index.Stats().NextID - 1
}

// checkpoint takes one while the workers go on: it is the index of one moment in between. It
// has what was there before and after, and nothing else but what came or went meanwhile.
func (s *soak) checkpoint(ctx context.Context) error {
	dir := s.dir + "-checkpoint"
	before, last := s.ids()
	s.open.RLock()
	err := s.index.Checkpoint(ctx, dir)
	s.open.RUnlock()
	if err != nil {
		return err
	}
	after, _ := s.ids()
	got, err := idsIn(ctx, dir)
	if err != nil {
		return err
	}
	for _, id := range got {
		if _, found := slices.BinarySearch(before, id); !found && id <= last {
			return fmt.Errorf("%w: a checkpoint has document %d, which was gone", errWrongAnswer, id)
		}
	}
	for _, id := range before {
		_, kept := slices.BinarySearch(after, id)
		if _, found := slices.BinarySearch(got, id); kept && !found {
			return fmt.Errorf("%w: a checkpoint lacks document %d", errWrongAnswer, id)
		}
	}
	return os.RemoveAll(dir)
}

func idsIn(ctx context.Context, dir string) (ids []uint64, err error) {
	x, err := index.Open(dir, &index.Options{ReadOnly: true, CacheBytes: 16 << 20})
	if err != nil {
		return nil, err
	}
	for d, err := range x.Documents(ctx) {
		if err != nil {
			return nil, errors.Join(err, x.Close())
		}
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	return ids, x.Close()
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
	var values []float64
	for _, s := range samples {
		if v := of(s); v > 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Memory or disk that grows is found out, and noise is not.
func TestSoakFlat(t *testing.T) {
	samples := func(memory, disk func(i int) float64) (all []soakSample) {
		for i := range 60 {
			all = append(all, soakSample{soakUpkeep[i%3].name, 100_000, uint64(memory(i)), uint64(disk(i))})
		}
		return all
	}
	noise := func(at float64) func(int) float64 {
		return func(i int) float64 { return at * (1 + float64(i%7)/50) }
	}
	grows := func(at float64) func(int) float64 {
		return func(i int) float64 { return at * (1 + float64(i)/60) }
	}
	if err := flat(samples(noise(500<<20), noise(50<<20))); err != nil {
		t.Error(err)
	}
	if err := flat(samples(grows(500<<20), noise(50<<20))); err == nil || !strings.Contains(err.Error(), "memory grew") {
		t.Errorf("memory that grows: %v", err)
	}
	if err := flat(samples(noise(500<<20), grows(50<<20))); err == nil || !strings.Contains(err.Error(), "disk grew") {
		t.Errorf("disk that grows: %v", err)
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
			d.Fingerprint = fingerprint.Fingerprint(^uint64(d.Fingerprint))
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
		if err := s.compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := change(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := s.compact(t.Context()); !errors.Is(err, errWrongAnswer) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.index.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
