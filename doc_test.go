package neardup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
)

// goDoc returns what go doc prints about a package, or about a name such as "index.Match".
func goDoc(t *testing.T, name string) string {
	t.Helper()
	if name != "" && name[0] != '.' {
		name = "/" + name
	}
	out, err := exec.Command("go", "doc", "github.com/neardup/neardup"+name).Output()
	must(t, err)
	return string(out)
}

// TestOneScreen tests that the package documentation fits on a screen.
func TestOneScreen(t *testing.T) {
	if lines := strings.Count(goDoc(t, ""), "\n"); lines > 50 {
		t.Errorf("%d lines, at most 50", lines)
	}
}

// aliases has the types of the aliases of internal types.
var aliases = map[string]reflect.Type{
	".Page":               reflect.TypeFor[neardup.Page](),
	".Verdict":            reflect.TypeFor[neardup.Verdict](),
	"index.Document":      reflect.TypeFor[index.Document](),
	"index.Match":         reflect.TypeFor[index.Match](),
	"index.Stats":         reflect.TypeFor[index.Stats](),
	"index.Plan":          reflect.TypeFor[index.Plan](),
	"index.Query":         reflect.TypeFor[index.Query](),
	"index.VerifyOptions": reflect.TypeFor[index.VerifyOptions](),
	"index.Problem":       reflect.TypeFor[index.Problem](),
}

// TestAliasesListTheirFields tests that the comment of an alias has a line for each field or method
// of its type, since go doc shows none of them.
func TestAliasesListTheirFields(t *testing.T) {
	for name, of := range aliases {
		comment := goDoc(t, name)
		for _, field := range fieldsOf(of) {
			if !regexp.MustCompile(`(?m)^\s+(\w+, )*` + field + `\b`).MatchString(comment) {
				t.Errorf("%s: the comment has no line for %s", name, field)
			}
		}
	}
	alias := regexp.MustCompile(`(?m)^type (\w+) = (\w+)\.\w+`)
	for _, dir := range []string{".", "index", "compaction", "fingerprint", "metrics"} {
		files, err := filepath.Glob(dir + "/*.go")
		must(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			must(t, err)
			for _, found := range alias.FindAllStringSubmatch(string(source), -1) {
				name := strings.TrimPrefix(dir, ".") + "." + found[1]
				if aliases[name] == nil && name != ".Status" {
					t.Errorf("the list of aliases does not have %s", name)
				}
			}
		}
	}
}

// fieldsOf returns the exported fields of a type, or the methods of an interface. It also returns
// the fields of the types of its fields that have no alias.
func fieldsOf(of reflect.Type) (names []string) {
	switch of.Kind() {
	case reflect.Interface:
		for i := range of.NumMethod() {
			names = append(names, of.Method(i).Name)
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(of) {
			if !f.IsExported() || len(f.Index) > 1 {
				continue
			}
			names = append(names, f.Name)
			inner := f.Type
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.PkgPath() == of.PkgPath() && !f.Anonymous {
				names = append(names, fieldsOf(inner)...)
			}
		}
	}
	return names
}
