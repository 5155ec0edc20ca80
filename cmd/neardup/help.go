package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	_ "github.com/neardup/neardup/cmd/neardup/internal/malloc"
	"github.com/neardup/neardup/internal/store"
)

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
standard error. The exit code is 0 when all was read and done, 1 when something failed or an
input is broken (what could be read of it is done), 2 on wrong usage, 3 when the inputs held
not one document, 130 after an interrupt.
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
	_, err := fmt.Fprintf(c.out, "neardup %s, index formats %d to %d\n", version, store.FormatOldest, store.Format)
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
	var script string
	switch c.args[0] {
	case "bash":
		script = bashCompletion()
	case "zsh":
		script = zshCompletion()
	case "fish":
		script = fishCompletion()
	default:
		return usagef("there is no completion for %q, only for bash, zsh and fish", c.args[0])
	}
	_, err := io.WriteString(c.out, script)
	return err
}

// flagSet returns the flags of a subcommand, which defines them before it looks at its arguments.
func (c command) flagSet() *flag.FlagSet {
	use := newCall(c, []string{"-h"}, &streams{strings.NewReader(""), io.Discard, io.Discard})
	c.run(context.Background(), use)
	return use.flags
}

// flagNames are those of a subcommand, each with its dash.
func (c command) flagNames() string {
	var names []string
	c.flagSet().VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
	return strings.Join(names, " ")
}

// flagCases is a line of a shell's case for each subcommand, which sets a variable.
func flagCases(format string) string {
	var cases strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&cases, "    "+format+"\n", c.name, c.flagNames())
	}
	return cases.String()
}

func bashCompletion() string {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.name
	}
	return `_neardup() {
  local words='' cur=${COMP_WORDS[COMP_CWORD]}
  if ((COMP_CWORD == 1)); then
    words='` + strings.Join(names, " ") + `'
  elif [[ ${COMP_WORDS[1]} == help ]]; then
    words='` + strings.Join(names, " ") + `'
  elif [[ $cur == -* ]]; then
    case ${COMP_WORDS[1]} in
` + flagCases("%s) words='%s' ;;") + `    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _neardup neardup
`
}

func zshCompletion() string {
	var names strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&names, "      %s\n", quoted(c.name+":"+c.summary))
	}
	return `#compdef neardup
_neardup() {
  local -a subcommands flags
  if ((CURRENT == 2)) || [[ $words[2] == help ]]; then
    subcommands=(
` + names.String() + `    )
    _describe subcommand subcommands
    return
  fi
  case $words[2] in
` + flagCases("%s) flags=(%s) ;;") + `  esac
  if [[ $PREFIX == -* ]]; then
    compadd -- $flags
  else
    _files
  fi
}
compdef _neardup neardup
`
}

func fishCompletion() string {
	var script strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&script, "complete -c neardup -n __fish_use_subcommand -a %s -d %s\n", c.name, quoted(c.summary))
		c.flagSet().VisitAll(func(f *flag.Flag) {
			value := " -r"
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				value = ""
			}
			_, text := flag.UnquoteUsage(f)
			text, _, _ = strings.Cut(text, "\n")
			fmt.Fprintf(&script, "complete -c neardup -n '__fish_seen_subcommand_from %s' -o %s%s -d %s\n", c.name, f.Name, value, quoted(text))
		})
	}
	return script.String()
}

// quoted is a text as one word of a shell; fish reads a backslash in quotes, and there is none.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'"'"'`) + "'"
}
