// Package index is a persistent index of 64-bit fingerprints. For a given fingerprint, it finds
// every stored fingerprint within k bits (Manku, Jain and Das Sarma, "Detecting Near-Duplicates for
// Web Crawling", WWW 2007). Package neardup uses it for pages. This package accepts fingerprints of
// any kind.
//
// It guarantees:
//
//   - A query returns exactly the stored documents within the distance, as of one moment during the
//     call.
//   - With Sync, the default Durability, every acknowledged write survives a crash. A document is
//     never partly stored.
//   - If near-duplicates are checked concurrently, CheckAndAdd returns New for exactly one of them.
//   - Open refuses an index if the options name another k, plan or analyzer. Only package
//     compaction can change k and the plan. It changes them in one step, and the index must be
//     closed.
//
// Searches take no lock, and commits are serialized. Documents have IDs 1, 2, 3, and so on; no ID
// is used twice. A document that is stored again with the same Fingerprint, Shingles and Scope
// keeps its ID.
//
// An Index is safe for concurrent use. Close waits for calls in progress.
package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/store"
)

// Index is an open index. Its methods may be called from any goroutine.
type Index struct {
	store   *store.Store
	opts    Options
	plan    *plan.Plan
	rule    match.Rule // of verdicts and queries
	ofTexts bool       // the index records an Analyzer or page.Signer of texts

	state   atomic.Pointer[state] // replaced under commitMu
	readers sync.Pool             // of *reader

	turns    chan struct{} // has one element per window in progress
	single   chan *call    // calls of one document, sent to a goroutine that has a turn
	shingles shingleCache

	commitMu   sync.Mutex // held while a change gets its IDs and is applied
	counters   store.Counters
	recent     recentWrites
	duplicates duplicates.Table // counts that are not stored yet; changed under commitMu
	oldest     uint64           // no document was stored before this second; 0: not known

	// Readers use these. They are updated before the change that they describe becomes visible.
	applied     atomic.Uint64 // number of changes
	firstRecord atomic.Uint64 // documents before this ID have no record
	hasBare     atomic.Bool   // some documents may have no record

	rewriting chan struct{}   // has one element during a compaction
	expiring  chan struct{}   // has one element during Expire
	expired   atomic.Uint64   // documents that Expire has removed
	stopping  context.Context // done when Close begins
	stop      context.CancelFunc

	closed atomic.Bool
	calls  sync.RWMutex // read-locked during a call; Close locks it and does not unlock it

	aroundView  func() // for tests: called just before and just after a reader opens its view
	aroundApply func() // for tests: called just before and just after a commit is applied
}

// Open opens the index in dir. If it does not exist, Open creates it, unless opts.ReadOnly or
// opts.MustExist is set.
//
// Errors: fs.ErrNotExist, ErrNotIndex, ErrVersion, ErrLocked, ErrMismatch,
// ErrPlan, ErrCorrupt, and the errors of the file system.
func Open(dir string, opts *Options) (*Index, error) {
	x := &Index{
		turns: make(chan struct{}, runtime.GOMAXPROCS(0)), single: make(chan *call),
		rewriting: make(chan struct{}, 1),
		expiring:  make(chan struct{}, 1),
	}
	x.recent.ring = make([]recentWrite, recentLimit)
	x.recent.count.Store(1) // 0 is the position of a reader without a view
	x.stopping, x.stop = context.WithCancel(context.Background())
	if opts != nil {
		x.opts = *opts
	}
	if dir == "" {
		return nil, errors.New("open index: the name of the directory is empty")
	}
	if err := x.opts.check(); err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	storeOptions := store.Options{
		ReadOnly:   x.opts.ReadOnly,
		CacheBytes: x.opts.CacheBytes,
		FillArena:  true,
		FS:         x.opts.FS,
		Logger:     x.opts.Logger,
		Accept:     x.opts.accept,
	}
	var noPlan error // matters only if the index does not exist yet
	if !x.opts.ReadOnly && !x.opts.MustExist {
		var p *plan.Plan
		if p, noPlan = x.opts.plan(); noPlan == nil {
			storeOptions.Create = &store.Meta{Plan: p.String(), Analyzer: x.opts.Analyzer}
		}
	}
	var err error
	if x.store, err = store.Open(dir, storeOptions); err != nil {
		if noPlan != nil && errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("open index %s: %w", dir, noPlan)
		}
		if errors.Is(err, ErrLocked) {
			err = fmt.Errorf("%w; \"neardup serve\" shares an index between processes, and "+
				"Checkpoint copies an open index", err)
		}
		return nil, err
	}
	x.shingles = newShingleCache(x.opts.shingleBytes())
	if err = x.load(); err == nil {
		err = x.startFilters()
	}
	if err != nil {
		x.shingles.free()
		x.closeFilters()
		return nil, fmt.Errorf("open index %s: %w", dir, errors.Join(err, x.store.Close()))
	}
	return x, nil
}

