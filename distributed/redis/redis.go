// Package redis is an index of near-duplicates on a Redis Cluster. Crawlers on many machines share
// it. They continue if one of the crawlers, or a master, fails.
//
//	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses})
//	x, err := redis.Open(ctx, client, redis.Options{Name: "pages"})
//	v, err := x.Check(ctx, neardup.Page{URL: url, ContentType: contentType, Body: body})
//
// The methods, verdicts and errors are the same as in package neardup. Both Index types implement
// neardup.Checker. As long as one machine suffices, an index on one machine is faster and cheaper.
//
// Guarantees: if any number of processes check near-duplicates at the same time, exactly one of
// them is New. An answer survives the failure of a master. An index opens only with the k, plan,
// format and analyzer with which it was created. docs/format-redis.md specifies the stored bytes
// and the protocol, proves the guarantees, and lists the required configuration of Redis.
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
	// ErrUnavailable means that nodes or the required number of replicas did not answer within
	// Options.Patience. The error is temporary. Repeat the call.
	ErrUnavailable = errors.New("redis is not available")
	// ErrFull means that the maxmemory of a node is used up.
	ErrFull = errors.New("redis is full")
	// ErrUnsafe means that Redis can lose acknowledged documents with its configuration. The
	// message of Open names the setting.
	ErrUnsafe = errors.New("redis may lose documents")
)

// LoseAtFailover is a value of Options.Replicas: writes wait for no replica. A failover then loses
// the latest documents, and two near-duplicates can both be New.
const LoseAtFailover = -1

// Options of Open.
type Options struct {
	// Name is the prefix of the index's keys in Redis: 1 to 64 letters, digits, dots, underscores
	// and hyphens.
	Name string

	// MaxDistance is k. It is recorded when the index is created. 0 means the recorded k or, for a
	// new index, the default of neardup.Options with a Signer and 3 without. index.Exact means that
	// only equal fingerprints match.
	MaxDistance int

	// Expected is the expected number of documents of a new index. It determines the numbers of
	// tables and of logs. Default: 1 million.
	Expected int64

	// Signer extracts the text of pages and computes their signatures. Its name is recorded. nil
	// means the recorded Signer or, for a new index, the Signer of visible text with the default
	// options.
	Signer *page.Signer

	// Bare is the same as neardup.Options.Bare: no Signer is needed or recorded. Check returns an
	// error, and CheckDocuments compares fingerprints of any kind.
	Bare bool

	// MaxShingleDistance, ShortAllowance and MaxLengthRatio are as in index.Options.
	MaxShingleDistance int
	ShortAllowance     int
	MaxLengthRatio     float64

	// Replicas is the number of replicas that must confirm a write or a read. After a master's only
	// replica has taken over, calls wait until the new master has a replica. With two replicas per
	// master, calls continue at once. Default: 1 for a cluster, none for a single server. See
	// LoseAtFailover and docs/distributed.md.
	Replicas int

	// Lease is the time for which a call waits for an earlier document whose process is slow or has
	// failed. It affects only the speed. Default: 1 s.
	Lease time.Duration

	// Patience is the time for which a call retries during a failover. Default: 30 s.
	Patience time.Duration

	// NoRestart asserts that no supervisor restarts a failed node automatically. Open then does not
	// require an append-only file (AOF).
	NoRestart bool
}

// Index is an open index. It is safe for concurrent use, also by any number of processes.
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
	grace     time.Duration // the age at which an uncommitted document can be killed
	// size in bytes above which a commit rewrites a log whose documents are mostly dead
	longLog int

	now   func() time.Time
	pause func(context.Context) error
	token func() string

	sequence sequence
	drawing  chan struct{} // has a token while numbers are drawn
	singles  chan *single
	flights  chan struct{} // has a token for each running flight
	mu       sync.RWMutex  // held for reading by calls
	closed   bool
}

var _ neardup.Checker = (*Index)(nil)

var nameRule = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Open opens the index with the name in o, and creates it if it does not exist. client is a
// *redis.ClusterClient, or a *redis.Client of a server that is not in a cluster. The caller closes
// client after the index.
//
// Errors: ErrUnsafe, ErrUnavailable, index.ErrNotIndex, index.ErrMismatch, index.ErrVersion,
// index.ErrPlan, and the errors of Redis and of ctx.
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
		run: run, name: names(o.Name), signer: o.Signer,
		lease: cmp.Or(max(o.Lease, 0), time.Second), longLog: longLog, now: time.Now,
		token:   newToken,
		drawing: make(chan struct{}, 1), singles: make(chan *single),
		flights: make(chan struct{}, maxFlights),
	}
	x.grace = max(time.Minute, 10*x.lease, 2*o.Patience)
	x.pause = func(ctx context.Context) error { return sleep(ctx, firstPause) }
	return x
}

