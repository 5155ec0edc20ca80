package testenv

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/cockroachdb/datadriven"
)

// Commands are the commands in the files of [Cases], by name. A command gets the input lines and
// returns the lines of their result.
type Commands map[string]func(t *testing.T, inputs []string) []string

// escapes matches the escapes in a line. It also matches whole templates, so that escapes in a
// template are not replaced.
var escapes = regexp.MustCompile(`\{\{.*?\}\}|\\(x..|u.{4}|U.{8}|[nrt])`)

// Cases runs the cases in the files of a directory with package datadriven. Each input line is a
// template. Escapes such as \n and \xff stand for bytes, unless the command has the argument raw.
// If all lines of a result are equal, the result is one line that begins with "each: ". With
// -rewrite, Cases rewrites the results.
func Cases(t *testing.T, folder string, funcs template.FuncMap, commands Commands) {
	datadriven.Walk(t, folder, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			run, ok := commands[d.Cmd]
			if !ok {
				t.Fatalf("%s: there is no command %q", d.Pos, d.Cmd)
			}
			lines := strings.Split(d.Input, "\n")
			for i, line := range lines {
				if !d.HasArg("raw") {
					line = escapes.ReplaceAllStringFunc(line, unescape)
				}
				var b strings.Builder
				parsed, err := template.New(d.Pos).Funcs(funcs).Parse(line)
				Must(t, err)
				Must(t, parsed.Execute(&b, nil))
				lines[i] = b.String()
			}
			results := run(t, lines)
			if len(results) > 1 && len(slices.Compact(slices.Clone(results))) == 1 {
				return "each: " + results[0]
			}
			return strings.Join(results, "\n")
		})
	})
}

func unescape(part string) string {
	if part[0] == '\\' {
		part, _ = strconv.Unquote(`"` + part + `"`)
	}
	return part
}

// Each returns a command that calls run with each input line. Its result has one line per input,
// with the results of run quoted and joined by "; ".
func Each(run func(t *testing.T, input string) []string) func(*testing.T, []string) []string {
	return func(t *testing.T, inputs []string) (results []string) {
		for _, input := range inputs {
			result := strings.Join(Quoted(run(t, input)), "; ")
			if strings.TrimSpace(result) == "" {
				result = strconv.Quote(result)
			}
			results = append(results, result)
		}
		return results
	}
}

// Quoted quotes texts as in Go, but without quotation marks around them.
func Quoted(texts []string) []string {
	for i, text := range texts {
		text = strconv.Quote(text)
		texts[i] = text[1 : len(text)-1]
	}
	return texts
}