// load reads the meta entries of the index.
func (x *Index) load() (err error) {
	meta := x.store.Meta()
	if x.plan, err = plan.Parse(meta.Plan); err != nil {
		return err
	}
	x.rule = x.opts.rule(x.plan.MaxDistance)
	x.counters = meta.Counters
	if x.opts.setsAnalyzer(meta) {
		if err := x.store.SetAnalyzer(x.opts.Analyzer); err != nil {
			return err
		}
	}
	x.ofTexts = match.TextAnalyzer(x.store.Meta().Analyzer) != nil
	x.firstRecord.Store(noRecord)
	x.hasBare.Store(x.counters.Bare > 0)
	return x.withView(func(v *store.View) error {
		if err := x.followCrowded(v); err != nil {
			return err
		}
		for r, err := range v.Records(1) {
			if err != nil {
				return err
			}
			x.firstRecord.Store(r.ID)
			break
		}
		return nil
	})
}

// followCrowded adds the recorded crowded documents to the documents that x.duplicates follows.
func (x *Index) followCrowded(v *store.View) error {
	for _, id := range x.store.Meta().Crowded {
		c, err := v.Duplicates(id)
		if err != nil {
			return err
		}
		r, _, err := v.Record(id)
		if err != nil {
			return err
		}
		if c.Texts != 0 {
			x.duplicates.Follow(duplicates.Page{ID: id, Key: r.Key, Texts: c.Texts})
		}
	}
	return nil
}

// If firstRecord is noRecord, no document has a record. If oldest is noSecond, no document has a
// time.
const (
	noRecord = math.MaxUint64
	noSecond = math.MaxUint64
)

// withView calls f with a new view, and closes the view.
func (x *Index) withView(f func(*store.View) error) error {
	v, err := x.store.View()
	if err != nil {
		return err
	}
	return errors.Join(f(v), v.Close())
}

// begin starts a call. It returns an error if the index is closed or ctx is done. Otherwise the
// caller must call end.
func (x *Index) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !x.calls.TryRLock() {
		return ErrClosed
	}
	return nil
}

// beginWrite is like begin, for a call that may write.
func (x *Index) beginWrite(ctx context.Context) error {
	if x.opts.ReadOnly {
		return ErrReadOnly
	}
	return x.begin(ctx)
}

func (x *Index) end() { x.calls.RUnlock() }

// loop returns an iterator over the values that call yields. call must return if yield returns
// false. The iterator yields the error of call last, unless the caller has left the loop.
func loop[T any](
	ctx context.Context, x *Index, call func(yield func(T) bool) error,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := x.begin(ctx)
		if err == nil {
			defer x.end()
			err = call(func(v T) bool {
				stopped = !yield(v, nil)
				return !stopped
			})
		}
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// alone runs a call that may write. Calls with the same turn run one at a time. The context of the
// call also ends when Close begins, and the error is then ErrClosed.
func (x *Index) alone(
	ctx context.Context, turn chan struct{}, call func(context.Context) error,
) error {
	if err := x.beginWrite(ctx); err != nil {
		return err
	}
	defer x.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(x.stopping, func() { cancel(ErrClosed) })()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := call(ctx)
	if err != nil && context.Cause(ctx) == ErrClosed {
		err = errors.Join(ErrClosed, err)
	}
	return err
}

// Close waits for calls in progress, makes all writes durable and closes the index. Later calls,
// including a second Close, return ErrClosed.
func (x *Index) Close() error {
	if x.closed.Swap(true) {
		return ErrClosed
	}
	x.stop()
	x.calls.Lock()
	err := x.storeAllCounts()
	x.closeFilters()
	x.shingles.free()
	return errors.Join(err, x.store.Close())
}

// Sync makes all earlier writes durable. It is needed only with NoSync. Errors: ErrFailed,
// ErrClosed and the error of the context.
func (x *Index) Sync(ctx context.Context) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	return cmp.Or(x.storeAllCounts(), x.store.Sync())
}

// Plan returns the plan of the index. The caller must not change it.
func (x *Index) Plan() *Plan { return x.plan }

