// Command platforms type-checks every package of the module in the current folder, without its tests,
// as each platform would compile it without cgo:
//
//	go run ./.ci/platforms linux/arm64 windows/amd64
//
// What does not build on a platform is nearly always a name or a type that is not there, and that
// is found in a tenth of the time of a build: nothing is compiled, and of other modules
// only what they declare is looked at.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

func main() {
	var g errgroup.Group
	for _, platform := range os.Args[1:] {
		g.Go(func() error { return check(platform) })
	}
	if err := g.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "platforms:", err)
		os.Exit(1)
	}
}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // of the standard library's vendored packages
	Module     *struct {
		Main      bool
		GoVersion string
	}
}

// imports has the packages that are checked already.
type imports struct {
	checked map[string]*types.Package
	paths   map[string]string // of the package that is being checked
}

func (m imports) Import(path string) (*types.Package, error) {
	if to, ok := m.paths[path]; ok {
		path = to
	}
	if p := m.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not there", path)
}

func check(platform string) error {
	system, arch, ok := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", arch)
	if !ok || sizes == nil {
		return fmt.Errorf("%q is no platform", platform)
	}
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("%s: go list: %w", platform, err)
	}
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	own := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		var wrong []error
		c := types.Config{
			Importer: imports{checked, p.ImportMap},
			Sizes:    sizes,
			Error:    func(err error) { wrong = append(wrong, err) },
		}
		main := p.Module != nil && p.Module.Main
		c.IgnoreFuncBodies = !main
		if p.Module != nil && p.Module.GoVersion != "" {
			c.GoVersion = "go" + p.Module.GoVersion
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		checked[p.ImportPath], _ = c.Check(p.ImportPath, fset, files, nil) // errors are in wrong
		if !main {
			continue
		}
		if own++; len(wrong) > 0 {
			return fmt.Errorf("%s: %w", platform, errors.Join(wrong...))
		}
	}
	if own == 0 {
		return fmt.Errorf("%s: no packages", platform)
	}
	fmt.Printf("%s: %d packages\n", platform, own)
	return nil
}
