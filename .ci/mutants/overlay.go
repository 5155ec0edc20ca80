package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// All mutants go into one build. Each function with a bug has a copy with it, and calls
// that copy instead if the environment names its number:
//
//	func (s *Store) Sync() error {
//		if planted == 7 { return s.Sync__7() }
//		...
//	}

// selector is the file that each package with mutants gets besides.
const selector = `package %s

import (
	"os"
	"strconv"
)

var planted, _ = strconv.Atoi(os.Getenv("` + plantedVariable + `"))
`

const plantedVariable = "NEARDUP_PLANTED_MUTANT"

// overlay is what go's -overlay takes.
type overlay struct{ Replace map[string]string }

// plantAll writes the files with all bugs in them into a folder, and returns the path of
// the overlay.
func plantAll(folder string, mutants []*mutant) (string, error) {
	files := map[string]*source{}
	o := overlay{map[string]string{}}
	replace := func(path, text string) error {
		path, err := filepath.Abs(path)
		if err != nil || o.Replace[path] != "" {
			return err
		}
		o.Replace[path] = filepath.Join(folder, fmt.Sprint(len(o.Replace), ".go"))
		return os.WriteFile(o.Replace[path], []byte(text), 0o600)
	}
	for _, m := range mutants {
		path, mutated, line, err := m.find()
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.name, err)
		}
		if files[path] == nil {
			if files[path], err = parseSource(path, nil); err != nil {
				return "", err
			}
		}
		if err := files[path].plant(m, mutated, line); err != nil {
			return "", fmt.Errorf("%s: %w", m.name, err)
		}
	}
	for path, s := range files {
		if err := replace(path, s.text()); err != nil {
			return "", err
		}
		if err := replace(filepath.Join(filepath.Dir(path), "planted_mutants.go"), fmt.Sprintf(selector, s.file.Name)); err != nil {
			return "", err
		}
	}
	encoded, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, encoded, 0o600)
}

// source is a file of Go on its way to one with mutants.
type source struct {
	path   string
	bytes  []byte
	fset   *token.FileSet
	file   *ast.File
	edits  []edit
	copies strings.Builder
}

type edit struct {
	at, end int
	text    string
}

func parseSource(path string, text []byte) (*source, error) {
	s := &source{path: path, bytes: text, fset: token.NewFileSet()}
	var err error
	if text == nil {
		if s.bytes, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	s.file, err = parser.ParseFile(s.fset, path, s.bytes, parser.SkipObjectResolution)
	return s, err
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

// function returns the function that has these lines.
func (s *source) function(first, last int) *ast.FuncDecl {
	for _, d := range s.file.Decls {
		f, is := d.(*ast.FuncDecl)
		if is && s.fset.Position(f.Pos()).Line <= first && last <= s.fset.Position(f.End()).Line {
			return f
		}
	}
	return nil
}

// plant adds the function of a mutated file that has the bug at a line.
func (s *source) plant(m *mutant, mutated string, line int) error {
	other, err := parseSource(s.path, []byte(mutated))
	if err != nil {
		return err
	}
	was, is := s.function(line, line+len(m.before)-1), other.function(line, line+max(len(m.after), 1)-1)
	if was == nil || is == nil || was.Name.Name != is.Name.Name || was.Body == nil {
		return fmt.Errorf("%s:%d: a bug has to be within a function", s.path, line)
	}
	name := fmt.Sprintf("%s__%d", was.Name.Name, m.number)
	text := string(other.bytes[other.offset(is.Pos()):other.offset(is.End())])
	at := other.offset(is.Name.Pos()) - other.offset(is.Pos())
	fmt.Fprintf(&s.copies, "\n//line mutant_%d:1\n%s%s%s\n", m.number, text[:at], name, text[at+len(is.Name.Name):])

	call := s.call(was, name)
	if was.Type.Results != nil {
		call = "return " + call
	} else {
		call += "; return"
	}
	body := s.offset(was.Body.Lbrace) + 1
	s.edits = append(s.edits, edit{body, body, fmt.Sprintf("if planted == %d { %s };", m.number, call)})
	return nil
}

// call is a call of a function with the arguments and the receiver of another one, all of
// which get names.
func (s *source) call(f *ast.FuncDecl, name string) string {
	var args []string
	if f.Type.TypeParams != nil {
		name += "[" + strings.Join(s.names(f.Type.TypeParams, "t"), ", ") + "]"
	}
	if f.Recv != nil {
		name = s.names(f.Recv, "receiver")[0] + "." + name
	}
	args = s.names(f.Type.Params, "arg")
	if n := len(f.Type.Params.List); n > 0 {
		if _, variadic := f.Type.Params.List[n-1].Type.(*ast.Ellipsis); variadic {
			args[len(args)-1] += "..."
		}
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

func (s *source) names(list *ast.FieldList, prefix string) (names []string) {
	add := func(at, end token.Pos, space string) {
		name := fmt.Sprint("planted", prefix, len(names))
		names = append(names, name)
		e := edit{s.offset(at), s.offset(end), name + space}
		if !slices.Contains(s.edits, e) { // of another mutant
			s.edits = append(s.edits, e)
		}
	}
	for _, field := range list.List {
		if len(field.Names) == 0 {
			add(field.Type.Pos(), field.Type.Pos(), " ")
		}
		for _, name := range field.Names {
			if name.Name == "_" {
				add(name.Pos(), name.End(), "")
			} else {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

func (s *source) text() string {
	slices.SortStableFunc(s.edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	at := 0
	for _, e := range s.edits {
		out.Write(s.bytes[at:e.at])
		out.WriteString(e.text)
		at = e.end
	}
	out.Write(s.bytes[at:])
	return out.String() + s.copies.String()
}
