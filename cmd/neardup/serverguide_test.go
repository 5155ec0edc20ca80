package main

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestServerGuide runs the commands of docs/server.md and compares what they print. In the page, ... stands for any text.
func TestServerGuide(t *testing.T) {
	shell, dir := testenv.Program(t, "sh"), t.TempDir()
	testenv.Program(t, "curl")
	page, err := os.ReadFile("../../docs/server.md")
	must(t, err)
	server := startServe(t, freeAddress(t), "--index", dir+"/pages.neardup", "--checkpoints", dir)
	commands := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for _, command := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(command, "\n")
			commands++
			run := exec.Command(shell, "-c", strings.ReplaceAll(command, "http://127.0.0.1:7490", server.address))
			run.Dir = dir
			out, err := run.CombinedOutput()
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), `\.\.\.`, ".*")
			if err != nil || !regexp.MustCompile("(?s)^"+pattern+"$").Match([]byte(strings.TrimSpace(string(out)))) {
				t.Errorf("$ %s\n%s%v\nwant %s", command, out, err, want)
			}
		}
	}
	if commands < 25 {
		t.Errorf("%d commands", commands)
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