// Errors that a caller can act on; match them with errors.Is. The error for an index that does not
// exist is fs.ErrNotExist.
var (
	// ErrNotIndex: the directory is not empty, and it is not an index.
	ErrNotIndex = fault.ErrNotIndex

	// ErrVersion: the index was written in a format that this version does not know.
	ErrVersion = fault.ErrVersion

	// ErrLocked: another process, or another Open in this one, has the index open.
	ErrLocked = fault.ErrLocked

	// ErrClosed: the index was closed.
	ErrClosed = fault.ErrClosed

	// ErrMismatch: the k, plan or analyzer of the index differs from the options.
	ErrMismatch = fault.ErrMismatch

	// ErrDistance: the MaxDistance of a query is larger than the k of the index, or the MaxDistance
	// of Pairs or Clusters is not in 0..64.
	ErrDistance = fault.ErrDistance

	// ErrNoText: the document has no text: its Fingerprint, Shingles and Tokens are 0. All such
	// documents would match each other. An index that records no fingerprint.Analyzer stores such a
	// document, as the fingerprint 0.
	ErrNoText = fault.ErrNoText

	// ErrTooLarge: a key, a scope, the Tokens of a document or a batch is over its limit.
	ErrTooLarge = fault.ErrTooLarge

	// ErrCorrupt: bytes in the index do not follow docs/format.md.
	ErrCorrupt = fault.ErrCorrupt

	// ErrReadOnly: a call would write to an index that was opened for reading only.
	ErrReadOnly = fault.ErrReadOnly

	// ErrFailed: a write could not be made durable. The error contains the cause. The index accepts
	// no further writes, and reads continue. Close the index and open it again, in this process or
	// another. It then has every acknowledged write. The failed write is stored completely or not
	// at all.
	ErrFailed = fault.ErrFailed
)

// ErrPlan: the plan does not exist, for example because k is too large, or its tables would miss
// matches.
var ErrPlan = plan.ErrUnusable

// Stats describes an index at the moment of the call. Its fields:
//
//	MaxDistance      int    // k, in bits
//	Plan             string // as ParsePlan reads it
//	Tables           int    // number of tables of the plan
//	Probes           int    // range scans per query
//	Analyzer         string // analyzer of the fingerprints. "": not recorded
//	Format           int    // number of the storage format, see docs/format.md
//	Documents        uint64 // stored documents
//	Bare             uint64 // documents without a record, of a bulk load of bare fingerprints
//	NextID           uint64 // ID of the next document; NextID-1 documents have ever been added
//	DiskBytes        uint64 // including the write-ahead log
//	Generation       uint64 // number of compactions and bulk loads
//	Packed           uint64 // fingerprints that the last compaction or bulk load packed
//	Live             uint64 // documents added since then, including removed documents
//	Removed          uint64 // documents removed since then; a compaction drops their entries
//	FilterBytes      uint64 // memory of the filters and of the removed IDs
//	DirectoryBytes   uint64 // memory of the directories of packed blocks
//	CachedBytes      uint64 // memory of cached packed blocks
//	StoreCachedBytes uint64 // memory of Pebble's block cache
//	Expired          uint64 // documents that Expire has removed since Open
//	CrowdedTexts     uint64 // texts that are duplicates of the most crowded document; 0: none
//	Crowded          string // the most crowded document, and what to do. "": none
//	CacheShort       string // sufficient size of the cache. "": the packed tables fit in it
type Stats = match.Stats

// Stats returns statistics of the index. It is fast, so it can be called often. After Close, it
// returns the zero Stats.
func (x *Index) Stats() Stats {
	if x.begin(context.Background()) != nil {
		return Stats{}
	}
	defer x.end()
	x.commitMu.Lock()
	counters, state := x.counters, x.hold()
	x.commitMu.Unlock()
	defer state.tables.Release()
	directory, cached := state.tables.PackedMemory()
	removed := uint64(0)
	for _, live := range state.live {
		removed += live.removed.count()
	}
	s := Stats{
		MaxDistance: x.plan.MaxDistance,
		Plan:        x.plan.String(),
		Tables:      len(x.plan.Tables),
		Probes:      x.plan.Probes(),
		Analyzer:    x.store.Meta().Analyzer,
		Format:      store.Format,
		Documents:   counters.Documents,
		Bare:        counters.Bare,
		NextID:      counters.NextID,
		DiskBytes:   x.store.DiskBytes(),

		Generation:     state.tables.Generation(),
		Packed:         state.tables.PackedEntries(),
		Live:           counters.NextID - max(state.tables.PackedBefore(), 1),
		Removed:        removed,
		FilterBytes:    uint64(state.memory()),
		DirectoryBytes: uint64(directory),
		CachedBytes:    uint64(cached),

		StoreCachedBytes: uint64(x.store.CachedBytes()),
		CacheShort:       state.tables.CacheShort(),

		Expired: x.expired.Load(),
	}
	s.CrowdedTexts, s.Crowded = x.crowded()
	return s
}

