package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestMemoryIsBounded queries every document of an index and measures memory. It must be within a
// fifth of CacheBytes, the filters and a constant for the Go heap if the cache holds all packed
// blocks. If it does not, Stats must say so.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() || testenv.Race {
		t.Skip("the race detector takes memory of its own")
	}
	if os.Getenv("NEARDUP_ALONE") == "" { // other tests would add to the memory
		alone := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		alone.Env = append(os.Environ(), "NEARDUP_ALONE=1", "MALLOC_ARENA_MAX=1")
		out, err := alone.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Fatal(err)
		}
		return
	}
	if residentBytes() == 0 {
		t.Skip("this system does not tell how much memory a process has")
	}
	const mib = 1 << 20
	millions := testenv.Number(1, 1, 3, 3)
	n := millions * 1_000_000
	blocks := int64(millions) * 18 * mib // packed blocks take a bit more
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	_, err := compaction.Load(t.Context(), dir, testgen.Sequence(bare(testgen.Uniform(random, n))),
		compaction.LoadOptions{Index: index.Options{MaxDistance: 6, ExpectedDocuments: int64(n)}})
	must(t, err)
	little := blocks * 8 / 9
	for _, cache := range []int64{little, blocks * 3, 0} {
		debug.FreeOSMemory()
		before := residentBytes()
		x, err := index.Open(dir, &index.Options{CacheBytes: cache})
		must(t, err)
		for range n / 60 {
			q := index.Query{}
			q.Fingerprint = fingerprint.Fingerprint(random.Uint64())
			_, err := x.Query(t.Context(), q)
			must(t, err)
		}
		taken, s := residentBytes()-before, x.Stats()
		must(t, x.Close())
		bound := cache
		if cache == 0 {
			bound = int64(s.CachedBytes)*33/32 + 16*mib
		}
		bound += int64(s.FilterBytes)
		result := fmt.Sprintf("cache %d MiB: %d MiB resident, %d of packed blocks, bound %d, %q",
			cache/mib, taken/mib, s.CachedBytes/mib, bound/mib, s.CacheShort)
		t.Log(result)
		const ofGo = 16 * mib // the Go heap at that time, for an index of any size
		short := s.CacheShort != ""
		if !short && taken > bound*6/5+ofGo || short != (cache == little) ||
			!short && s.CachedBytes < uint64(blocks) {
			t.Error(result)
		}
	}
}

// residentBytes returns the anonymous memory of the process, or 0 if the system does not report
// it.
func residentBytes() (bytes int64) {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "\nRssAnon:")
	fmt.Sscan(after, &bytes)
	return bytes << 10
}
