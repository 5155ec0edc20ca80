// Package redis is an index of near-duplicates on a Redis Cluster, for crawlers on many machines
// that share what they have seen, and go on when one of them, or a master, dies.
//
//	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses})
//	x, err := redis.Open(ctx, client, redis.Options{Name: "pages"})
//	v, err := x.Check(ctx, neardup.Page{URL: url, ContentType: contentType, Body: body})
//
// The calls, their verdicts and their errors are those of package neardup's Index; neardup.Checker is what
// both are. One index on one machine is faster and cheaper while that is enough.
//
// What it guarantees: of near-duplicates that are checked at once, by any number of
// processes, one is New; what was answered survives that a master dies; an index is
// never opened under another k, plan, format or analyzer than it was made with. docs/distributed.md has the
// bytes, the protocol, why that holds, and what Redis must be like for it.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
)

var (
	// ErrUnavailable: nodes did not answer, or not with as many replicas as there have to be,
	// for as long as Options.Patience. It passes; repeat the call.
	ErrUnavailable = errors.New("redis is not available")
	// ErrFull: a node's maxmemory is used up.
	ErrFull = errors.New("redis is full")
	// ErrUnsafe: Redis is configured so that it may lose what was acknowledged. Open says how.
	ErrUnsafe = errors.New("redis may lose documents")
)

// LoseAtFailover as Options.Replicas waits for no replica: a failover loses what was answered just before,
// and two near-duplicates can both be New.
const LoseAtFailover = -1

// Options of Open.
type Options struct {
	// Name is what the keys of the index begin with: 1 to 64 letters, digits, dots, underscores
	// and hyphens.
	Name string

	// MaxDistance is k, recorded when the index is made. 0: what it was made with; for a new one
	// 6 with a Signer, else 3. index.Exact: only equal fingerprints match.
	MaxDistance int

	// Expected is how many documents a new index is for: it chooses the number of tables and of logs. 0: a million.
	Expected int64

	// Signer takes the text of pages and makes their fingerprints; its name is recorded. nil: the one
	// that the index was made with; for a new one one of visible text and the default options.
	Signer *page.Signer

	// Bare is neardup.Options.Bare: no Signer is needed, or recorded. Check fails then, CheckDocuments
	// compares fingerprints of any kind.
	Bare bool

	// MaxShingleDistance and MaxLengthRatio are those of index.Options.
	MaxShingleDistance int
	MaxLengthRatio     float64

	// Replicas is how many replicas must have a write, and be there for a read, before it counts.
	// Where a master's only replica has taken over, calls wait until that has a replica again: for calls to go
	// on at once, give each master two. 0: 1; of a single server, none. See LoseAtFailover and docs/distributed.md.
	Replicas int

	// Lease is how long a document that came first is waited for when its process is slow or
	// dead. It is a matter of speed only. 0: 1 s.
	Lease time.Duration

	// Patience is how long a call tries to get an answer through a failover. 0: 30 s.
	Patience time.Duration

	// NoRestart says that nothing restarts a node by itself, so that no AOF is needed.
	NoRestart bool
}

// Index is an open index. Its methods may be called from any goroutine of any number of processes.
type Index struct {
	run       runner
	cluster   *cluster
	name      names
	plan      *plan.Plan
	groupBits int
	analyzer  string
	signer    *page.Signer // nil: documents need no text
	rule      match.Rule
	lease     time.Duration
	grace     time.Duration // how old what was announced must be to be given up
	longLog   int           // bytes from which on a commit rewrites a log that is mostly dead

	now   func() time.Time
	pause func(context.Context) error
	token func() string

	sequence sequence
	drawing  chan struct{} // holds a token while numbers are drawn
	singles  chan *single
	flights  chan struct{} // holds a token for each that is under way
	mu       sync.RWMutex  // held for reading by calls
	closed   bool
}

var _ neardup.Checker = (*Index)(nil)

var nameRule = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Open opens the index of a name, and makes it where there is none. client is a
// *redis.ClusterClient, or a *redis.Client of a server that is no cluster; it stays the caller's.
//
// Errors: ErrUnsafe, ErrUnavailable, index.ErrNotIndex, index.ErrMismatch, index.ErrVersion, index.ErrPlan, those of Redis, ctx's.
func Open(ctx context.Context, client goredis.UniversalClient, o Options) (*Index, error) {
	x, err := open(ctx, client, &o)
	if err != nil {
		return nil, fmt.Errorf("open index %q in redis: %w", o.Name, err)
	}
	return x, nil
}

func open(ctx context.Context, client goredis.UniversalClient, o *Options) (*Index, error) {
	if !nameRule.MatchString(o.Name) {
		return nil, errors.New("a name has 1 to 64 letters, digits, dots, underscores and hyphens")
	}
	c, err := connect(ctx, client, o)
	if err != nil {
		return nil, err
	}
	x := newIndex(c.run, o)
	x.cluster = c
	meta, err := x.meta(ctx, o)
	if err != nil {
		return nil, err
	}
	return x, x.accept(o, meta)
}

const (
	defaultPatience = 30 * time.Second
	longLog         = 16 << 10
)

func newIndex(run runner, o *Options) *Index {
	x := &Index{
		run: run, name: names(o.Name), signer: o.Signer, lease: cmp.Or(max(o.Lease, 0), time.Second), longLog: longLog, now: time.Now, token: newToken,
		drawing: make(chan struct{}, 1), singles: make(chan *single), flights: make(chan struct{}, maxFlights),
	}
	x.grace = max(time.Minute, 10*x.lease, 2*o.Patience)
	x.pause = func(ctx context.Context) error { return sleep(ctx, firstPause) }
	return x
}

