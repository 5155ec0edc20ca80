package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/pipe"
	"github.com/neardup/neardup/cmd/neardup/internal/progress"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/verify"
	"github.com/spf13/cobra"
)

func compactCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "compact --index DIR [flags]",
		Short: "Pack the tables, reclaim the space of deleted documents, or change the plan",
		Long: `Pack the tables and reclaim the space of deleted documents. No other process may
have the index open. --plan changes the tables of the index. --max-distance
changes its largest distance, and without --plan also chooses the best tables.`,
		Example: `  neardup compact --index ix
  neardup compact --index ix --max-distance 3`,
		Args: noArgs,
	})
	c.interrupted = "no document was changed; run it again to finish"
	indexes := c.requiredIndexFlag()
	design := c.flags.String(
		"plan", "", "new plan: a `design` of neardup plan, or auto for the best design")
	k := c.distanceFlag(0, plan.MaxDistance,
		"largest Hamming `distance` of the new plan (default unchanged)")
	return c.runs(func(ctx context.Context) error {
		var opts compaction.Options
		if *design != "" || c.given("max-distance") {
			var err error
			if opts.Plan, err = indexes.newPlan(cmp.Or(*design, "auto"), *k); err != nil {
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
	})
}

// newPlan returns the plan of a design, with the distance of the index unless --max-distance is
// given.
func (f *indexFlags) newPlan(design string, k int) (p *plan.Plan, err error) {
	var stats index.Stats
	err = f.read(func(x *index.Index) error {
		stats = x.Stats()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !f.call.given("max-distance") {
		k = stats.MaxDistance
	}
	if design == "auto" {
		choice, err := plan.Choose(k, int64(max(stats.Documents, 1)))
		return choice.Plan, err
	}
	if p, err = plan.Named(design, k); err != nil {
		err = usagef("--plan: %v", err)
	}
	return p, err
}

func deleteCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "delete --index DIR [flags] KEY...",
		Short: "Delete documents by key or by ID",
		Long: `Delete the documents with these keys; - reads keys from standard input, one per
line. With --ids, the arguments or lines are IDs. IDs are never reused, so a
document that was stored again under a new ID is not deleted.

` + quotedKeys,
		Example: `  neardup delete --index ix http://example.org/
  neardup clusters --index ix --removals | neardup delete --index ix --ids -`,
		Args: cobra.MinimumNArgs(1),
	})
	indexes := c.requiredIndexFlag()
	byID := c.flags.Bool("ids", false, "delete by ID")
	return c.runs(func(ctx context.Context) error { return c.delete(ctx, indexes, *byID) })
}

// deleteLine is the output of delete.
type deleteLine struct {
	Deleted int `json:"deleted"`
}

// deleteBatch is the number of documents that delete deletes at once.
const deleteBatch = 4096

func (c *call) delete(ctx context.Context, indexes *indexFlags, byID bool) error {
	valid := func(name string) (err error) {
		if byID {
			_, err = parseID(name)
		}
		return err
	}
	for _, arg := range c.args {
		if err := valid(arg); err != nil && arg != "-" {
			return usageError{err}
		}
	}
	if slices.Contains(c.args, "-") {
		remove, err := c.readAhead(ctx)
		if err != nil {
			return fmt.Errorf("standard input: %w; nothing was deleted", err)
		}
		defer remove()
	}
	x, err := index.Open(indexes.dir, &index.Options{MustExist: true})
	if err != nil {
		return err
	}
	done, stop := c.counting("documents", 0)
	defer stop()
	deleted, given := 0, 0
	err = c.nameBatches(valid, func(names []string) error {
		n, err := deleteNames(ctx, x, names, byID)
		deleted, given = deleted+n, given+len(names)
		done.Add(int64(len(names)))
		return err
	})
	if err == nil && deleted < given {
		c.logf("%d of %d are not in the index, or were named twice", given-deleted, given)
	}
	return errors.Join(err, c.printJSON(deleteLine{deleted}), x.Close())
}

// deleteNames deletes documents by key or by ID.
func deleteNames(ctx context.Context, x *index.Index, names []string, byID bool) (int, error) {
	if !byID {
		return x.Delete(ctx, names...)
	}
	ids := make([]uint64, len(names))
	for i, name := range names {
		var err error
		if ids[i], err = parseID(name); err != nil {
			return 0, err
		}
	}
	return x.DeleteIDs(ctx, ids...)
}

func parseID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		err = fmt.Errorf("%.40q is not an ID: want a decimal number", text)
	}
	return id, err
}

// readAhead copies standard input to a temporary file, unless it is a file. The process that writes
// to the pipe can have the index open until it ends.
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

