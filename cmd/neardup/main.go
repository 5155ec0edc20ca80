// Command neardup finds near-duplicate documents with a persistent index.
//
// It prints results, and nothing else, on standard output: one JSON object per line unless a
// subcommand says otherwise. Diagnostics go to standard error. docs/reference/output.md lists the
// exit codes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/eval"
	_ "github.com/neardup/neardup/cmd/neardup/internal/malloc"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/store"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		sig := (<-signals).(syscall.Signal)
		signal.Stop(signals) // a second signal ends the program at once
		cancel(signalled{sig})
	}()
	// A write to a closed standard output fails like any other write, so that the index is closed
	// and a temporary index is removed.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args[1:], &streams{os.Stdin, os.Stdout, os.Stderr}))
}

// signalled is the cause of the cancellation of a context by a signal.
type signalled struct{ syscall.Signal }

func (s signalled) Error() string        { return s.String() }
func (s signalled) Is(target error) bool { return target == context.Canceled }

// streams are the standard streams of the program.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// The exit codes; docs/reference/output.md explains them.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitNothing = 3 // no documents in the inputs
	// a damaged index, or an input that is broken or not recognized
	exitDamaged = 4
	exitSignal  = 128                               // plus the number of the signal, like a shell
	exitUnread  = exitSignal + int(syscall.SIGPIPE) // the reader closed standard output
)

// usageError is the error of a wrong command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// app is one run of the program.
type app struct {
	*streams
	call *call // nil until the command line of a subcommand is accepted
}

// commandGroups are the subcommands under the headings of the help.
var commandGroups = []struct {
	id, title   string
	subcommands []func(*app) *cobra.Command
}{
	{"documents", "Find near-duplicates:", []func(*app) *cobra.Command{dedupCommand, queryCommand,
		compareCommand, pairsCommand, clustersCommand, serveCommand}},
	{"data", "Move data:", []func(*app) *cobra.Command{fingerprintCommand, importCommand,
		exportCommand, deleteCommand}},
	{"index", "Maintain an index:", []func(*app) *cobra.Command{statsCommand, compactCommand,
		checkpointCommand, verifyCommand, repairCommand}},
	{"development", "Choose parameters and measure:",
		[]func(*app) *cobra.Command{planCommand, evalCommand, benchCommand}},
}

func init() { cobra.EnableCommandSorting = false } // groups have the usual order of work

// noArgs returns an error if there are arguments. cobra.NoArgs would call them unknown commands.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}

// newRoot returns the root command of a.
func newRoot(a *app) *cobra.Command {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	root := &cobra.Command{
		Use:   "neardup",
		Short: "Find near-duplicate documents with a persistent index",
		Long: `neardup finds near-duplicate documents with a persistent index.

Results go to standard output, and messages to standard error. Exit codes: 0
success; 1 failure; 2 wrong usage; 3 no documents in the inputs; 4 a damaged
index, or an input that is broken or not recognized (the other inputs are
processed); 130 interrupted.`,
		Example:                    "  neardup dedup --index crawl.index pages.warc.gz",
		Version:                    fmt.Sprintf("%s, index format %d", version, store.Format),
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		DisableFlagsInUseLine:      true,
	}
	root.Flags().Bool(
		"version", false, "print the version of neardup and the format of its indexes")
	root.SetVersionTemplate("neardup {{.Version}}\n")
	for _, group := range commandGroups {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, subcommand := range group.subcommands {
			cmd := subcommand(a)
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	return root
}

func run(ctx context.Context, args []string, io *streams) int {
	a := &app{streams: &streams{io.in, output{io.out}, io.err}}
	root := newRoot(a)
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		for _, cmd := range root.Commands() { // the help needs the backticks, completion does not
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				f.Usage = strings.ReplaceAll(f.Usage, "`", "")
			})
		}
	}
	cmd, err := root.ExecuteContextC(ctx)
	return a.exitCode(ctx, cmd.CommandPath(), err)
}

