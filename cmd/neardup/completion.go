package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

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