// nameBatches calls do with the arguments in batches. It replaces "-" by the lines of standard
// input, which must be valid.
func (c *call) nameBatches(valid func(string) error, do func(names []string) error) error {
	var batch []string
	add := func(name string) error {
		if batch = append(batch, name); len(batch) < deleteBatch {
			return nil
		}
		err := do(batch)
		batch = batch[:0]
		return err
	}
	for _, arg := range c.args {
		if arg != "-" {
			if err := add(arg); err != nil {
				return err
			}
			continue
		}
		lines, read := bufio.NewScanner(c.in), 0
		lines.Buffer(nil, 4*match.MaxKeyBytes+len("\"\"\r\n"))
		for ; lines.Scan(); read++ {
			name := corpus.UnquoteKey(lines.Text())
			if err := valid(name); err != nil {
				return fmt.Errorf("standard input, line %d: %w", read+1, err)
			}
			if err := add(name); err != nil {
				return err
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("standard input, line %d: %w", read+1, err)
		}
	}
	return do(batch)
}

func checkpointCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "checkpoint --index DIR DEST",
		Short: "Copy an index to DEST, with hard links to its files if possible",
		Long: `Copy an index that no other process has open. DEST must be empty or must not
exist.`,
		Example: `  neardup checkpoint --index ix /backup/monday`,
		Args:    cobra.ExactArgs(1),
	})
	indexes := c.requiredIndexFlag()
	return c.runs(func(ctx context.Context) error {
		return indexes.read(func(x *index.Index) error {
			if err := x.Checkpoint(ctx, c.args[0]); err != nil {
				return err
			}
			stats := x.Stats()
			return c.printJSON(checkpointLine{c.args[0], stats.Documents, stats.DiskBytes})
		})
	})
}

// checkpointLine is the output of checkpoint.
type checkpointLine struct {
	Checkpoint string `json:"checkpoint"`
	Documents  uint64 `json:"documents"`
	DiskBytes  uint64 `json:"diskBytes"` // of the index; linked files are counted
}

// errProblems is the error of verify if the index has problems.
var errProblems = errors.New(
	"the index is damaged; \"neardup repair\" copies the readable documents into a new index")

func verifyCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "verify --index DIR",
		Short: "Check the consistency of an index; print a JSON line per problem",
		Long: `Check records, keys and tables of an index against each other. The exit code is
4 if there is a problem.`,
		Example: `  neardup verify --index ix`,
		Args:    noArgs,
	})
	indexes := c.requiredIndexFlag()
	return c.runs(func(ctx context.Context) error {
		bar := progress.New(c.cmd.Name(), c.err, c.outFile())
		opts := verify.Options{
			Progress: func(stage string, done uint64) {
				bar.Show(stage, int64(done), 0, stage == "files")
			},
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
					return p.Err // the rest was not checked
				}
			}
			return nil
		})
		bar.Stop()
		switch {
		case errors.Is(err, index.ErrCorrupt) && problems == 0:
			return errors.Join(err, // it names the remedy if the index cannot be opened
				c.printJSON(verify.Problem{Kind: verify.Unreadable, Keyspace: "index",
					Message: err.Error()}))
		case err != nil:
			return err
		case problems > 0:
			c.logf("%s: %s%s", indexes.dir, summary.Plural(int64(problems), "problem"),
				summary.Reasons(kinds))
			return errProblems
		}
		c.logf("%s: no problem in %s, %s", indexes.dir,
			summary.Plural(int64(stats.Documents), "document"),
			summary.Plural(int64(stats.Tables), "table"))
		return nil
	})
}

func repairCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "repair --index DIR [flags] DEST",
		Short: "Copy the readable documents of a damaged index into a new index in DEST",
		Long: `Copy every readable document of a damaged index into a new index in DEST, which
must not exist. --max-distance and --analyzer are needed only if they cannot be
read from the index.`,
		Example: `  neardup repair --index damaged repaired`,
		Args:    cobra.ExactArgs(1),
	})
	indexes := c.requiredIndexFlag()
	k := c.distanceFlag(0, plan.MaxDistance,
		"largest Hamming `distance` of the index (default the recorded distance)")
	analyzer := c.flags.String(
		"analyzer", "", "`name` of the analyzer of the index, or none for an index without one")
	return c.runs(func(ctx context.Context) error {
		var opts compaction.RepairOptions
		if c.given("max-distance") {
			choice, err := plan.Choose(*k, plan.DefaultDocuments)
			if err != nil {
				return err
			}
			opts.Plan = choice.Plan
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
		if errors.Is(err, compaction.ErrNotRepaired) {
			return fmt.Errorf("%w; set --max-distance and --analyzer to these values", err)
		} else if err != nil {
			return err
		}
		c.logf("%d documents are in %s; %d are lost", report.Documents, c.args[0], report.Lost)
		return c.printJSON(report)
	})
}
