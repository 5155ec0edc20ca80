package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// runConsole runs the commands in the console blocks of a page in dir, and compares their output.
// In the page, ... stands for any text. It returns the number of commands.
func runConsole(t *testing.T, page, dir, address string) (commands int) {
	t.Helper()
	shell := testenv.Program(t, "sh")
	testenv.Program(t, "curl")
	programs := t.TempDir()
	binary, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(binary, filepath.Join(programs, "neardup")))
	for _, block := range regexp.MustCompile(
		"(?s)```console\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for _, command := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(command, "\n")
			commands++
			run := exec.Command(shell, "-c", strings.ReplaceAll(command,
				"http://127.0.0.1:7490", address))
			run.Dir = dir
			run.Env = append(os.Environ(), "NEARDUP_TEST_MAIN=1",
				"PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := run.CombinedOutput()
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), `\.\.\.`, ".*")
			if err != nil ||
				!regexp.MustCompile(
					"(?s)^"+pattern+"$").Match([]byte(strings.TrimSpace(string(out)))) {
				t.Errorf("$ %s\n%s%v\nwant %s", command, out, err, want)
			}
		}
	}
	return commands
}

// TestTutorial runs the commands of docs/tutorial.md.
func TestTutorial(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "crawl"), os.DirFS("../../testdata/crawl")))
	before, after, _ := strings.Cut(readFile(t, "../../docs/tutorial.md"),
		"\n    neardup serve --index pages.neardup\n")
	if n := runConsole(t, before, dir, ""); n < 14 {
		t.Errorf("%d commands before the server", n)
	}
	server := startServe(t, freeAddress(t), "--index", filepath.Join(dir, "pages.neardup"))
	if n := runConsole(t, after, dir, server.address); n < 2 {
		t.Errorf("%d commands with the server", n)
	}
}

// TestGuides runs the commands of the guides that need no server. They use an index of
// testdata/crawl with its duplicates.
func TestGuides(t *testing.T) {
	for page, commands := range map[string]int{"batch": 8, "operations": 5, "sizing": 1} {
		t.Run(page, func(t *testing.T) {
			dir := t.TempDir()
			mustRun(t, "dedup", "--index", filepath.Join(dir, "ix"), "--keep-duplicates",
				"../../testdata/crawl")
			list := mustRun(t, "fingerprint", "../../testdata/crawl")
			must(t, os.WriteFile(filepath.Join(dir, "fingerprints.txt"), []byte(list), 0o600))
			if n := runConsole(t, readFile(t, "../../docs/"+page+".md"), dir, ""); n < commands {
				t.Errorf("%d commands", n)
			}
		})
	}
}

// TestServerGuide runs the commands of docs/server.md.
func TestServerGuide(t *testing.T) {
	dir := t.TempDir()
	server := startServe(t, freeAddress(t), "--index", dir+"/pages.neardup", "--checkpoints", dir)
	if n := runConsole(t, readFile(t, "../../docs/server.md"), dir, server.address); n < 23 {
		t.Errorf("%d commands", n)
	}
	for path, want := range map[string]int{"/": 200, "/search": 200, "/groups": 200, "/v2/": 404} {
		r, err := http.Get(server.address + path)
		must(t, err)
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}
