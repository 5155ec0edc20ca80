package bench

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/neardup/neardup/index"
)

// smallCache is the cache of an index whose memory is measured. It fills soon, so that
// what is above it is the rest.
const smallCache = 64 << 20

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

// resident gives the memory that an index takes after queries, with a small cache.
func (r *run) resident(ctx context.Context, section, dir string) error {
	o, err := r.do(ctx, task{Name: "memory", Dir: dir, MaxDistance: r.MaxDistance, CacheBytes: smallCache, Time: r.Time})
	if err != nil || o.Resident <= 0 {
		return err
	}
	n := float64(r.Documents)
	r.figure(section, "memory with a cache of 64 MiB", mib(o.Resident), "MiB")
	r.figure(section, "memory beyond the cache, a fingerprint", float64(max(0, o.Resident-o.Cached))/n, "B")
	r.figure(section, "memory of filters, a fingerprint", float64(o.Filters)/n, "B")
	r.figure(section, "memory of directories, a fingerprint", float64(o.Directories)/n, "B")
	return nil
}
