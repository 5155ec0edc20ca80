package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the documents say to install is a command of a module that go install takes: its path is
// that of its folder, and it replaces no other module.
func TestInstallLines(t *testing.T) {
	const root, module = "../..", "github.com/neardup/neardup/"
	pages, err := filepath.Glob(root + "/docs/*.md")
	must(t, err)
	found := map[string]bool{}
	for _, page := range append(pages, root+"/README.md") {
		for _, m := range regexp.MustCompile(`go install (\S+)@latest`).FindAllStringSubmatch(readFile(t, page), -1) {
			found[strings.TrimPrefix(m[1], module)] = true
		}
	}
	for folder := range found {
		if sources, _ := filepath.Glob(filepath.Join(root, folder, "main.go")); len(sources) == 0 || !strings.Contains(readFile(t, sources[0]), "\npackage main\n") {
			t.Errorf("%s is no command", folder)
		}
		at := folder
		for ; ; at = path.Dir(at) {
			mod, err := os.ReadFile(filepath.Join(root, at, "go.mod"))
			if err != nil {
				continue
			}
			if want := "module " + strings.TrimSuffix(module+at, "/.") + "\n"; !strings.HasPrefix(string(mod), want) || strings.Contains(string(mod), "replace ") {
				t.Errorf("%s/go.mod: not %q, or it replaces a module, which go install refuses", at, want)
			}
			break
		}
	}
	if !found["cmd/neardup"] || !found["cmd/neardup-parquet"] {
		t.Errorf("the documents install %v", found)
	}
}