// exitCode returns the exit code of the command called name and reports its error.
func (a *app) exitCode(ctx context.Context, name string, err error) int {
	c := a.call
	if err == nil && c != nil {
		err = c.broken
	}
	switch {
	case err == nil && c != nil && c.foundNothing():
		fmt.Fprintf(a.err,
			"%s: no documents in the inputs; the lines above count the skipped records\n", name)
		return exitNothing
	case err == nil:
		return exitDone
	case c == nil || errors.As(err, new(usageError)):
		fmt.Fprintf(a.err, "%s: %s\nrun \"%s --help\" for usage\n", name, printable(err), name)
		return exitUsage
	case unread(err):
		return exitUnread
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		effect := cmp.Or(c.interrupted, "the printed results are complete")
		if errors.Is(err, compaction.ErrDone) {
			effect = "the work is done"
		}
		fmt.Fprintf(a.err, "%s: interrupted; %s\n", name, effect)
		if by, ok := context.Cause(ctx).(signalled); ok {
			return exitSignal + int(by.Signal)
		}
		return exitFailed
	default:
		fmt.Fprintf(a.err, "%s: %s\n", name, printable(err))
	}
	for _, damage := range []error{index.ErrCorrupt, corpus.ErrBroken, errMalformed,
		errUnrecognized, errProblems, eval.ErrLabels} {
		if errors.Is(err, damage) {
			return exitDamaged
		}
	}
	return exitFailed
}

// output is the standard output. If it is closed, Write returns errUnread, since EPIPE of a file or
// a connection is a failure.
type output struct{ io.Writer }

// errUnread is the error of a write to a closed standard output.
var errUnread = errors.New("standard output is closed")

func (o output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = errUnread
	}
	return n, err
}

// unread reports whether err is errUnread, or wraps errUnread and no other error.
func unread(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(several.Unwrap(), func(e error) bool { return !unread(e) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return unread(inner)
	}
	return err == errUnread
}

// printable returns the text of an error for a terminal, without repeated lines. Several errors can
// report the same full disk or damaged block, some of them with a prefix.
func printable(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = corpus.Escape(strings.ReplaceAll(line, "\t", "  "))
		if !slices.ContainsFunc(lines, func(earlier string) bool {
			return earlier == line || strings.HasSuffix(earlier, ": "+line)
		}) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// call is one use of a subcommand: its flags, arguments and streams.
type call struct {
	*streams
	cmd    *cobra.Command
	app    *app
	flags  *pflag.FlagSet
	checks []func() error // of the values of flags
	args   []string       // that are not flags
	// effect of a run that a signal ends; default: the printed results are complete
	interrupted string
	again       string // advice for records that were not processed; default: run again
	broken      error  // the error of inputs that were processed only in part

	inputs    bool  // inputs were read to their end
	documents int64 // documents of the inputs
}

// command returns the call of a subcommand, whose flags are not defined yet.
func (a *app) command(cmd *cobra.Command) *call {
	cmd.DisableFlagsInUseLine = true
	return &call{streams: &streams{a.in, a.out, a.err}, app: a, cmd: cmd, flags: cmd.Flags()}
}

// runs returns the subcommand, which checks the flags and calls do.
func (c *call) runs(do func(context.Context) error) *cobra.Command {
	c.cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.args = args
		if err := c.checkEmpty(); err != nil {
			return err
		}
		for _, check := range c.checks {
			if err := check(); err != nil {
				return err
			}
		}
		c.app.call = c
		return do(cmd.Context())
	}
	return c.cmd
}

// outFile returns standard output if it is a file, and nil otherwise.
func (c *call) outFile() *os.File {
	file, _ := c.out.(output).Writer.(*os.File)
	return file
}

// foundNothing reports whether the inputs were read and have no documents.
func (c *call) foundNothing() bool { return c.inputs && c.documents == 0 }

// check adds a check of the values of flags.
func (c *call) check(ok func() error) { c.checks = append(c.checks, ok) }

// given reports whether a flag is on the command line.
func (c *call) given(name string) bool { return c.flags.Changed(name) }

// checkEmpty returns an error if a flag or an argument is empty, as it is if a script uses an unset
// variable.
func (c *call) checkEmpty() (err error) {
	if slices.Contains(c.args, "") {
		err = usagef("an argument is empty")
	}
	c.flags.Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" {
			err = usagef("--%s is empty: omit the flag, or set a value", f.Name)
		}
	})
	return err
}

// logf writes a diagnostic of one line.
func (c *call) logf(format string, args ...any) {
	fmt.Fprintln(c.err, corpus.Escape(fmt.Sprintf(format, args...)))
}
