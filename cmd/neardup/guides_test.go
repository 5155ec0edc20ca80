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

// consoleBlock is a block of commands in a page, each with its output.
var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// runConsole runs the commands in the console blocks of a page in dir, and compares their output.
// In the page, ... stands for any text. There must be at least as many commands as given.
func runConsole(t *testing.T, page, dir, address string, commands int) {
	t.Helper()
	shell := testenv.Program(t, "sh")
	testenv.Program(t, "curl")
	for _, block := range consoleBlock.FindAllStringSubmatch(page, -1) {
		for _, command := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(command, "\n")
			commands--
			run := exec.Command(shell, "-c", strings.ReplaceAll(command,
				"http://127.0.0.1:7490", address))
			run.Dir = dir
			out, err := run.CombinedOutput()
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), `\.\.\.`, ".*")
			if err != nil || !regexp.MustCompile("(?s)^\\s*"+pattern+"\\s*$").Match(out) {
				t.Errorf("$ %s\n%s%v\nwant %s", command, out, err, want)
			}
		}
	}
	if commands > 0 {
		t.Errorf("%d commands are missing", commands)
	}
}

// TestTutorial runs the commands of docs/tutorial.md.
func TestTutorial(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "crawl"), os.DirFS("../../testdata/crawl")))
	before, after, _ := strings.Cut(readFile(t, "../../docs/tutorial.md"),
		"\n    neardup serve --index pages.neardup\n")
	runConsole(t, before, dir, "", 14)
	server := startServe(t, "--index", filepath.Join(dir, "pages.neardup"))
	runConsole(t, after, dir, server.address, 2)
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
			runConsole(t, readFile(t, "../../docs/"+page+".md"), dir, "", commands)
		})
	}
}

// TestServerGuide runs the commands of docs/server.md. The server must also have its web pages.
func TestServerGuide(t *testing.T) {
	dir := t.TempDir()
	server := startServe(t, "--index", dir+"/pages.neardup", "--checkpoints", dir)
	runConsole(t, readFile(t, "../../docs/server.md"), dir, server.address, 23)
	for path, want := range map[string]int{"/": 200, "/search": 200, "/groups": 200, "/v2/": 404} {
		r, err := http.Get(server.address + path)
		must(t, err)
		if r.Body.Close(); r.StatusCode != want {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}
