package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testenv"
	"pgregory.net/rapid"
)

var must = testenv.Must

// emptyTempDir sets the directory for temporary files, which must be empty at the end of the test.
func emptyTempDir(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("files remain: %v, %v", entries, err)
		}
	})
}

func TestRun(t *testing.T) {
	emptyTempDir(t)
	for _, o := range []Options{{MaxDistance: 3, Bare: true}, {MaxDistance: 6}, {}} {
		var out bytes.Buffer
		o.Documents, o.Time, o.Out = 3000, time.Millisecond, &out
		must(t, Run(t.Context(), o))
		for _, figure := range []string{"load: bulk load", "load: disk per document",
			"query: time to warm up", "query  ", "check: new, durable, 64 goroutines",
			"check: duplicates", "ratio to the reference"} {
			if !strings.Contains(out.String(), figure) {
				t.Errorf("%+v: no figure %q in\n%s", o, figure, out.String())
			}
		}
	}
}

// cancelOn cancels a context if a line contains a text.
type cancelOn struct {
	text   string
	cancel func()
}

func (c cancelOn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.text)) {
		c.cancel()
	}
	return len(p), nil
}

func TestRunCanceled(t *testing.T) {
	emptyTempDir(t)
	for _, last := range []string{"load: bulk", "query: on all", "check: bulk", "check: new"} {
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{Documents: 500, MaxDistance: 3, Time: time.Millisecond,
			Out: cancelOn{last, cancel}}
		if err := Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled at %q: %v", last, err)
		}
		cancel()
	}
}

// TestReference compares the reference with a scan.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := collection{n: rapid.IntRange(1, 2000).Draw(t, "documents")}
		k := rapid.IntRange(0, plan.MaxDistance).Draw(t, "k")
		ref := newReference(c, k)
		for _, fp := range c.queries(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), 50,
			k) {
			var want []uint64
			for i := range c.n {
				if bits.OnesCount64(at(seed, i)^uint64(fp)) <= k {
					want = append(want, at(seed, i))
				}
			}
			slices.Sort(want)
			if got := slices.Sorted(slices.Values(ref.query(uint64(fp), k, nil))); !slices.Equal(got,
				want) {
				t.Fatalf("k = %d, %v: %x, want %x", k, fp, got, want)
			}
		}
	})
}

// TestVerifyFails tests that verify returns ErrWrongAnswer if one document of the index is wrong.
func TestVerifyFails(t *testing.T) {
	r := &run{Options: Options{Documents: 8, MaxDistance: 3, Out: io.Discard},
		stored: collection{n: 8}}
	var right []index.Document
	for d := range r.stored.documents(false) {
		right = append(right, d)
	}
	swapped, near := slices.Clone(right), slices.Clone(right)
	swapped[1], swapped[2] = right[2], right[1]
	near[4].Fingerprint ^= 1
	for i, docs := range [][]index.Document{right, right[:7], append(slices.Clone(right), right[3]),
		swapped, near} {
		o := r.options(index.NoSync)
		o.FS = vfs.NewMem()
		x, err := index.Open("index", o)
		must(t, err)
		must(t, x.Add(t.Context(), docs...))
		for _, d := range right {
			err = errors.Join(err, r.verify(t.Context(), x, d.Fingerprint))
		}
		if i == 0 && err != nil || i > 0 && !errors.Is(err, ErrWrongAnswer) {
			t.Errorf("documents %d: %v", i, err)
		}
		must(t, x.Close())
	}
}

func TestCollection(t *testing.T) {
	c, keys, distances := collection{n: 10_000}, make(map[string]bool), make(map[int]int)
	for d := range c.documents(true) {
		if keys[d.Key] = true; len(d.Key) != 60 {
			t.Fatalf("key %q has %d bytes", d.Key, len(d.Key))
		}
	}
	const k, n = 5, 1200
	for i := range n {
		d, nearest := c.near(i, k), 64
		for j := range c.n {
			nearest = min(nearest, bits.OnesCount64(at(seed, j)^uint64(d.Fingerprint)))
		}
		distances[nearest]++
	}
	for d := range k + 1 {
		if distances[d] < n/(k+1)/2 || distances[d] > n/(k+1)*2 {
			t.Errorf("%d of %d documents are at distance %d", distances[d], n, d)
		}
	}
	if len(keys) != c.n {
		t.Errorf("%d keys are different, want %d", len(keys), c.n)
	}
}

// TestSteady measures work whose rate grows until it is constant.
func TestSteady(t *testing.T) {
	calls := 0
	rate, warm, err := steady(t.Context(), 20*time.Millisecond, 1, func() (int, error) {
		calls++
		time.Sleep(2 * time.Millisecond)
		return min(calls, 10), nil
	})
	if err != nil || rate < 500 || rate > 5000 || warm < 20*time.Millisecond {
		t.Errorf("rate %v, %v to warm up, error %v", rate, warm, err)
	}
}
