// Package testenv gives random tests their seed, says how much they are to do, ends them at an error, and sees that nothing of
// them runs on.
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

// Seed is the same by default, so that a test passes today if it did yesterday, and with
// NEARDUP_LONG another one each time. It is in the log of a test that fails, and
// NEARDUP_SEED repeats the run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if Long() {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("NEARDUP_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("NEARDUP_SEED: %v", err)
		}
	}
	t.Logf("NEARDUP_SEED=%d", seed)
	return seed
}

// Long reports whether tests are to run at full length.
func Long() bool { return os.Getenv("NEARDUP_LONG") != "" }

// Number returns how many of something to do: with -short, by default, with NEARDUP_CI and
// with NEARDUP_LONG.
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

// Asked returns the number that a variable of the environment has; n, where it has none.
func Asked(t testing.TB, variable string, n int) int {
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

// Must ends a test at an error.
func Must(t interface {
	Helper()
	Fatal(...any)
}, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Program returns the path of a program, without which the test is skipped; not under NEARDUP_CI.
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

// NoMoreGoroutines waits until there are no more than before, a minute at most.
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

// MostlyWait lets more tests of a package go side by side than there are processors, unless -parallel says how many:
// most of their time they wait, for the disk, other processes or limits of time. Under the race detector they do not. It is
// for TestMain.
func MostlyWait() {
	flag.Parse()
	if Race {
		return
	}
	if p := flag.Lookup("test.parallel"); p.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		p.Value.Set("8")
	}
}

// Race: the race detector is on, which takes much memory, address space and time.
var Race = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// PeakHeap returns how much the live heap grows at most while f runs, by the last garbage collections.
// Garbage that a loaded machine collects late does not count.
func PeakHeap(f func()) (peak uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // MemStats would stop all goroutines
	metrics.Read(m)
	before := m[0].Value.Uint64()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			metrics.Read(m)
			peak = max(peak, max(m[0].Value.Uint64(), before)-before)
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-stopped
	return peak
}
