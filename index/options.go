package index

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/process"
	"github.com/neardup/neardup/store"
)

// Options configures Open. With nil or the zero value, Open uses the defaults, and creates the
// index if it does not exist. Open returns an error for a negative value, unless the comment of the
// field defines it.
type Options struct {
	// MaxDistance is k, the largest distance of a query in bits, at most 16. For an existing index,
	// it must equal the k of the index. Only compaction.Run changes k. 0: the k of the index, or 3
	// for a new index. Exact: only equal fingerprints match.
	MaxDistance int

	// ExpectedDocuments is used to choose the plan of a new index. 0: ten million.
	ExpectedDocuments int64

	// Plan must equal the plan of an existing index. nil: the plan of the index. For a new index,
	// nil selects the plan with the smallest product of query time and number of tables for
	// ExpectedDocuments. ParsePlan returns other plans; "neardup plan" prints their costs.
	Plan *Plan

	// Analyzer is the Name of the fingerprint.Analyzer that computes the fingerprints. It may be
	// any other name that distinguishes fingerprints that must not be compared. It cannot change
	// after the first document was added. "": the analyzer of the index, if any. If it is the name
	// of an Analyzer or of a page.Signer, documents without text are refused (ErrNoText).
	Analyzer string

	// CacheBytes bounds the memory for packed blocks, for Pebble's cache, and for writes that are
	// not flushed yet. Packed blocks take at most three quarters of CacheBytes. They are read into
	// memory in the background after Open and after a compaction, and stay there. The Shingles of
	// candidates take additional memory, 40 bytes each: at most a sixteenth of CacheBytes, 1 GiB,
	// and a sixteenth of the machine's memory. All of this memory is allocated when it is needed.
	//
	// If CacheBytes is 0, all packed blocks are cached, up to half of the machine's memory.
	// Pebble's cache then takes 512 MiB, but at most an eighth of the machine's memory. Write
	// buffers take 96 MiB. Stats reports whether the memory is too small for all packed blocks
	// (CacheShort).
	CacheBytes int64

	// FilterBytes bounds the memory for filters, which avoid reads of entries that do not
	// exist. Half is for packed tables: 2.5 bytes per fingerprint and table and, for k from 1 to 3
	// and up to 1,966,080 fingerprints, 32 bytes more to search them in memory. A quarter is for
	// live entries, which are searched in memory while 40 bytes per fingerprint fit. A quarter
	// is for keys: 2.5 bytes each, with room for up to four times as many. The memory is
	// allocated as needed. 0: 2 GiB. Below 0: no filters; every lookup reads the tables.
	FilterBytes int64

	// MaxShingleDistance is the limit of d1 + d2 for two long documents that match, if both have
	// Shingles: d1 is the distance of their Fingerprints and d2 the distance of their Shingles. The
	// index does not record this limit and the next two limits. Stored documents do not depend on
	// them, except that CheckAndAdd does not store a Duplicate. 0: 36. Below 0: Shingles are not
	// compared.
	MaxShingleDistance int

	// ShortAllowance makes the limit of d1 + d2 depend on the tokens n of the longer text:
	//
	//	max(min(MaxShingleDistance, n/7), (MaxShingleDistance+ShortAllowance) * (140-n)/140)
	//
	// If one word differs, a larger part of the shingles of a short text changes, so the limit is
	// larger. Near pages of 80 to 250 tokens are mostly distinct pages of one template, so the
	// limit is smaller. 0: 40. Below 0: the limit is MaxShingleDistance.
	ShortAllowance int

	// MaxLengthRatio is the largest ratio of the lengths of two documents that match, if both
	// lengths are known: a text and three copies of it in a row have the same words. 0: 1.3. Below
	// 0: lengths are not compared. Other values below 1 are an error.
	MaxLengthRatio float64

	// SiteTexts determines how soon CheckAndAdd separates pages of one site that share a template,
	// such as the products of a shop. A site is the host of keys that are URLs, within a scope. A
	// page that matches a stored page of its site is compared with the 16 nearest other stored
	// pages of the site. They must be among the nearest 64 documents within MaxDistance. M is the
	// median of their d1 + d2. The page is a Duplicate of the match if its own d1 + d2 is at most
	// M/2, or if the Digests are equal.
	//
	// If there are fewer than two other pages, the first SiteTexts - 1 different texts that match
	// are Duplicates. A later text is a Duplicate if at most a third of its shingles differ, where
	// the limit is at least about 8 shingles and at most about 16. So about SiteTexts - 1 distinct
	// pages of each template are not stored. A small SiteTexts also separates versions of a page
	// that are stored under several URLs of a site. 0: 5. Below 0: pages of one site are compared
	// in the same way as other pages.
	//
	// Like the limits above, the option is not recorded, and the answers of Query do not depend on
	// it. Sites are ignored if Shingles are not compared. With concurrent calls, a page may be
	// compared before the duplicates of the other calls are counted. See docs/quality.md.
	SiteTexts int

	// Now returns the time at which a document is stored: see Document.Added. The time is stored in
	// whole seconds. A time outside the years 1970 to 9999 is replaced by the nearest time in these
	// years. Now is called by one goroutine at a time, under a lock. nil: time.Now.
	Now func() time.Time

	// Durability is how durable a write is when its call returns. Default: Sync.
	Durability Durability

	// KeepDuplicates makes CheckAndAdd store a duplicate as well.
	KeepDuplicates bool

	// MustExist makes Open return fs.ErrNotExist if the index does not exist.
	MustExist bool

	// ReadOnly makes all writes return ErrReadOnly. The index must exist, and no other process may
	// have it open.
	ReadOnly bool

	// FS is the file system. nil: the operating system's.
	FS vfs.FS

	// Logger receives warnings, and the store's own messages at debug level. nil: none.
	Logger *slog.Logger
}

