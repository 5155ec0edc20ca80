package bench

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/neardup/neardup/index"
)

const (
	// defaultCache is what index.Options take for 0.
	defaultCache = 512 << 20

	// smallCache fills soon and has to drop blocks all the time: what the allocators
	// lose by that comes on top of what the index holds.
	smallCache = 64 << 20
)

// memoryTask opens an index, asks it for a while and says by how much the memory of the
// process grew, garbage not counted.
func memoryTask(ctx context.Context, t *task) (o outcome, err error) {
	open, err := t.options()
	if err != nil {
		return o, err
	}
	before := held()
	err = withIndex(t.Dir, open, func(x *index.Index) error {
		if err := warmUp(ctx, x, t.stored().questions(t.MaxDistance, streamWarm), t.Time); err != nil {
			return err
		}
		o.Resident = held() - before
		s := x.Stats()
		o.Cached = int64(s.CachedBytes + s.StoreCachedBytes)
		o.Filters, o.Directories = int64(s.FilterBytes), int64(s.DirectoryBytes)
		return nil
	})
	return o, err
}

// held returns the memory of the process once garbage is given back.
func held() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	now, _ := memory()
	return now
}

// resident gives the memory that an index takes after queries, with the default cache
// and with a small one.
func (r *run) resident(ctx context.Context, section, dir string) error {
	for _, cache := range []int64{defaultCache, smallCache} {
		o, err := r.do(ctx, task{Name: "memory", Dir: dir, MaxDistance: r.MaxDistance, CacheBytes: cache, Time: r.Time})
		if err != nil || o.Resident <= 0 {
			return err
		}
		n, with := float64(r.Documents), fmt.Sprintf(" with a cache of %d MiB", cache>>20)
		r.figure(section, "memory"+with, mib(o.Resident), "MiB")
		r.figure(section, "a fingerprint beyond it"+with, float64(max(0, o.Resident-o.Cached))/n, "B")
		if cache == defaultCache {
			r.figure(section, "memory of filters, a fingerprint", float64(o.Filters)/n, "B")
			r.figure(section, "memory of directories, a fingerprint", float64(o.Directories)/n, "B")
		}
	}
	return nil
}
