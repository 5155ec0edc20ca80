// Package testenv has helpers for tests: the seed and the amount of work of random tests, files of
// test cases, and checks for errors, leaked goroutines and memory.
package testenv

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Seed returns the seed of a random test. By default it is 1. With NEARDUP_LONG it differs in each
// run. NEARDUP_SEED sets it. A test that fails logs its seed, so that the run can be repeated.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := 1
	if Long() {
		seed = int(time.Now().UnixNano())
	}
	seed = EnvInt(t, "NEARDUP_SEED", seed)
	t.Logf("NEARDUP_SEED=%d", seed)
	return uint64(seed)
}

// Long reports whether tests run at full length.
func Long() bool { return os.Getenv("NEARDUP_LONG") != "" }

// Number returns an amount of work: long with NEARDUP_LONG, otherwise short with -short, otherwise
// ci with NEARDUP_CI, otherwise usual.
func Number(short, usual, ci, long int) int {
	switch {
	case Long():
		return long
	case testing.Short():
		return short
	case os.Getenv("NEARDUP_CI") != "":
		return ci
	}
	return usual
}

// EnvInt returns the number in an environment variable, or n if the variable is not set.
func EnvInt(t testing.TB, variable string, n int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return n
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// Must fails a test if an error is not nil.
func Must(t interface {
	Helper()
	Fatal(...any)
}, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Program returns the path of a program. If the program is missing, it skips the test, or fails
// it with NEARDUP_CI.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("NEARDUP_CI") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	return path
}

// NoMoreGoroutines waits until the number of goroutines is at most before. After a minute, the test
// fails.
func NoMoreGoroutines(t testing.TB, before int) {
	t.Helper()
	for range 6000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// MostlyWait is for TestMain of packages whose tests mostly wait for the disk, other processes or
// timers. It runs 8 tests in parallel, unless -parallel or the race detector is set.
func MostlyWait() {
	flag.Parse()
	if Race {
		return
	}
	if p := flag.Lookup("test.parallel"); p.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		p.Value.Set("8")
	}
}

// Race is true if the race detector is on. It needs much memory, address space and time.
var Race = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// PeakHeap returns the largest growth of the live heap in bytes while f runs. It does not count
// garbage, which a busy machine collects late.
func PeakHeap(f func()) (peak uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // MemStats would stop all goroutines
	metrics.Read(m)
	before := m[0].Value.Uint64()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(2 * time.Millisecond):
			}
			metrics.Read(m)
			peak = max(peak, max(m[0].Value.Uint64(), before)-before)
		}
	}()
	f()
	close(done)
	<-stopped
	return peak
}