// Exact is the MaxDistance of Options for an index with k = 0, and of a Query for equal
// fingerprints.
const Exact = match.Exact

const defaultMaxDistance = 3

// Durability is how durable a write is when its call returns.
type Durability int

const (
	// Sync: the write is on the disk. Concurrent writes share a flush of the disk.
	Sync Durability = iota
	// NoSync: the write is in memory. A crash of the process or the machine may lose the last
	// writes. It loses whole writes, beginning with the newest. Index.Sync makes all earlier writes
	// durable.
	NoSync
)

// Plan describes the tables of an index, in which a few lookups find every fingerprint within k
// bits. ParsePlan returns a Plan. A Plan is immutable. Its fields:
//
//	MaxDistance int     // k
//	Tables      []Table // sorted copies of all fingerprints
//
// The fields of a Table:
//
//	Permutation []Bits // ranges of bits, First to Last, in their new order; bit 0: most significant
//	Prefix      int    // length in bits of the prefix that a probe looks up, 1 to 64
//	Radius      int    // a query probes all prefixes within this many bits of its own
//
// The fields of Bits:
//
//	First, Last int
type Plan = plan.Plan

// ParsePlan returns the plan of a design for distance k, or parses a plan in the form of
// Stats.Plan. A name and a k denote the same plan in every version.
//
// The design blocks-m has m tables, for any m up to k+1. Each table begins with another block of
// bits. If a name is a number, it is the number of tables of the design at k = 3. The designs 20,
// 16, 10 and 4 are the designs of the paper (section 3.1.2). The designs 4, 3 and 2 are blocks-m
// with k+1, k and half of k+1 tables. Fewer tables take less space and need more probes per query.
//
// Error: ErrPlan if there is no such design, or if the tables would miss a match within k bits.
func ParsePlan(s string, k int) (*Plan, error) {
	if !strings.Contains(s, "=") {
		return plan.Named(s, k)
	}
	p, err := plan.Parse(s)
	if err == nil && p.MaxDistance != k {
		return nil, fmt.Errorf("%w: k is %d, but the plan is for k = %d", ErrPlan, k, p.MaxDistance)
	}
	return p, err
}

