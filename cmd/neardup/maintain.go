package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/pipe"
	"github.com/neardup/neardup/cmd/neardup/internal/progress"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/verify"
)

var compactCommand = command{
	name:        "compact",
	args:        "-index DIR [-plan auto|DESIGN] [-k K]",
	summary:     "pack the tables, give back the space of what was deleted, or change the plan; the index must not be in use",
	interrupted: "no document is changed; run it again to do the rest",
	run:         runCompact,
}

func runCompact(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	design := c.flags.String("plan", "", "put the index under the plan of a `design`, or under the best one for its documents: auto")
	k := c.distanceFlag(0, "largest Hamming `distance` under the new plan (default as it is)")
	memory := c.sizeFlag("memory", 1<<30, 1<<20, "`size` of the memory for sorting")
	c.check(func() error {
		if c.given("k") && *design == "" {
			return usagef("-k is fixed by the plan; change it together with -plan")
		}
		return nil
	})
	if err := c.parseFlags(); err != nil {
		return err
	}
	opts := compaction.Options{CacheBytes: indexes.cache.bytes(), MemoryBytes: memory.bytes()}
	if *design != "" {
		var stats index.Stats
		err := indexes.read(func(x *index.Index) error {
			stats = x.Stats()
			return nil
		})
		if err != nil {
			return err
		}
		if !c.given("k") {
			*k = stats.MaxDistance
		}
		if *design == "auto" {
			var choice plan.Choice
			choice, err = plan.Choose(*k, int64(max(stats.Documents, 1)))
			opts.Plan = choice.Plan
		} else {
			opts.Plan, err = planNamed("plan", *design, *k)
		}
		if err != nil {
			return err
		}
	}
	show, stop := c.compaction()
	opts.Progress = show
	report, err := compaction.Run(ctx, indexes.dir, opts)
	stop()
	if err != nil {
		return err
	}
	return c.printJSON(report)
}

var deleteCommand = command{
	name:    "delete",
	args:    "-index DIR [-before TIME] [-ids] KEY...",
	summary: "delete documents by key (- reads keys from standard input, one a line), by ID or by age",
	more: quotedKeys + `Keys on standard input are read so, too.

"neardup clusters -index DIR -output-format removals" prints IDs for -ids. Every document has an
ID, and no ID is used again, so a page that was stored again since then stays.`,
	run: runDelete,
}

// deleteLine is the output.
type deleteLine struct {
	Deleted int `json:"deleted"`
}

func runDelete(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	var bound time.Time
	c.flags.Func("before", "delete documents that were added before this `time`: 2026-01-31 (midnight UTC), 2026-01-31T12:00:00Z, or a duration ago such as 30d", func(s string) (err error) {
		bound, err = parseTime(s, time.Now())
		return err
	})
	byID := c.flags.Bool("ids", false, "delete by ID: each KEY, or line of standard input, is one; they are held in memory, 8 bytes each")
	if err := c.parse(); err != nil {
		return err
	}
	if bound.IsZero() && len(c.args) == 0 {
		return usagef("nothing to delete: give a KEY, - to read keys from standard input, or -before")
	}
	if slices.Contains(c.args, "-") {
		remove, err := c.readAhead(ctx)
		if err != nil {
			return fmt.Errorf("standard input: %w; nothing was deleted", err)
		}
		defer remove()
	}
	var ids []uint64
	if *byID {
		var err error
		if ids, err = c.ids(); err != nil {
			return fmt.Errorf("%w; nothing was deleted", err)
		}
	}
	x, err := index.Open(indexes.dir, &index.Options{MustExist: true, CacheBytes: indexes.cache.bytes()})
	if err != nil {
		return err
	}
	expired, deleted, given := 0, 0, len(ids)
	if !bound.IsZero() {
		expired, err = x.DeleteBefore(ctx, bound)
	}
	switch {
	case err != nil:
	case *byID:
		deleted, err = x.DeleteIDs(ctx, ids...)
	default:
		deleted, given, err = c.deleteKeys(ctx, x)
	}
	if err == nil && deleted < given {
		c.logf("%d of %d are not in the index, or were given twice", given-deleted, given)
	}
	return errors.Join(err, c.printJSON(deleteLine{expired + deleted}), x.Close())
}

