// Command mutants tests the tests: it plants one bug at a time, and the test that
// mutants.txt names must fail. The tree is not touched: go builds with an overlay, once
// for all bugs, and each run of a test chooses one.
//
//	go run ./.ci/mutants -all           every mutant
//	go run ./.ci/mutants -parts 6       a sixth of them, by the folder of the test; which, the commit decides
//	go run ./.ci/mutants -only 'merge'  those whose names match
//
// It fails for a mutant that survives, that does not compile, whose text is not in its
// folder exactly once, or whose test fails without it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	all    = flag.Bool("all", false, "run every mutant")
	parts  = flag.Int("parts", 6, "run one of this many parts, by the commit")
	only   = flag.String("only", "", "run every mutant whose name matches this regular expression")
	passed = flag.Bool("passed", false, "the tests have passed with nothing planted: do not run them so once more")
)

// A test that runs as long has noticed the mutant. With some a process does not even end by
// itself then: it is killed half a minute later.
const timeout = 2 * time.Minute

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run() error {
	const list = ".ci/mutants/mutants.txt"
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	mutants, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	var stale []error // all of them, whichever are run
	for _, m := range mutants {
		if _, _, _, err := m.find(); err != nil {
			stale = append(stale, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	if len(stale) > 0 {
		return errors.Join(stale...)
	}
	if mutants, err = choose(mutants); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if !*passed {
		if err := withoutMutants(mutants); err != nil {
			return err
		}
	}
	if err := build(tmp, mutants); err != nil {
		return err
	}
	return runAll(mutants)
}

// choose returns the mutants that the flags ask for.
func choose(mutants []*mutant) ([]*mutant, error) {
	match, err := regexp.Compile(*only)
	if err != nil {
		return nil, err
	}
	part := 0
	if !*all && *only == "" {
		commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
		if err != nil {
			return nil, fmt.Errorf("git rev-parse HEAD: %w", err)
		}
		hash := fnv.New32a()
		hash.Write(commit)
		part = int(hash.Sum32() % uint32(*parts))
	} else {
		*parts = 1
	}
	chosen := slices.Clone(mutants)
	slices.SortStableFunc(chosen, func(a, b *mutant) int { return strings.Compare(a.folder, b.folder) }) // few binaries
	chosen = chosen[len(chosen)*part / *parts : len(chosen)*(part+1) / *parts]
	chosen = slices.DeleteFunc(chosen, func(m *mutant) bool { return !match.MatchString(m.name) })
	fmt.Printf("part %d of %d: %d of %d mutants\n", part+1, *parts, len(chosen), len(mutants))
	return chosen, nil
}

// withoutMutants sees to it that the tests pass as long as nothing is planted.
func withoutMutants(mutants []*mutant) error {
	tests := map[binary][]string{}
	for _, m := range mutants {
		if !slices.Contains(tests[m.binary], m.run) {
			tests[m.binary] = append(tests[m.binary], m.run)
		}
	}
	begin := time.Now()
	for b, runs := range tests {
		args := []string{"test", "-C", b.folder, "-timeout", "10m", "-run", strings.Join(runs, "|")}
		if b.race {
			args = append(args, "-race")
		}
		if out, err := b.command(context.Background(), "go", append(args, ".")...).CombinedOutput(); err != nil {
			return fmt.Errorf("a test fails with nothing planted: %w\n%s", err, out)
		}
	}
	fmt.Printf("%6.1fs  the tests, with nothing planted\n", time.Since(begin).Seconds())
	return nil
}

// build makes the binaries of the tests, with all bugs in them.
func build(folder string, mutants []*mutant) error {
	overlay, err := plantAll(folder, mutants)
	if err != nil {
		return err
	}
	built := map[binary]*mutant{}
	var failed []error
	for _, m := range mutants {
		b := m.binary
		b.ci = false // that is for the run
		if first := built[b]; first != nil {
			m.path, m.rapid = first.path, first.rapid
			continue
		}
		built[b] = m
		begin := time.Now()
		m.path = filepath.Join(folder, fmt.Sprint(len(built), ".test"))
		args := []string{"test", "-C", m.folder, "-c", "-overlay", overlay, "-vet=off", "-ldflags=-s -w", "-o", m.path}
		if m.race {
			args = append(args, "-race")
		}
		if out, err := m.command(context.Background(), "go", append(args, ".")...).CombinedOutput(); err != nil {
			failed = append(failed, fmt.Errorf("the mutants do not compile: %w\n%s", err, numbered(mutants, string(out))))
		}
		deps, err := exec.Command("go", "list", "-C", m.folder, "-test", "-deps", ".").Output()
		if err != nil {
			failed = append(failed, err)
		}
		m.rapid = bytes.Contains(deps, []byte("\npgregory.net/rapid\n"))
		fmt.Printf("%6.1fs  build of %s\n", time.Since(begin).Seconds(), m.folder)
	}
	return errors.Join(failed...)
}

// numbered puts the names of mutants into what the compiler says.
func numbered(mutants []*mutant, out string) string {
	return regexp.MustCompile(`mutant_(\d+)`).ReplaceAllStringFunc(out, func(number string) string {
		for _, m := range mutants {
			if fmt.Sprint("mutant_", m.number) == number {
				return m.name
			}
		}
		return number
	})
}

func runAll(mutants []*mutant) error {
	todo := make(chan *mutant)
	errs := make(chan error, len(mutants))
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for m := range todo {
				begin := time.Now()
				err := m.killed()
				outcome := "killed"
				if err != nil {
					outcome = "FAILED: " + err.Error()
					errs <- fmt.Errorf("%s", m.name)
				}
				fmt.Printf("%6.1fs  %s: %s\n", time.Since(begin).Seconds(), m.name, outcome)
			}
		})
	}
	for _, m := range mutants {
		todo <- m
	}
	close(todo)
	workers.Wait()
	close(errs)
	var failed []string
	for err := range errs {
		failed = append(failed, err.Error())
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d mutants were not killed: %s", len(failed), len(mutants), strings.Join(failed, ", "))
	}
	return nil
}

