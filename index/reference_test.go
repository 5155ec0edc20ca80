package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/verify"
)

func mustPlan(t testing.TB, design string, k int) *plan.Plan {
	t.Helper()
	p, err := plan.Named(design, k)
	must(t, err)
	return p
}

// openMem is like openAt, for an index in memory.
func openMem(t testing.TB, opts Options) *Index {
	t.Helper()
	if opts.FS == nil {
		opts.FS = vfs.NewMem()
	}
	return openAt(t, "index", opts)
}

// openAt opens an index. When the test ends, an index that is still open is verified and closed.
func openAt(t testing.TB, dir string, opts Options) *Index {
	t.Helper()
	x, err := Open(dir, &opts)
	must(t, err)
	t.Cleanup(func() {
		for p := range x.Verify(context.Background(), verify.Options{}) {
			if p.Err != ErrClosed {
				t.Errorf("verify: %v", p)
			}
		}
		if err := x.Close(); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return x
}

// OpenMem is like openMem, without Sync.
func OpenMem(t testing.TB, opts Options) *Index {
	t.Helper()
	opts.Durability = NoSync
	return openMem(t, opts)
}

// Injecting returns a file system that calls f before each operation and returns its error.
func Injecting(fsys vfs.FS, f func(errorfs.Op) error) vfs.FS {
	return errorfs.Wrap(fsys, errorfs.InjectorFunc(f))
}

// WhenAsked is a context that calls a function at each check.
type WhenAsked struct {
	context.Context
	Call func()
}

func (c WhenAsked) Err() error {
	c.Call()
	return c.Context.Err()
}

// Strangers returns n documents that are not near any other document.
func Strangers(n int) []Document {
	rng := rand.New(rand.NewPCG(77, 77))
	docs := make([]Document, n)
	for i := range docs {
		docs[i] = Document{Key: fmt.Sprint("stranger ", i),
			Fingerprint: fingerprint.Fingerprint(rng.Uint64())}
	}
	return docs
}

var must = testenv.Must
