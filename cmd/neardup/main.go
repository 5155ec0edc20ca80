// Command neardup deduplicates documents with a persistent near-duplicate index.
//
// It prints results, and nothing else, on standard output, one JSON object a line
// unless a subcommand says otherwise, and diagnostics on standard error. It exits
// as docs/api.md says: 0 when the work is done.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/neardup/neardup/cmd/neardup/internal/completion"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	_ "github.com/neardup/neardup/cmd/neardup/internal/malloc"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/store"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		sig := (<-signals).(syscall.Signal)
		signal.Stop(signals) // a second one ends the program at once
		cancel(signalled{sig})
	}()
	// A write to a standard output that nobody reads fails like any other write, so that the index is
	// closed and a temporary one is removed.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args[1:], &streams{os.Stdin, os.Stdout, os.Stderr}))
}

// signalled is why the context of a subcommand is done.
type signalled struct{ syscall.Signal }

func (s signalled) Error() string        { return s.String() }
func (s signalled) Is(target error) bool { return target == context.Canceled }

// streams are what a subcommand reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command is a subcommand; each has a file of its own.
type command struct {
	name        string
	args        string // what follows the name, for the usage line
	summary     string
	more        string // what its own help says besides; may be empty
	interrupted string // what holds when a signal has ended it; by default what was printed
	run         func(ctx context.Context, c *call) error
}

var commands = []command{
	dedupCommand,
	addCommand,
	queryCommand,
	serveCommand,
	compareCommand,
	fingerprintCommand,
	importCommand,
	exportCommand,
	deleteCommand,
	pairsCommand,
	clustersCommand,
	compactCommand,
	checkpointCommand,
	verifyCommand,
	repairCommand,
	statsCommand,
	planCommand,
	evalCommand,
	benchCommand,
	versionCommand,
}

func init() { commands = append(commands, completionCommand, helpCommand) } // which go through them

// The exit codes; docs/api.md explains them.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitNothing = 3                                 // the inputs have no document
	exitDamaged = 4                                 // an index is damaged, or an input is broken or not recognized
	exitSignal  = 128                               // and the number of the signal, as shells have it
	exitUnread  = exitSignal + int(syscall.SIGPIPE) // no one reads the output: as cat ends then
)

// usageError is wrong usage.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func run(ctx context.Context, args []string, io *streams) int {
	if len(args) == 0 {
		writeUsage(io.err)
		return exitUsage
	}
	name := args[0]
	switch name {
	case "-version", "--version":
		name = "version"
	case "-h", "-help", "--help":
		name = "help"
	}
	c, ok := commandNamed(name)
	if !ok {
		fmt.Fprintf(io.err, "neardup: %s\n", noSubcommand(name))
		return exitUsage
	}
	return runCommand(ctx, c, args[1:], io)
}

func commandNamed(name string) (command, bool) {
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return commands[i], true
}

func noSubcommand(name string) string {
	return fmt.Sprintf("there is no subcommand %q; \"neardup help\" lists them", name)
}

func runCommand(ctx context.Context, c command, args []string, io *streams) int {
	use := newCall(c, args, io)
	err := c.run(ctx, use)
	if err == nil {
		err = use.broken
	}
	var wrong usageError
	switch {
	case err == nil && use.foundNothing():
		fmt.Fprintf(io.err, "neardup %s: the inputs have no document; the lines above count the skipped records (-allow-empty accepts such inputs)\n", c.name)
		return exitNothing
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &wrong):
		fmt.Fprintf(io.err, "neardup %s: %s\n\"neardup help %s\" tells more\n", c.name, printable(err), c.name)
		return exitUsage
	case unread(err):
		return exitUnread
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		holds := cmp.Or(c.interrupted, "what was printed is done")
		if errors.Is(err, compaction.ErrDone) {
			holds = "the work is done"
		}
		fmt.Fprintf(io.err, "neardup %s: interrupted; %s\n", c.name, holds)
		if by, ok := context.Cause(ctx).(signalled); ok {
			return exitSignal + int(by.Signal)
		}
		return exitFailed
	}
	fmt.Fprintf(io.err, "neardup %s: %s\n", c.name, printable(err))
	for _, damage := range []error{index.ErrCorrupt, corpus.ErrBroken, errMalformed, errUnrecognized, errProblems} {
		if errors.Is(err, damage) {
			return exitDamaged
		}
	}
	return exitFailed
}

// output is the standard output. It marks the error of a write that fails because nobody reads the
// output any more: the same error of a file or a connection is a failure.
type output struct{ io.Writer }

// errUnread is the error of a write to a standard output that nobody reads.
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