// check returns an error for options that are invalid for every index.
func (o *Options) check() error {
	switch {
	case o.ExpectedDocuments < 0:
		return fmt.Errorf("ExpectedDocuments is %d, want 0 for the default, or more",
			o.ExpectedDocuments)
	case o.CacheBytes < 0:
		return fmt.Errorf("CacheBytes is %d, want 0 for the default, or more", o.CacheBytes)
	case o.Durability != Sync && o.Durability != NoSync:
		return fmt.Errorf("Durability is %d, want Sync (%d) or NoSync (%d)",
			o.Durability, Sync, NoSync)
	}
	return o.rule(0).Check()
}

func (o *Options) siteTexts() int { return cmp.Or(o.SiteTexts, match.SiteTexts) }

// plan returns the plan of a new index.
func (o *Options) plan() (*plan.Plan, error) {
	k := o.maxDistance()
	if o.Plan == nil {
		c, err := plan.Choose(k, cmp.Or(o.ExpectedDocuments, plan.DefaultDocuments))
		return c.Plan, err
	}
	if o.MaxDistance != 0 && k != o.Plan.MaxDistance {
		return nil, fmt.Errorf("%w: k is %d, but the plan is for k = %d", ErrPlan, k,
			o.Plan.MaxDistance)
	}
	return plan.New(o.Plan.MaxDistance, o.Plan.Tables...)
}

// shingleBytes returns the size of the shingle cache: a sixteenth of CacheBytes, within limits.
func (o *Options) shingleBytes() int64 {
	if o.CacheBytes == 0 {
		return defaultShingleBytes
	}
	return min(min(o.CacheBytes, process.Memory())/shingleShare, maxShingleBytes)
}

func (o *Options) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// second returns the current time as the index stores it, in seconds.
func (o *Options) second() uint64 { return match.Second(o.now()) }

func (o *Options) maxDistance() int {
	switch o.MaxDistance {
	case 0:
		return defaultMaxDistance
	case Exact:
		return 0
	}
	return o.MaxDistance
}

// accept checks the options against the meta entries of an existing index, before Open changes it.
func (o *Options) accept(meta store.Meta) error {
	p, err := plan.Parse(meta.Plan)
	if err != nil {
		return fmt.Errorf("%w: recorded plan: %w", ErrCorrupt, err)
	}
	if o.setsAnalyzer(meta) {
		meta.Analyzer = o.Analyzer
	}
	return o.checkAgainst(p, meta.Analyzer)
}

// setsAnalyzer reports whether Open records the analyzer: if the index can be written, records no
// analyzer and never had a document.
func (o *Options) setsAnalyzer(meta store.Meta) bool {
	return meta.Analyzer == "" && o.Analyzer != "" && meta.Counters.NextID == 1 && !o.ReadOnly
}

// checkAgainst compares the options with the plan and the analyzer of the index.
func (o *Options) checkAgainst(p *plan.Plan, analyzer string) error {
	if o.MaxDistance != 0 && o.maxDistance() != p.MaxDistance {
		return fmt.Errorf("%w: it has k = %d, not %d", ErrMismatch, p.MaxDistance, o.maxDistance())
	}
	if o.Plan != nil {
		asked, err := plan.New(o.Plan.MaxDistance, o.Plan.Tables...) // normalized, as recorded
		if err != nil {
			return err
		}
		if asked.String() != p.String() {
			return fmt.Errorf("%w: its plan is %q, not %q", ErrMismatch, p, asked)
		}
	}
	if o.Analyzer != "" && o.Analyzer != analyzer {
		if analyzer == "" {
			analyzer = "(none recorded)"
		}
		return fmt.Errorf("%w: its fingerprints are of analyzer %q, not %q: open it with its own "+
			"analyzer or with none; to change the analyzer, create a new index from the documents "+
			"(docs/operations.md, Upgrade)", ErrMismatch, analyzer, o.Analyzer)
	}
	return nil
}

// rule returns the rule of verdicts and queries within k bits.
func (o *Options) rule(k int) match.Rule {
	return match.Default(k).With(o.MaxShingleDistance, o.ShortAllowance, o.MaxLengthRatio)
}
