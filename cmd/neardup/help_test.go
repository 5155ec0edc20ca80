package main

import (
	"flag"
	"os/exec"
	"strings"
	"testing"
)

// What the scripts for the shells say is what the subcommands take.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, script, said := runHere("", "completion", shell)
		if code != exitDone {
			t.Fatal(shell, code, said)
		}
		for _, c := range commands {
			if !strings.Contains(script, c.name) {
				t.Errorf("%s does not complete %s", shell, c.name)
			}
			c.flagSet().VisitAll(func(f *flag.Flag) {
				if !strings.Contains(script, "-"+f.Name) && !strings.Contains(script, "-o "+f.Name) {
					t.Errorf("%s does not complete %s -%s", shell, c.name, f.Name)
				}
			})
		}
		if path, err := exec.LookPath(shell); err == nil {
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(script)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", shell, err, out)
			}
		}
	}
}

func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	_, script, _ := runHere("", "completion", "bash")
	for words, want := range map[string]string{
		"neardup ded":                 "dedup",
		"neardup cl":                  "clusters",
		"neardup help ver":            "verify version",
		"neardup dedup -keep":         "-keep-duplicates",
		"neardup stats -index d -pl":  "-plot",
		"neardup dedup -index d some": "",
	} {
		ask := script + "COMP_WORDS=(" + words + "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _neardup; echo ${COMPREPLY[@]}"
		out, err := exec.Command(bash, "-c", ask).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q (%v), want %q", words, got, err, want)
		}
	}
}

// The help of a flag tells its default once.
func TestOneDefault(t *testing.T) {
	for _, c := range commands {
		_, help, _ := runHere("", c.name, "-h")
		for _, text := range strings.Split(help, "\n  -")[1:] {
			if n := strings.Count(text, "default"); n > 1 || strings.Contains(text, "default:") {
				t.Errorf("%s: -%s", c.name, text)
			}
		}
	}
}