// printable is the text of an error for a terminal. Each line may be that of an error of its own; one that several
// have, as those of a disk that is full, stands once.
func printable(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = corpus.Escape(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// call is one use of a subcommand: its flags, arguments and streams.
type call struct {
	*streams
	command command
	flags   *flag.FlagSet
	checks  []func() error // of the values of flags
	raw     []string
	args    []string // what is no flag, after parse
	broken  error    // inputs that could be read in part only: the work on that part is done

	inputs     bool  // inputs were read to their end
	documents  int64 // documents of the inputs
	allowEmpty bool  // the inputs may have no document

	unrecognized      int    // inputs whose format is not recognized
	firstUnrecognized string // and why the first one is not
}

func newCall(c command, raw []string, s *streams) *call {
	if _, ok := s.out.(output); !ok {
		s = &streams{s.in, output{s.out}, s.err}
	}
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // of what is wrong: the error says it, behind the name of the program
	flags.Usage = func() {}     // help prints it; an error is a line of its own
	return &call{streams: s, command: c, flags: flags, raw: raw}
}

// outFile returns the file that standard output is; nil if it is none.
func (c *call) outFile() *os.File {
	file, _ := c.out.(output).Writer.(*os.File)
	return file
}

// foundNothing says whether inputs were read that should have held a document, and held none.
func (c *call) foundNothing() bool { return c.inputs && c.documents == 0 && !c.allowEmpty }

// parse reads the flags, which may stand before, between and behind the
// arguments, and checks them; behind "--" all are arguments.
func (c *call) parse() error {
	raw, rest := c.raw, []string(nil)
	if i := slices.Index(raw, "--"); i >= 0 {
		raw, rest = raw[:i], raw[i+1:]
	}
	for len(raw) > 0 {
		if err := c.flags.Parse(raw); err != nil {
			if err == flag.ErrHelp {
				return cmp.Or(c.help(), err)
			}
			return usageError{err}
		}
		raw = c.flags.Args()
		if len(raw) > 0 {
			c.args = append(c.args, raw[0])
			raw = raw[1:]
		}
	}
	c.args = append(c.args, rest...)
	if err := c.checkEmpty(); err != nil {
		return err
	}
	for _, check := range c.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// parseFlags is parse for a subcommand that takes no arguments.
func (c *call) parseFlags() error {
	c.check(func() error {
		if len(c.args) > 0 {
			return usagef("%s takes no arguments, not %q", c.command.name, c.args[0])
		}
		return nil
	})
	return c.parse()
}

// check has parse look at the values of flags.
func (c *call) check(ok func() error) { c.checks = append(c.checks, ok) }

// given reports whether a flag was set on the command line.
func (c *call) given(name string) bool {
	found := false
	c.flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// checkEmpty refuses flags and arguments that are empty: a name that a script has forgotten to set is not one
// that was left out.
func (c *call) checkEmpty() (err error) {
	if slices.Contains(c.args, "") {
		err = usagef("an argument is empty")
	}
	c.flags.Visit(func(f *flag.Flag) {
		if text, ok := f.Value.(flag.Getter); ok && text.Get() == "" {
			err = usagef("-%s is empty: leave it out, or say what it is", f.Name)
		}
	})
	return err
}

// logf writes a diagnostic, one line.
func (c *call) logf(format string, args ...any) {
	fmt.Fprintln(c.err, corpus.Escape(fmt.Sprintf(format, args...)))
}

var helpCommand = command{
	name:    "help",
	args:    "[SUBCOMMAND]",
	summary: "list the subcommands, or say what one is for and the flags that it takes",
	run:     runHelp,
}

func runHelp(ctx context.Context, c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	switch len(c.args) {
	case 0:
		return writeUsage(c.out)
	case 1:
		if of, ok := commandNamed(c.args[0]); ok {
			return of.run(ctx, newCall(of, []string{"-h"}, c.streams))
		}
		return usagef("%s", noSubcommand(c.args[0]))
	}
	return usagef("want one subcommand, not %q", c.args)
}

func writeUsage(w io.Writer) error {
	var text strings.Builder
	text.WriteString("neardup finds near-duplicate documents with a persistent index.\n\nusage: neardup SUBCOMMAND [FLAG...] [ARGUMENT...]\n\n")
	for _, c := range commands {
		fmt.Fprintf(&text, "  %-12s %s\n", c.name, c.summary)
	}
	text.WriteString(`
"neardup help SUBCOMMAND" lists the flags of one. Results go to standard output, all else to
standard error. Exit codes: 0 success; 1 failure; 2 wrong usage; 3 the inputs have no document;
4 a damaged index, or an input that is broken or not recognized (the rest of it is processed);
130 interrupted.
`)
	_, err := io.WriteString(w, text.String())
	return err
}

// help prints what the subcommand is for and its flags.
func (c *call) help() error {
	var text strings.Builder
	fmt.Fprintf(&text, "usage: neardup %s %s\n\n%s\n\n", c.command.name, c.command.args, c.command.summary)
	if c.command.more != "" {
		fmt.Fprintf(&text, "%s\n\n", c.command.more)
	}
	c.flags.SetOutput(&text)
	c.flags.PrintDefaults()
	_, err := io.WriteString(c.out, text.String())
	return err
}

var versionCommand = command{
	name:    "version",
	summary: "print the version of neardup and of the formats that it reads",
	run:     runVersion,
}

func runVersion(_ context.Context, c *call) error {
	if err := c.parseFlags(); err != nil {
		return err
	}
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(c.out, "neardup %s, index format %d\n", version, store.Format)
	return err
}

var completionCommand = command{
	name:    "completion",
	args:    "bash|zsh|fish",
	summary: "print what makes a shell complete subcommands, flags and files",
	more: `bash:  eval "$(neardup completion bash)" in ~/.bashrc
zsh:   eval "$(neardup completion zsh)" in ~/.zshrc, after compinit
fish:  neardup completion fish > ~/.config/fish/completions/neardup.fish`,
	run: runCompletion,
}

func runCompletion(_ context.Context, c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 {
		return usagef("want one shell: bash, zsh or fish")
	}
	var all []completion.Command
	for _, of := range commands {
		all = append(all, completion.Command{Name: of.name, Summary: of.summary, Flags: of.flagSet()})
	}
	found, err := completion.Write(c.out, c.args[0], all)
	if !found {
		return usagef("there is no completion for %q, only for bash, zsh and fish", c.args[0])
	}
	return err
}

// flagSet returns the flags of a subcommand, which defines them before it looks at its arguments.
func (c command) flagSet() *flag.FlagSet {
	use := newCall(c, []string{"-h"}, &streams{strings.NewReader(""), io.Discard, io.Discard})
	c.run(context.Background(), use)
	return use.flags
}
