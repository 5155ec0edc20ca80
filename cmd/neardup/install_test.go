package main

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
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

// TestDockerfile does without an engine what the Dockerfile says: the command that builds, with the files
// that are sent to the engine, and then its ENTRYPOINT and CMD.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	const root = "../.."
	file := readFile(t, root+"/Dockerfile")
	line := func(pattern string) string {
		m := regexp.MustCompile(`(?m)^` + pattern + `$`).FindStringSubmatch(file)
		if m == nil {
			t.Fatalf("the Dockerfile has no line %s", pattern)
		}
		return m[1]
	}
	mod := readFile(t, root+"/go.mod")
	if version := line(`FROM golang:(\S+) AS build`); !regexp.MustCompile(`(?m)^go ` + regexp.QuoteMeta(version) + `(\.\d+)?$`).MatchString(mod) {
		t.Errorf("it builds with Go %s, and go.mod asks for another one", version)
	}
	for _, source := range strings.Fields(line(`COPY ([^-.].*) \./`)) {
		if _, err := os.Stat(filepath.Join(root, source)); err != nil {
			t.Error(err)
		}
	}
	if port := line(`EXPOSE (\d+)`); !strings.Contains(line(`CMD (.*)`), `":`+port+`"`) {
		t.Errorf("%s is exposed, and CMD listens elsewhere", port)
	}
	if os.Getenv("NEARDUP_CI") == "" || testing.Short() || runtime.GOOS != "linux" {
		t.Skip("the command is built on Linux with NEARDUP_CI set, and without -short: that takes minutes the first time")
	}
	context := t.TempDir()
	send(t, root, context)
	image := filepath.Join(t.TempDir(), "image")
	build := exec.Command("sh", "-c", strings.ReplaceAll(line(`RUN (CGO_ENABLED=0 .*)`), "/image", image))
	build.Dir, build.Env = context, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary, err := elf.Open(image + line(`ENTRYPOINT \["(.*)"\]`))
	must(t, err)
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it needs an interpreter or libraries (%v), and the image has none", p.Type)
		}
	}
	address, token := freeAddress(t), filepath.Join(image, "token")
	must(t, os.WriteFile(token, []byte("0123456789abcdef0123456789abcdef"), 0o600))
	args := strings.Split(strings.Trim(line(`CMD \[(.*)\]`), `"`), `", "`)
	for i, arg := range args {
		switch args[max(i, 1)-1] {
		case "--listen":
			args[i] = address
		case "--token-file":
			args[i] = filepath.Join(image, arg)
		}
	}
	serve := exec.Command(image+"/neardup", args...)
	serve.Dir, serve.Env = image+line(`WORKDIR (/data)`), []string{"TMPDIR=" + image + "/tmp"} // as in an image that has nothing else
	server := started(t, address, serve)
	if code := server.end(syscall.SIGTERM); code != exitDone { // as docker stop
		t.Errorf("exit code %d: %s", code, server.said)
	}
	if entries, err := os.ReadDir(serve.Dir); err != nil || len(entries) != 1 {
		t.Errorf("the volume has %v (%v), want one index", entries, err)
	}
}

// send copies what .dockerignore leaves.
func send(t *testing.T, root, context string) {
	t.Helper()
	ignored := strings.Fields(readFile(t, root+"/.dockerignore"))
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		isIgnored := slices.ContainsFunc(ignored, func(pattern string) bool {
			anywhere, ok := strings.CutPrefix(pattern, "**/")
			match, _ := path.Match(anywhere, path.Base(name))
			return ok && match || pattern == name
		})
		switch {
		case err != nil:
			return err
		case isIgnored && e.IsDir():
			return fs.SkipDir
		case isIgnored || !e.IsDir() && !e.Type().IsRegular():
			return nil
		case e.IsDir():
			return os.MkdirAll(filepath.Join(context, name), 0o777)
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(context, name), content, 0o666)
	})
	must(t, err)
}
