package server

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/wire"
)

var update = flag.Bool("update", false, "write openapi.json and the generated part of "+
	"docs/reference/http.md")

const reference = "../../../../docs/reference/http.md"

// TestHTTPReference: docs/reference/http.md and openapi.json describe the calls with their
// parameters, and the objects with their fields.
func TestHTTPReference(t *testing.T) {
	page, err := os.ReadFile(reference)
	must(t, err)
	const mark = "-update -->\n"
	end := bytes.Index(page, []byte(mark))
	if end < 0 {
		t.Fatal("the page has no mark of the generated part")
	}
	want := string(page[:end]) + mark + "\n" + generatedReference()
	if *update {
		must(t, os.WriteFile(reference, []byte(want), 0o666),
			os.WriteFile("openapi.json", generatedOpenAPI(), 0o666))
	} else if string(page) != want || !bytes.Equal(openAPI, generatedOpenAPI()) {
		t.Error("docs/reference/http.md or openapi.json is out of date: " +
			"go test ./cmd/neardup/internal/server -run HTTPReference -update")
	}
}

// printed are the objects that subcommands print too. docs/reference/output.md describes them.
var printed = map[reflect.Type]string{
	reflect.TypeFor[compare.Result](): "compare", reflect.TypeFor[match.Stats](): "stats",
	reflect.TypeFor[compaction.Report](): "compact",
}

func generatedReference() string {
	var b strings.Builder
	var objects []reflect.Type
	link := func(v any) string {
		of := reflect.TypeOf(v)
		if name, is := printed[of]; is {
			return fmt.Sprintf("[%s](output.md#%s)", name, name)
		}
		if !slices.Contains(objects, of) {
			objects = append(objects, of)
		}
		return fmt.Sprintf("[%s](#%s)", of.Name(), strings.ToLower(of.Name()))
	}
	b.WriteString("## Calls\n")
	for _, c := range calls {
		fmt.Fprintf(&b, "\n### %s %s\n\n%s\n", c.method, c.path, wrap(c.summary))
		b.WriteString("\n")
		if c.hasDocuments() {
			fmt.Fprintf(&b, "Body: %s, several, or a page. Answer to each: %s.\n", link(c.body),
				link(c.answer))
		} else if c.body != nil {
			fmt.Fprintf(&b, "Body: %s, as `application/json`. Answer: %s.\n", link(c.body),
				link(c.answer))
		} else {
			status := map[int]string{202: " with status 202"}[c.status]
			fmt.Fprintf(&b, "Answer: %s%s.\n", link(c.answer), status)
		}
		for i, p := range c.parameters {
			if i == 0 {
				b.WriteString("\n| parameter | |\n|---|---|\n")
			}
			required := map[bool]string{true: ", required"}[p.required]
			fmt.Fprintf(&b, "| `%s`%s | %s |\n", p.name, required, p.doc)
		}
	}
	b.WriteString("\n## Objects\n\n" + wrap("A field that is optional is left out if it is empty. "+
		"[output.md](output.md) has the objects that subcommands print too: compare, stats and "+
		"compact.") + "\n")
	link(api.Failure{})
	for i := 0; i < len(objects); i++ {
		fmt.Fprintf(&b, "\n### %s\n\n| field | type | |\n|---|---|---|\n", objects[i].Name())
		for _, f := range fieldsOf(objects[i]) {
			kind, inner := kindOf(f.Type)
			if inner != nil {
				kind = strings.Replace(kind, "object", link(reflect.Zero(inner).Interface()), 1)
			}
			if f.Optional {
				kind += ", optional"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, kind, f.Tag.Get("doc"))
		}
	}
	return b.String()
}

// wrap breaks a paragraph into lines of at most 100 characters.
func wrap(text string) (wrapped string) {
	for len(text) > 100 {
		end := strings.LastIndexByte(text[:101], ' ')
		wrapped, text = wrapped+text[:end]+"\n", text[end+1:]
	}
	return wrapped + text
}

// kindOf returns the type of a field in JSON, and the type of an object in it.
func kindOf(t reflect.Type) (kind string, inner reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := schemaOf(t, make(object))
	switch {
	case s["items"] != nil:
		kind, inner = kindOf(t.Elem())
		return "array of " + kind, inner
	case s["$ref"] != nil:
		return "object", t
	case s["contentEncoding"] != nil:
		return "base64", nil
	case s["format"] != nil:
		return "time, RFC 3339", nil
	case t == reflect.TypeFor[api.Name]():
		return "string or number", nil
	case t == reflect.TypeFor[fingerprint.ShingleSignature]():
		return "64 hex digits", nil
	case t.Kind() == reflect.Uint64 && s["type"] == "string":
		return "16 hex digits", nil
	}
	return s["type"].(string), nil
}

// TestListOfErrors: docs/reference/http.md lists all codes with their status.
func TestListOfErrors(t *testing.T) {
	page, err := os.ReadFile(reference)
	must(t, err)
	var listed []string
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `([a-z_]+)` \\| (4..|5..)").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1]+" "+row[2])
	}
	want := []string{wire.BadRequest + " 400", wire.BadLine + " 400", wire.Forbidden + " 403",
		wire.NotFound + " 404", wire.NotAllowed + " 405", wire.Timeout + " 408",
		wire.Exists + " 409", wire.ContentType + " 415"}
	for _, err := range []error{api.ErrUnauthorized, api.ErrBusy, api.ErrClosed, api.ErrFailed,
		api.ErrCorrupt, api.ErrReadOnly, api.ErrMismatch, api.ErrDistance, api.ErrNoText,
		api.ErrTooLarge, os.ErrInvalid} {
		f := wire.FailureOf(err)
		want = append(want, fmt.Sprint(f.Said.Code, " ", f.Status))
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("docs/reference/http.md lists\n%s\nwant\n%s", strings.Join(listed, "\n"),
			strings.Join(want, "\n"))
	}
}
