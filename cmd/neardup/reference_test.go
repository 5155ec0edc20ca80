package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestReference compares docs/reference/cli.md with the help of the subcommands. With -update, it
// writes the file. Each subcommand must have an example. The usage of a flag must not repeat the
// default that pflag adds.
func TestReference(t *testing.T) {
	const name = "../../docs/reference/cli.md"
	root := newRoot(&app{streams: &streams{strings.NewReader(""), output{io.Discard}, io.Discard}})
	var page strings.Builder
	page.WriteString("# Command line\n\n`go test ./cmd/neardup -run Reference -update` writes " +
		"this page from the help of the subcommands.\n[output.md](output.md) describes the " +
		"output and the exit codes.\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&page, "\n## %s\n\n", strings.TrimSuffix(group.Title, ":"))
		var sections strings.Builder
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID {
				fmt.Fprintf(&page, "- [%s](#%[1]s): %s\n", cmd.Name(), cmd.Short)
				describeCommand(t, &sections, cmd)
			}
		}
		page.WriteString(sections.String())
	}
	if *update {
		must(t, os.WriteFile(name, []byte(page.String()), 0o666))
	}
	if readFile(t, name) != page.String() {
		t.Errorf("%s is not current: run go test ./cmd/neardup -run Reference -update", name)
	}
}

// describeCommand writes the section of a subcommand.
func describeCommand(t *testing.T, page *strings.Builder, cmd *cobra.Command) {
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(page, "\n### %s\n\n    neardup %s\n\n%s\n\n", cmd.Name(), cmd.Use,
		strings.TrimSpace(long))
	if !strings.Contains(cmd.Example, "neardup "+cmd.Name()) {
		t.Errorf("%s has no example", cmd.Name())
	}
	for line := range strings.Lines(cmd.Example) {
		page.WriteString("  " + line)
	}
	page.WriteString("\n\n")
	for line := range strings.Lines(cmd.LocalFlags().FlagUsagesWrapped(92)) {
		page.WriteString("    " + line)
	}
	for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
		if strings.Count(line, "(default") > 1 {
			t.Errorf("%s: %s", cmd.Name(), line)
		}
	}
}