// meta returns the recorded properties of the index, and records them if the index is new.
func (x *Index) meta(ctx context.Context, o *Options) (string, error) {
	record := newCommand(get, x.name.meta())
	if err := x.run(ctx, true, []*command{record}); err != nil || record.value != "" {
		return record.value, err
	}
	made, err := o.meta()
	if err != nil {
		return "", err
	}
	// If the command was repeated, or another process was faster, the reply is the stored value.
	record = newCommand(create, x.name.meta(), made)
	err = x.run(ctx, true, []*command{record})
	return record.value, err
}

// meta returns the properties of a new index.
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
		k = max(o.MaxDistance, 0) // index.Exact is negative
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

// logRecords is the approximate largest number of records per log, if the index has the expected
// number of documents. The smallest number is half of it.
const logRecords = 8

// bucketEntries is the approximate largest number of entries per bucket. Reading a bucket is the
// cost of a table.
const bucketEntries = 460

// planFor returns the plan with the fewest tables whose buckets stay small. It never adds probes,
// since each bucket is a command.
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
		shortest := slices.MinFunc(p.Tables, func(a, b plan.Table) int {
			return a.Prefix - b.Prefix
		}).Prefix
		if float64(expected) <= bucketEntries*math.Exp2(float64(shortest)) {
			break
		}
	}
	return best, nil
}

// accept checks the recorded properties against the options.
func (x *Index) accept(o *Options, meta string) error {
	lines := strings.Split(meta, "\n")
	what, version, _ := strings.Cut(lines[0], " ")
	if what != kind {
		return fmt.Errorf("%w: the value of key %q is %.40q", index.ErrNotIndex, x.name.meta(),
			meta)
	}
	if version != strconv.Itoa(format) {
		return fmt.Errorf("%w: its format is %.20q, but this version supports format %d",
			index.ErrVersion, version, format)
	}
	if len(lines) != 4 {
		return fmt.Errorf("%w: key %q has %d lines, not 4", index.ErrCorrupt,
			x.name.meta(), len(lines))
	}
	var err error
	if x.plan, err = plan.Parse(lines[1]); err != nil {
		return fmt.Errorf("%w: recorded plan: %w", index.ErrCorrupt, err)
	}
	if n := len(x.plan.Tables); n > maxTables || n != x.plan.Probes() {
		return fmt.Errorf("%w: the recorded plan has %d tables and %d probes, want as many, and "+
			"at most %d", index.ErrCorrupt, n, x.plan.Probes(), maxTables)
	}
	if x.groupBits, err = strconv.Atoi(lines[2]); err != nil || x.groupBits < 0 ||
		x.groupBits > maxBits {
		return fmt.Errorf("%w: %.20q bits of groups are recorded, want 0 to %d", index.ErrCorrupt,
			lines[2], maxBits)
	}
	if k := max(o.MaxDistance, 0); o.MaxDistance != 0 && k != x.plan.MaxDistance {
		return fmt.Errorf("%w: it has k = %d, not %d", index.ErrMismatch, x.plan.MaxDistance, k)
	}
	x.analyzer = lines[3]
	if o.Signer != nil && o.Signer.Name() != x.analyzer {
		return fmt.Errorf("%w: its fingerprints are of analyzer %q, not %q", index.ErrMismatch,
			x.analyzer, o.Signer.Name())
	}
	if x.signer == nil && x.analyzer != "" {
		x.signer, err = page.ParseSigner(x.analyzer)
	}
	if x.signer == nil && !o.Bare {
		return fmt.Errorf("%w: its fingerprints are of analyzer %q, which cannot compare pages; "+
			"set Bare to open it: %w", index.ErrMismatch, x.analyzer, err)
	}
	x.rule = match.Default(x.plan.MaxDistance).With(o.MaxShingleDistance, o.ShortAllowance,
		o.MaxLengthRatio)
	return x.rule.Check()
}

// begin registers a call, for which Close waits.
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

// Close waits for running calls, and for the rest of the work of calls whose context ended. It does
// not close the client.
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
