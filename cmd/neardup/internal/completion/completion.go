// Package completion writes the scripts that have a shell complete subcommands, flags and files. What
// they complete is what the subcommands define, and they start no process for it.
package completion

import (
	_ "embed"
	"flag"
	"io"
	"strings"
	"text/template"
)

// Command is a subcommand.
type Command struct {
	Name, Summary string
	Flags         *flag.FlagSet
}

//go:embed scripts.tmpl
var text string

var scripts = template.Must(template.New("neardup completion").Funcs(template.FuncMap{"quote": quote}).Parse(text))

// Write writes the script for a shell: bash, zsh or fish. It reports whether there is one.
func Write(out io.Writer, shell string, commands []Command) (found bool, err error) {
	script := scripts.Lookup(shell)
	if script == nil {
		return false, nil
	}
	return true, script.Execute(out, commands)
}

// Names are the flags, each with its dash.
func (c Command) Names() string {
	var names []string
	c.Flags.VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
	return strings.Join(names, " ")
}

// Each is what fish wants to know of each flag.
func (c Command) Each() (flags []Flag) {
	c.Flags.VisitAll(func(f *flag.Flag) {
		_, usage := flag.UnquoteUsage(f)
		usage, _, _ = strings.Cut(usage, "\n")
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		flags = append(flags, Flag{f.Name, usage, !ok || !b.IsBoolFlag()})
	})
	return flags
}

// Flag is a flag of a subcommand.
type Flag struct {
	Name, Usage string
	Value       bool // stands behind it
}

// quote makes a text one word of a shell; fish reads a backslash in quotes, and there is none.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'"'"'`) + "'"
}
