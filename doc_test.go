package neardup_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/neardup/neardup/"

// typeName is a type, with the directory of its package.
type typeName struct{ dir, name string }

// TestAliasesListTheirFields tests the comments of aliases of internal types, since go doc shows
// no fields of them. The comment must have a line per field, or name an alias of the same type in
// another package that has these lines. The fields of a type without an alias must be in the
// comment of some alias of the package.
func TestAliasesListTheirFields(t *testing.T) {
	said, linked := make(map[typeName]bool), make(map[typeName]bool)
	for _, dir := range []string{".", "index", "client", "compaction", "fingerprint",
		"fingerprint/page", "metrics"} {
		all, comments := aliases(t, dir), ""
		for _, d := range all {
			comments += d.comment
		}
		for alias, d := range all {
			if regexp.MustCompile(`\[\w+\.` + alias + `\]`).MatchString(d.comment) {
				linked[d.of] = true
				continue
			}
			said[d.of] = true
			found := make(map[typeName][]string)
			addFields(t, d.of, found)
			for of, fields := range found {
				comment := comments
				if of == d.of {
					comment = d.comment
				}
				for _, field := range fields {
					if !regexp.MustCompile(`(?m)^\t(\w+, )*` + field + `\b`).MatchString(comment) {
						t.Errorf("%s, %s: no comment has a line for %s of %s", dir, alias,
							field, of.name)
					}
				}
			}
		}
	}
	for of := range linked {
		if !said[of] {
			t.Errorf("no package documents the fields of %s", of)
		}
	}
	if len(said) < 7 || len(linked) < 4 {
		t.Errorf("%d aliases with fields and %d that link to them were found",
			len(said), len(linked))
	}
}

type aliasDoc struct {
	of      typeName
	comment string
}

// aliases returns the aliases of internal types in a package.
func aliases(t *testing.T, dir string) map[string]aliasDoc {
	found := make(map[string]aliasDoc)
	for _, f := range files(t, dir) {
		imports := make(map[string]string)
		for _, i := range f.Imports {
			at, _ := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
			imports[path.Base(at)] = at
		}
		for spec, comment := range typesOf(f) {
			of, is := spec.Type.(*ast.SelectorExpr)
			if !is || !spec.Assign.IsValid() || !spec.Name.IsExported() {
				continue
			}
			if at := imports[of.X.(*ast.Ident).Name]; strings.HasPrefix(at, "internal/") {
				found[spec.Name.Name] = aliasDoc{typeName{at, of.Sel.Name}, comment}
			}
		}
	}
	return found
}

// addFields adds the exported fields of a type, or its methods if it is an interface. It also
// adds the fields of their types in the same package.
func addFields(t *testing.T, of typeName, found map[typeName][]string) {
	if _, known := found[of]; known {
		return
	}
	found[of] = nil
	for _, f := range files(t, of.dir) {
		for spec := range typesOf(f) {
			if spec.Name.Name != of.name {
				continue
			}
			ast.Inspect(spec.Type, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncType, *ast.SelectorExpr:
					return false
				case *ast.Field:
					names := exported(n)
					found[of] = append(found[of], names...)
					return len(names) > 0
				case *ast.Ident:
					if n.IsExported() {
						addFields(t, typeName{of.dir, n.Name}, found)
					}
				}
				return true
			})
		}
	}
}

// exported returns the exported names of a field. An embedded field has the name of its type.
func exported(f *ast.Field) (names []string) {
	idents := f.Names
	switch of := f.Type.(type) {
	case *ast.Ident:
		if idents == nil {
			idents = []*ast.Ident{of}
		}
	case *ast.SelectorExpr:
		if idents == nil {
			idents = []*ast.Ident{of.Sel}
		}
	}
	for _, n := range idents {
		if n.IsExported() {
			names = append(names, n.Name)
		}
	}
	return names
}

// typesOf returns the types that a file declares, each with its comment or the comment of its
// group.
func typesOf(f *ast.File) map[*ast.TypeSpec]string {
	found := make(map[*ast.TypeSpec]string)
	for _, d := range f.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			spec := spec.(*ast.TypeSpec)
			found[spec] = g.Doc.Text() + spec.Doc.Text()
		}
	}
	return found
}

func files(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path.Join(dir, name), nil,
			parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	return parsed
}