// countersNow returns the current counters.
func (x *Index) countersNow() store.Counters {
	x.commitMu.Lock()
	defer x.commitMu.Unlock()
	return x.counters
}

// crowded describes the most crowded document, and returns its number of different texts. If no
// document is crowded, it returns 0 and "".
func (x *Index) crowded() (texts uint64, message string) {
	pages := x.duplicates.Crowded()
	if len(pages) == 0 {
		return 0, ""
	}
	p := pages[0]
	name := fmt.Sprintf("%.200q", p.Key)
	if p.Key == "" {
		name = fmt.Sprintf("document %d", p.ID)
	}
	n := p.Texts.Estimate()
	return uint64(n), fmt.Sprintf("about %d different texts of one site are duplicates of %s: "+
		"compare some of them with it (neardup compare); if they are different pages of one "+
		"template, set a smaller SiteTexts (--site-texts)", n, name)
}

// Duplicates returns one count for each ID: the number of checks that returned a Duplicate of the
// document since the document got this ID. The count is 0 if no document has the ID. A crash may
// lose the last counts of up to 4,096 documents.
func (x *Index) Duplicates(ctx context.Context, ids ...uint64) ([]uint64, error) {
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	defer x.end()
	counts := make([]uint64, len(ids))
	for i, id := range ids {
		c, err := x.countOf(id)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		counts[i] = c.Checks
	}
	return counts, nil
}

func (x *Index) countOf(id uint64) (duplicates.Count, error) {
	x.commitMu.Lock() // no commit stores the pending counts between the two reads
	defer x.commitMu.Unlock()
	pending := x.duplicates.Pending(id)
	stored, err := x.store.Now().Duplicates(id)
	return stored.Add(pending), err
}

// StoreStats describes the Pebble database of an index, for monitoring. Counters start at zero when
// the index is opened.
type StoreStats struct {
	CompactionDebtBytes uint64 // estimate of the bytes that Pebble's compactions have to rewrite
	CompactionsFailed   uint64
	L0Tables            uint64 // files of level 0: the newest ones, not merged yet
	// files of level 0 that one read may search; writes stall if there are too many
	L0Sublevels     uint64
	MemTableBytes   uint64 // entries in memory that are in no file yet
	WALBytes        uint64 // size of the write-ahead log, which Open reads after a crash
	WALBytesWritten uint64
	CacheHits       uint64 // blocks of unpacked entries and records found in the cache
	CacheMisses     uint64
	WriteStalls     uint64 // times that writes waited for background work
	WriteStallTime  time.Duration
}

// StoreStats returns statistics of the store. After Close, it returns the zero StoreStats.
func (x *Index) StoreStats() StoreStats {
	if x.begin(context.Background()) != nil {
		return StoreStats{}
	}
	defer x.end()
	m := x.store.Metrics()
	s := StoreStats{
		CompactionDebtBytes: m.Compact.EstimatedDebt,
		CompactionsFailed:   uint64(m.Compact.FailedCount),
		L0Tables:            uint64(m.Levels[0].TablesCount),
		L0Sublevels:         uint64(m.Levels[0].Sublevels),
		MemTableBytes:       m.MemTable.Size,
		WALBytes:            m.WAL.Size,
		WALBytesWritten:     m.WAL.BytesWritten,
		CacheHits:           uint64(m.BlockCache.Hits),
		CacheMisses:         uint64(m.BlockCache.Misses),
	}
	s.WriteStalls, s.WriteStallTime = x.store.Stalls()
	return s
}

// Checkpoint makes dir a copy of the index as of one moment during the call, while reads and writes
// continue. The copy has every write that was acknowledged before the call, including writes with
// NoSync. It is a separate index with the same plan, IDs and times.
//
// The directory must be empty or must not exist. It must not be inside the directory of the index.
// If it is on the same file system, the files of the tables are hard links, so a checkpoint takes
// milliseconds and little disk at first. The space of a linked file is freed when neither the index
// nor a checkpoint uses it. For a backup that survives a failure of the disk, copy the checkpoint
// to another disk.
//
// If Checkpoint returns nil, dir is durable. After an error, dir is as it was before the call.
// After a crash, dir is complete, or it is empty or does not exist. The directory
// dir + ".incomplete" may then remain; remove it before the next call with this dir. Concurrent
// checkpoints are serialized.
//
// Errors: fs.ErrExist if dir is not empty or is inside the directory of the index, or if
// dir + ".incomplete" exists; ErrClosed, ErrFailed, and the errors of the context and of the file
// system.
func (x *Index) Checkpoint(ctx context.Context, dir string) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	if err := x.storeAllCounts(); err != nil {
		return err
	}
	return x.store.Checkpoint(ctx, dir)
}
