package main

import (
	"flag"
	"fmt"
	"slices"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

// call is one use of a subcommand: its flags, arguments and streams.
type call struct {
	*streams
	command command
	flags   *flag.FlagSet
	raw     []string
	args    []string // what is no flag, after parse
	broken  error    // inputs that could be read in part only: the work on that part is done
}

func newCall(c command, raw []string, io *streams) *call {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.err)
	flags.Usage = func() {
		fmt.Fprintf(io.err, "usage: neardup %s %s\n\n%s\n\n", c.name, c.args, c.summary)
		if c.more != "" {
			fmt.Fprintf(io.err, "%s\n\n", c.more)
		}
		flags.PrintDefaults()
	}
	return &call{streams: io, command: c, flags: flags, raw: raw}
}

// parse reads the flags, which may stand before, between and behind the
// arguments; behind "--" all are arguments.
func (c *call) parse() error {
	raw, rest := c.raw, []string(nil)
	if i := slices.Index(raw, "--"); i >= 0 {
		raw, rest = raw[:i], raw[i+1:]
	}
	for len(raw) > 0 {
		// The flag set prints what was wrong, and the usage, itself.
		if err := c.flags.Parse(raw); err != nil {
			if err == flag.ErrHelp {
				return err
			}
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		raw = c.flags.Args()
		if len(raw) > 0 {
			c.args = append(c.args, raw[0])
			raw = raw[1:]
		}
	}
	c.args = append(c.args, rest...)
	return nil
}

// parseFlags is parse for a subcommand that takes no arguments.
func (c *call) parseFlags() error {
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) > 0 {
		return usagef("%s takes no arguments, not %q", c.command.name, c.args[0])
	}
	return nil
}

// given reports whether a flag was set on the command line.
func (c *call) given(name string) bool {
	found := false
	c.flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// logf writes a diagnostic, one line.
func (c *call) logf(format string, args ...any) {
	fmt.Fprintln(c.err, corpus.Escape(fmt.Sprintf(format, args...)))
}
