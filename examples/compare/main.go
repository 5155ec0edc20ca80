// Command compare measures methods of deduplication with generated pages: a set of digests in
// memory, a set of digests in Redis, a Bloom filter, and neardup. Of every four pages of 400 words,
// two are new, one is equal to an earlier page, and one differs from an earlier page in 6 words.
//
//	go run ./compare -n 100000
//
// It starts redis-server if it is installed. Bytes per new page are the growth of the heap, of
// the memory that Redis reports, of the filter, and of the index on disk.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"github.com/redis/go-redis/v9"
)

const batch = 256

func main() {
	n := flag.Int("n", 100_000, "`number` of pages")
	flag.Parse()
	if err := run(context.Background(), *n); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// pages returns pages i to end-1. The content of a page depends only on its number.
func pages(i, end int) (made []neardup.Page) {
	for ; i < end; i++ {
		original := i
		if i%4 >= 2 {
			original -= 2
		}
		rng := rand.New(rand.NewPCG(uint64(original), 0))
		words := make([]string, 400)
		for j := range words {
			f := rng.Float64()
			words[j] = "w" + strconv.Itoa(int(30_000*f*f*f)) // The distribution of words is skewed.
		}
		if i%4 == 3 {
			for range 6 {
				words[rng.IntN(len(words))] = "x" + strconv.Itoa(rng.IntN(30_000))
			}
		}
		made = append(made, neardup.Page{URL: fmt.Sprint("https://example.com/", i),
			ContentType: "text/plain", Body: []byte(strings.Join(words, " "))})
	}
	return made
}

// method reports whether pages are known.
type method struct {
	name  string
	check func([]neardup.Page) ([]bool, error)
	bytes func() (memory, disk int64, err error) // in use
	close func() error
}

func run(ctx context.Context, n int) error {
	fmt.Println("method | equal found | changed found | new pages dropped | memory, disk: bytes " +
		"per new page | µs per page")
	for _, open := range []func(context.Context, int) (*method, error){digests, inRedis, filter,
		nearDuplicates} {
		m, err := open(ctx, n)
		if err != nil {
			return err
		}
		if m != nil {
			if err := errors.Join(m.measure(n), m.close()); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return nil
}

func (m *method) measure(n int) error {
	memory, disk, err := m.bytes()
	if err != nil {
		return err
	}
	var found [4]int
	var took time.Duration
	for i := 0; i < n; i += batch {
		some := pages(i, min(i+batch, n))
		begin := time.Now()
		known, err := m.check(some)
		if err != nil {
			return err
		}
		took += time.Since(begin)
		for j, is := range known {
			if is {
				found[(i+j)%4]++
			}
		}
	}
	moreMemory, moreDisk, err := m.bytes()
	if err != nil {
		return err
	}
	of := float64(n) / 4
	fmt.Printf("%s | %.4f | %.4f | %d | %.0f, %.0f | %.1f\n", m.name, float64(found[2])/of,
		float64(found[3])/of, found[0]+found[1],
		float64(moreMemory-memory)/2/of, float64(moreDisk-disk)/2/of,
		float64(took.Microseconds())/float64(n))
	return nil
}

func digest(p neardup.Page) (d [16]byte) {
	sum := sha256.Sum256(p.Body)
	copy(d[:], sum[:])
	return d
}

func heap() (int64, int64, error) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), 0, nil
}

func nothing() error { return nil }

func digests(context.Context, int) (*method, error) {
	seen := make(map[[16]byte]struct{})
	return &method{"set of digests, in memory", func(ps []neardup.Page) (known []bool, err error) {
		for _, p := range ps {
			d := digest(p)
			_, is := seen[d]
			seen[d] = struct{}{}
			known = append(known, is)
		}
		return known, nil
	}, heap, nothing}, nil
}

func filter(_ context.Context, n int) (*method, error) {
	f := bloom.NewWithEstimates(uint(n)/2, 0.001)
	grown := int64(0)
	return &method{"Bloom filter of digests, 0.001",
		func(ps []neardup.Page) (known []bool, err error) {
			for _, p := range ps {
				d := digest(p)
				known = append(known, f.TestAndAdd(d[:]))
			}
			grown = int64(f.Cap() / 8)
			return known, nil
		}, func() (int64, int64, error) { return grown, 0, nil }, nothing}, nil
}

func inRedis(ctx context.Context, _ int) (*method, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Println("set of digests, Redis: redis-server is not installed")
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "redis")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save",
		"", "--dir", dir)
	if err := server.Start(); err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: 100})
	return &method{"set of digests, Redis", func(ps []neardup.Page) (known []bool, err error) {
		added, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, p := range ps {
				d := digest(p)
				pipe.SAdd(ctx, "seen", d[:])
			}
			return nil
		})
		for _, cmd := range added {
			known = append(known, cmd.(*redis.IntCmd).Val() == 0)
		}
		return known, err
	}, func() (int64, int64, error) {
		info, err := c.InfoMap(ctx, "memory").Result()
		if err != nil {
			return 0, 0, err
		}
		used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
		return used, 0, err
	}, func() error {
		return errors.Join(c.Close(), server.Process.Kill(), os.RemoveAll(dir))
	}}, nil
}

func nearDuplicates(ctx context.Context, n int) (*method, error) {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return nil, err
	}
	x, err := neardup.Open(filepath.Join(dir, "pages.neardup"),
		&neardup.Options{Index: index.Options{ExpectedDocuments: int64(n / 2)}})
	if err != nil {
		return nil, err
	}
	return &method{"neardup", func(ps []neardup.Page) (known []bool, err error) {
		verdicts, err := x.CheckBatch(ctx, ps)
		for _, v := range verdicts {
			known = append(known, v.Status == neardup.Duplicate)
		}
		return known, err
	}, func() (int64, int64, error) {
		memory, _, err := heap()
		return memory, int64(x.Stats().DiskBytes), err
	}, func() error {
		return errors.Join(x.Close(), os.RemoveAll(dir))
	}}, nil
}