// meta reads what is recorded, or records it.
func (x *Index) meta(ctx context.Context, o *Options) (string, error) {
	record := newCommand(get, x.name.meta())
	if err := x.run(ctx, true, []*command{record}); err != nil || record.value != "" {
		return record.value, err
	}
	made, err := o.meta()
	if err != nil {
		return "", err
	}
	// the reply of a create that was repeated, or came second, is what is there
	record = newCommand(create, x.name.meta(), made)
	err = x.run(ctx, true, []*command{record})
	return record.value, err
}

// meta of a new index.
func (o *Options) meta() (string, error) {
	signer := o.Signer
	if signer == nil && !o.Bare {
		signer = check.DefaultSigner()
	}
	name, k := "", 3
	if signer != nil {
		name, k = signer.Name(), check.DefaultMaxDistance
	}
	if o.MaxDistance != 0 {
		k = max(o.MaxDistance, 0) // below it is index.Exact
	}
	expected := o.Expected
	if expected <= 0 {
		expected = 1_000_000
	}
	p, err := planFor(k, expected)
	if err != nil {
		return "", err
	}
	groups := min(bits.Len64(uint64(expected/logRecords)), maxBits)
	return fmt.Sprintf("%s %d\n%s\n%d\n%s", kind, format, p, groups, name), nil
}

// logRecords is how many records of the expected documents a log has at most, about, and at least half as many.
const logRecords = 8

// bucketEntries is how many entries a bucket should have at most, about: its reading is what a table costs.
const bucketEntries = 460

// planFor returns the plan with the fewest tables whose buckets stay small. More tables, not more
// probes: each bucket is a command.
func planFor(k int, expected int64) (best *plan.Plan, err error) {
	for _, design := range []string{"4", "10", "20"} {
		p, err := plan.Named(design, k)
		if err != nil {
			return nil, err
		}
		if len(p.Tables) > maxTables {
			break
		}
		best = p
		shortest := slices.MinFunc(p.Tables, func(a, b plan.Table) int { return a.Prefix - b.Prefix }).Prefix
		if float64(expected) <= bucketEntries*math.Exp2(float64(shortest)) {
			break
		}
	}
	return best, nil
}

// accept checks what is recorded against the options.
func (x *Index) accept(o *Options, meta string) error {
	lines := strings.Split(meta, "\n")
	what, version, _ := strings.Cut(lines[0], " ")
	if what != kind {
		return fmt.Errorf("%w: key %q holds %.40q", index.ErrNotIndex, x.name.meta(), meta)
	}
	if version != strconv.Itoa(format) {
		return fmt.Errorf("%w: its format is %.20q, this version knows %d", index.ErrVersion, version, format)
	}
	if len(lines) != 4 {
		return fmt.Errorf("%w: key %q has %d lines, not 4", index.ErrCorrupt, x.name.meta(), len(lines))
	}
	var err error
	if x.plan, err = plan.Parse(lines[1]); err != nil {
		return fmt.Errorf("%w: recorded plan: %w", index.ErrCorrupt, err)
	}
	if n := len(x.plan.Tables); n > maxTables || n != x.plan.Probes() {
		return fmt.Errorf("%w: the recorded plan has %d tables and %d probes, want as many, and at most %d", index.ErrCorrupt, n, x.plan.Probes(), maxTables)
	}
	if x.groupBits, err = strconv.Atoi(lines[2]); err != nil || x.groupBits < 0 || x.groupBits > maxBits {
		return fmt.Errorf("%w: %.20q bits of groups are recorded, want 0 to %d", index.ErrCorrupt, lines[2], maxBits)
	}
	if k := max(o.MaxDistance, 0); o.MaxDistance != 0 && k != x.plan.MaxDistance {
		return fmt.Errorf("%w: it has k = %d, not %d", index.ErrMismatch, x.plan.MaxDistance, k)
	}
	x.analyzer = lines[3]
	if o.Signer != nil && o.Signer.Name() != x.analyzer {
		return fmt.Errorf("%w: its fingerprints are of analyzer %q, not %q", index.ErrMismatch, x.analyzer, o.Signer.Name())
	}
	if x.signer == nil && x.analyzer != "" {
		x.signer, err = page.ParseSigner(x.analyzer)
	}
	if x.signer == nil && !o.Bare {
		return fmt.Errorf("%w: its fingerprints are of analyzer %q, by which pages cannot be compared; Bare opens it: %w", index.ErrMismatch, x.analyzer, err)
	}
	x.rule = match.For(x.analyzer, x.plan.MaxDistance).With(o.MaxShingleDistance, o.MaxLengthRatio)
	return x.rule.Check()
}

// begin lets Close wait for a call.
func (x *Index) begin(ctx context.Context) error {
	x.mu.RLock()
	err := ctx.Err()
	if x.closed {
		err = index.ErrClosed
	}
	if err != nil {
		x.mu.RUnlock()
	}
	return err
}

func (x *Index) end() { x.mu.RUnlock() }

// Close waits for the calls under way, and for what calls that their context ended have left. The client stays open.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return index.ErrClosed
	}
	x.closed = true
	for range maxFlights {
		x.flights <- struct{}{}
	}
	return nil
}
