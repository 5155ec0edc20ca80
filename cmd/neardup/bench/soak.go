package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/neardup/neardup/index"
)

// SoakOptions of Soak.
type SoakOptions struct {
	Time        time.Duration `json:"nanoseconds"`
	Interval    time.Duration `json:"intervalNanoseconds"` // between two samples, with expiry, a checkpoint or a compaction at each; 0: as Time asks for, and at most Time
	Documents   int           `json:"documents"`           // about how many are kept
	Workers     int           `json:"workers"`             // that write and query side by side
	MaxDistance int           `json:"k"`
	CacheBytes  int64         `json:"cacheBytes"`  // as index.Options has it
	FilterBytes int64         `json:"filterBytes"` // as index.Options has it
	NoSync      bool          `json:"noSync"`      // as index.Options has it
	Seed        uint64        `json:"seed"`
	Dir         string        `json:"-"` // of the index, which must not exist; "": a temporary one, which is gone at the end

	Logf func(format string, args ...any) `json:"-"` // called with each sample
}

// Check returns what is wrong with the options, nil if nothing is.
func (o *SoakOptions) Check() error {
	switch {
	case o.Time <= 0:
		return fmt.Errorf("a soak of %v, want more than 0", o.Time)
	case o.Workers < 1 || o.Workers > 1024:
		return fmt.Errorf("%d workers, want 1 to 1024", o.Workers)
	case o.Documents < o.Workers || o.Documents > 1e7:
		return fmt.Errorf("%d documents, want %d, one a worker, to 1e7", o.Documents, o.Workers)
	case o.MaxDistance < 0 || o.MaxDistance > index.MaxDistanceLimit:
		return fmt.Errorf("k is %d, want 0 to %d", o.MaxDistance, index.MaxDistanceLimit)
	}
	return nil
}

// soak is one run under way.
type soak struct {
	SoakOptions
	dir     string
	index   *index.Index
	open    sync.RWMutex // held by each call of a worker, and alone to change what all of them share
	workers []*soakWorker
	times   map[string]*callTimes
	done    atomic.Int64 // calls of the workers
	over    atomic.Bool  // no more of them are to be made
	begun   time.Time
	end     time.Time
	report  SoakReport
}

// Soak writes to an index, queries it, deletes, expires, compacts, takes checkpoints and
// opens it again until the time is up, each at least once, and compares every answer with a model in memory
// that looks at every document. It then says how long calls took, and how memory and disk
// went.
//
// Errors: what Check says, ErrWrongAnswer, ErrNotFlat, ctx's and those of the index and
// the file system. What there is of the report comes with an error.
func Soak(ctx context.Context, o SoakOptions) (report *SoakReport, err error) {
	if o.Interval <= 0 {
		o.Interval = min(max(o.Time/60, 250*time.Millisecond), 30*time.Second)
	}
	o.Interval = min(o.Interval, o.Time)
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &soak{SoakOptions: o, dir: o.Dir, times: make(map[string]*callTimes)}
	if o.Dir == "" {
		var temporary string
		if temporary, err = os.MkdirTemp("", "neardup-soak-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
		s.dir = filepath.Join(temporary, "index")
	} else if _, err := os.Stat(o.Dir); err == nil {
		return nil, fmt.Errorf("a soak makes an index of its own: %s: %w", o.Dir, fs.ErrExist)
	}
	s.report = SoakReport{Machine: thisMachine(), Options: o}
	if err := s.openIndex(); err != nil {
		return nil, err
	}
	defer func() {
		if s.index != nil {
			err = errors.Join(err, s.index.Close())
		}
		s.measureCalls()
	}()
	return &s.report, s.run(ctx)
}

func (s *soak) options() *index.Options {
	o := options(s.Documents, s.MaxDistance, s.CacheBytes, s.FilterBytes)
	if !s.NoSync {
		o.Durability = index.Sync
	}
	return o
}

func (s *soak) openIndex() (err error) {
	s.index, err = index.Open(s.dir, s.options())
	return err
}

func (s *soak) closeIndex() error {
	x := s.index
	s.index = nil
	return x.Close()
}

func (s *soak) run(ctx context.Context) error {
	s.times[compareAll], s.times[verifyAll] = new(callTimes), new(callTimes)
	for _, kind := range soakUpkeep {
		s.times[kind.name] = new(callTimes)
	}
	for _, kind := range soakKinds {
		s.times[kind.name] = new(callTimes)
	}
	s.begun = time.Now()
	s.end = s.begun.Add(s.Time)
	group, together := errgroup.WithContext(ctx)
	for n := range s.Workers {
		s.workers = append(s.workers, s.newWorker(n))
	}
	for _, w := range s.workers {
		group.Go(func() error { return w.run(together) })
	}
	group.Go(func() error { return s.keepUp(together) })
	err := cmp.Or(group.Wait(), ctx.Err())
	s.report.Seconds = time.Since(s.begun).Seconds()
	if err != nil {
		return err
	}
	return s.report.flat()
}