// readAhead reads standard input to its end, into a temporary file unless it is a file: who
// writes it may have the index open until then.
func (c *call) readAhead(ctx context.Context) (remove func(), err error) {
	in := pipe.Cancelable(ctx, c.in)
	if in == c.in {
		return func() {}, nil
	}
	file, err := os.CreateTemp("", "neardup-delete-")
	if err != nil {
		return nil, err
	}
	remove = func() {
		file.Close()
		os.Remove(file.Name())
	}
	if _, err = io.Copy(file, in); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		remove()
	}
	c.in = file
	return remove, err
}

// ids are those that the arguments name.
func (c *call) ids() (ids []uint64, err error) {
	err = c.eachName(func(name string) error {
		id, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			return fmt.Errorf("number %d: %.40q is no ID", len(ids)+1, name)
		}
		ids = append(ids, id)
		return nil
	})
	return ids, err
}

// deleteKeys removes the documents of the keys that the arguments name, some hundreds at a time, and returns
// how many keys there were.
func (c *call) deleteKeys(ctx context.Context, x *index.Index) (deleted, given int, err error) {
	var keys []string
	flush := func() error {
		n, err := x.Delete(ctx, keys...)
		deleted, given, keys = deleted+n, given+len(keys), keys[:0]
		return err
	}
	err = c.eachName(func(key string) error {
		if keys = append(keys, key); len(keys) < maxBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return deleted, given, err
}

// eachName calls do with each argument; "-" stands for the lines of standard input.
func (c *call) eachName(do func(name string) error) error {
	for _, arg := range c.args {
		if arg != "-" {
			if err := do(arg); err != nil {
				return err
			}
			continue
		}
		lines, read := bufio.NewScanner(c.in), 0
		lines.Buffer(nil, 4*match.MaxKeyBytes+len("\"\"\r\n"))
		for ; lines.Scan(); read++ {
			if err := do(corpus.UnquoteKey(lines.Text())); err != nil {
				return err
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("standard input, line %d: %w", read+1, err)
		}
	}
	return nil
}

// parseTime parses a date in UTC, a time, or a duration before now. The time must be in the past: any
// other one would delete every document.
func parseTime(s string, now time.Time) (time.Time, error) {
	t := now
	if d, err := parseDuration(s); err == nil {
		t = now.Add(-d)
	} else if t, err = time.Parse(time.RFC3339, s); err != nil {
		if t, err = time.Parse(time.DateOnly, s); err != nil {
			return t, errors.New("want a date, an RFC 3339 time or a duration such as 30d")
		}
	}
	if !t.Before(now) {
		return t, errors.New("it is not in the past, so it would delete every document; to do that, remove the directory of the index")
	}
	return t, nil
}

var checkpointCommand = command{
	name:    "checkpoint",
	args:    "-index DIR DEST",
	summary: "make DEST, which must not exist or be empty, a copy of an index that is not in use",
	run:     runCheckpoint,
}

// checkpointLine says what was copied.
type checkpointLine struct {
	Checkpoint string `json:"checkpoint"`
	Documents  uint64 `json:"documents"`
	DiskBytes  uint64 `json:"diskBytes"` // of the index; linked files are counted
}

func runCheckpoint(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 {
		return usagef("want the folder to make the copy in, and nothing else")
	}
	return indexes.read(func(x *index.Index) error {
		if err := x.Checkpoint(ctx, c.args[0]); err != nil {
			return err
		}
		stats := x.Stats()
		return c.printJSON(checkpointLine{c.args[0], stats.Documents, stats.DiskBytes})
	})
}

var verifyCommand = command{
	name:    "verify",
	args:    "-index DIR",
	summary: "check everything in an index against everything else; a JSON line for each problem, exit 4 if there is any",
	run:     runVerify,
}

// errProblems is the error of verify if it finds problems.
var errProblems = errors.New("the index is damaged; \"neardup repair\" saves what can be saved")

func runVerify(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	memory := c.sizeFlag("memory", 256<<20, 1<<20, "`size` of the memory for sorting, if parts of the index differ")
	if err := c.parseFlags(); err != nil {
		return err
	}
	bar := progress.New(c.command.name, c.err, c.outFile())
	opts := verify.Options{
		MemoryBytes: memory.bytes(),
		Progress:    func(stage string, done uint64) { bar.Show(stage, int64(done), 0, stage == "files") },
	}
	var stats index.Stats
	problems, kinds := 0, make(map[string]int64)
	err := indexes.read(func(x *index.Index) error {
		stats = x.Stats()
		for p := range x.Verify(ctx, opts) {
			problems++
			kinds[string(p.Kind)]++
			if err := c.printJSON(p); err != nil {
				return err
			}
			if p.Kind == verify.Unchecked && p.Err != nil {
				return p.Err // the rest was not looked at
			}
		}
		return nil
	})
	bar.Stop()
	switch {
	case errors.Is(err, index.ErrCorrupt) && problems == 0:
		return errors.Join(c.printJSON(verify.Problem{Kind: verify.Unreadable, Keyspace: "index", Message: err.Error()}), errProblems)
	case err != nil:
		return err
	case problems > 0:
		c.logf("%s: %d problems%s", indexes.dir, problems, summary.Reasons(kinds))
		return errProblems
	}
	c.logf("%s: no problem in %d documents, %d tables", indexes.dir, stats.Documents, stats.Tables)
	return nil
}

var repairCommand = command{
	name:    "repair",
	args:    "-index DIR [-design DESIGN -k K] [-analyzer NAME] DEST",
	summary: "copy every document that can be read from a damaged index into a new index in DEST, which must not exist",
	run:     runRepair,
}

func runRepair(ctx context.Context, c *call) error {
	indexes := c.requiredIndexFlags()
	design := c.flags.String("design", "", "`design` that the index was made with, if its own cannot be read")
	k := c.distanceFlag(importK, "largest Hamming `distance`; required with -design")
	analyzer := c.flags.String("analyzer", "", "`name` of the analyzer that the index was made with, if its own cannot be read; none: it had none")
	memory := c.sizeFlag("memory", 1<<30, 1<<20, "`size` of the memory for sorting")
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 {
		return usagef("want one directory that does not exist, to make the new index in")
	}
	opts := compaction.RepairOptions{Options: compaction.Options{CacheBytes: indexes.cache.bytes(), MemoryBytes: memory.bytes()}}
	switch {
	case *design != "" && !c.given("k"):
		return usagef("-design requires -k")
	case *design != "":
		var err error
		if opts.Plan, err = planNamed("design", *design, *k); err != nil {
			return err
		}
	case c.given("k"):
		return usagef("-k requires -design")
	}
	if *analyzer == "none" {
		opts.Analyzer = new(string)
	} else if *analyzer != "" {
		opts.Analyzer = analyzer
	}
	told := 0
	opts.Unreadable = func(err error) {
		if told++; told <= 20 {
			c.logf("%v", err)
		}
	}
	show, stop := c.compaction()
	opts.Progress = show
	report, err := compaction.Repair(ctx, indexes.dir, c.args[0], opts)
	stop()
	if told > 20 {
		c.logf("and %d more places that cannot be read", told-20)
	}
	if err != nil {
		return err
	}
	c.logf("%d documents are in %s; %d are lost", report.Documents, c.args[0], report.Lost)
	return c.printJSON(report)
}
