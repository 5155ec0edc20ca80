package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/cmd/neardup/internal/export"
	"github.com/neardup/neardup/cmd/neardup/internal/groups"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/internal/verify"
)

const outputPage = "../../docs/reference/output.md"

// apiLine is a section of docs/reference/output.md: the fields of a line, and command lines that
// print such lines.
type apiLine struct {
	section string
	line    any
	prints  []string
}

var apiLines = []apiLine{
	{"dedup", documents.Line{}, []string{"dedup --index NEW CRAWL", "dedup --index NEW DOCS"}},
	{"query", queryLine{}, []string{"query --index IX --format fingerprints LIST",
		"query --scan LIST LIST"}},
	{"pairs", groups.Pair{}, []string{"pairs LIST", "pairs --index IX"}},
	{"clusters", groups.ClusterLine{}, []string{"clusters LIST", "clusters --index IX"}},
	{"compare", compare.Result{}, nil},
	{"delete", deleteLine{}, []string{"delete --index IX c"}},
	{"checkpoint", checkpointLine{}, []string{"checkpoint --index IX IX.copy"}},
	{"compact", compaction.Report{}, []string{"compact --index IX"}},
	{"repair", compaction.RepairReport{}, []string{"repair --index IX IX.repaired"}},
	{"verify", verify.Problem{}, nil},
	{"stats", statsLine{}, []string{"stats --index IX", "stats --index IX --plot PLOT"}},
	{"export, the first line", export.FirstLine{}, nil},
	{"export, other lines", export.Line{}, nil},
}

// TestAPIFields tests that the tables of docs/reference/output.md list the fields of the printed
// objects.
func TestAPIFields(t *testing.T) {
	page := readFile(t, outputPage)
	for _, a := range apiLines {
		_, section, found := strings.Cut(page, "# "+a.section+"\n")
		if !found {
			t.Errorf("docs/reference/output.md has no section %q", a.section)
			continue
		}
		section = regexp.MustCompile("\n##+ ").Split(section, 2)[0]
		var got []string
		for _, row := range regexp.MustCompile(
			"(?m)^\\| `([^`]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(section, -1) {
			got = append(got, row[1]+": "+row[2])
		}
		if want := fieldsOf(reflect.TypeOf(a.line), "",
			make(map[reflect.Type]bool)); !slices.Equal(got, want) {
			t.Errorf("docs/reference/output.md, %s, has\n%s\nand its lines have\n%s", a.section,
				strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestAPILines tests that each subcommand prints only lines with these fields.
func TestAPILines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := writeFile(t, "list.txt",
		"0000000000000001\ta\n0000000000000003\tb\n0000000000000001\tc\n")
	docs := writeFile(t, "docs.jsonl",
		`{"url":"a","text":"some words"}`+"\n"+`{"url":"b","text":"..."}`+"\n")
	names := strings.NewReplacer("NEW", dir+"/new", "IX", dir+"/ix", "PLOT", dir, "LIST", list,
		"DOCS", docs, "CRAWL", "../../testdata/crawl")
	mustRun(t, "import", "--index", dir+"/ix", list)
	for _, a := range apiLines {
		for _, args := range a.prints {
			out := mustRun(t, strings.Fields(names.Replace(args))...)
			if out == "" {
				t.Errorf("neardup %s printed nothing", args)
			}
			for line := range strings.Lines(out) {
				d := json.NewDecoder(strings.NewReader(line))
				d.DisallowUnknownFields()
				if err := d.Decode(reflect.New(reflect.TypeOf(a.line)).Interface()); err != nil {
					t.Errorf("neardup %s: %v in %s", args, err, line)
				}
			}
		}
	}
}

// TestAPIExitCodes tests that docs/reference/output.md lists all exit codes.
func TestAPIExitCodes(t *testing.T) {
	var got []string
	for _, row := range regexp.MustCompile(
		`(?m)^\| ([0-9]+) \|`).FindAllStringSubmatch(readFile(t, outputPage), -1) {
		got = append(got, row[1])
	}
	if want := fmt.Sprint([]int{exitDone, exitFailed, exitUsage, exitNothing, exitDamaged,
		exitSignal + int(syscall.SIGHUP), exitSignal + int(syscall.SIGINT), exitUnread,
		exitSignal + int(syscall.SIGTERM)}); fmt.Sprint(got) != want {
		t.Errorf("docs/reference/output.md has exit codes %v, want %v", got, want)
	}
}

// fieldsOf lists the fields of a JSON object with their types, as the tables do. The fields of a
// nested object follow a dot. They are left out if the type was listed before.
func fieldsOf(of reflect.Type, before string, seen map[reflect.Type]bool) (fields []string) {
	for _, f := range reflect.VisibleFields(of) {
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if !f.IsExported() || name == "-" || f.Anonymous && !tagged {
			continue
		}
		kind, inner := kindOfField(f.Type)
		field := before + name + ": " + kind
		if strings.HasPrefix(options, "omit") {
			field += ", or absent"
		}
		fields = append(fields, field)
		if inner != nil && !seen[inner] {
			seen[inner] = true
			within := before + name + "."
			if strings.HasPrefix(kind, "array") {
				within = before + name + "[]."
			}
			fields = append(fields, fieldsOf(inner, within, seen)...)
		}
	}
	return fields
}

// kindOfField returns the JSON type of a field, and the Go type of an object or of the objects in
// an array.
func kindOfField(of reflect.Type) (kind string, inner reflect.Type) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of.Implements(reflect.TypeFor[encoding.TextMarshaler]()), of.Kind() == reflect.String,
		of == reflect.TypeFor[[]byte]():
		return "string", nil
	case of.Kind() == reflect.Bool:
		return "boolean", nil
	case of.Kind() == reflect.Float64:
		return "number", nil
	case of.Kind() == reflect.Struct:
		return "object", of
	case of.Kind() == reflect.Slice || of.Kind() == reflect.Array:
		element, within := kindOfField(of.Elem())
		return "array of " + element, within
	}
	return "integer", nil
}

// TestServedLineEqualsDedup tests that a line of /v1/check has the same fields and types as a
// line of dedup. Only dedup has the position of a record in its inputs, and the ID of a stored
// document.
func TestServedLineEqualsDedup(t *testing.T) {
	served := fieldsOf(reflect.TypeFor[api.Checked](), "", make(map[reflect.Type]bool))
	for _, field := range fieldsOf(reflect.TypeFor[documents.Line](), "",
		make(map[reflect.Type]bool)) {
		ofDedup := field == "at: string, or absent" || field == "id: integer, or absent"
		if slices.Contains(served, field) == ofDedup {
			t.Errorf("%s: served: %v", field, !ofDedup)
		}
	}
}