// binary is a build of tests.
type binary struct {
	folder   string
	race, ci bool // under the race detector; at the length that tests have in CI
}

func (b binary) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "NEARDUP_CI=", "GORACE=atexit_sleep_ms=10")
	if b.ci {
		c.Env = append(c.Env, "NEARDUP_CI=1")
	}
	return c
}

// chances is how many times a test of random histories may let a bug pass.
const chances = 4

var errSurvives = errors.New("it survives")

// killed runs the test with the bug. Error: it passes.
func (m *mutant) killed() (err error) {
	for range chances {
		if err = m.try(); !m.rapid || !errors.Is(err, errSurvives) {
			break
		}
	}
	return err
}

// try is killed once.
func (m *mutant) try() error {
	args := []string{"-test.run", m.run, "-test.failfast", "-test.timeout", timeout.String()}
	if m.rapid { // a failure is what is wanted, and no file of it
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ns")
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout+30*time.Second)
	defer cancel()
	c := m.command(ctx, m.path, args...)
	c.Env = append(c.Env, fmt.Sprint(plantedVariable, "=", m.number))
	c.Dir = m.folder
	c.WaitDelay = 10 * time.Second // for what the test has started
	switch out, err := c.CombinedOutput(); {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		return fmt.Errorf("%w %s %s", errSurvives, m.folder, m.run)
	case !failure.Match(out):
		return fmt.Errorf("the test did not fail, but end: %w\n%s", err, out)
	}
	return nil
}

// failure is what go prints when a test has failed, or has ended the process.
var failure = regexp.MustCompile(`(?m)^(\s*--- FAIL: |panic: |fatal error: |WARNING: DATA RACE|FAIL$)`)

// find looks for the text in the files of the folder, whatever their indentation, and
// returns the file that has it, with the bug in its place, and at which line.
func (m *mutant) find() (file, mutated string, line int, err error) {
	paths, err := filepath.Glob(filepath.Join(m.in, "*.go"))
	if err != nil {
		return "", "", 0, err
	}
	found := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", "", 0, err
		}
		lines := strings.Split(string(text), "\n")
		for i := 0; i+len(m.before) <= len(lines); i++ {
			if slices.EqualFunc(lines[i:i+len(m.before)], m.before, func(a, b string) bool { return strings.TrimSpace(a) == b }) {
				found++
				line = i + 1
				file, mutated = path, strings.Join(slices.Concat(lines[:i], m.after, lines[i+len(m.before):]), "\n")
			}
		}
	}
	if found != 1 {
		return "", "", 0, fmt.Errorf("stale: its text is %d times in %s, and should be there once:\n%s", found, m.in, strings.Join(m.before, "\n"))
	}
	return file, mutated, line, nil
}
