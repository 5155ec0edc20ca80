// Package matches compares a file of fingerprints with many queries in one pass. The matches need
// not fit in memory. They are returned per query, ordered by distance, then by position in the
// file.
package matches

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/groups"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/extsort"
	"github.com/neardup/neardup/internal/scan"
)

// List has the matches of a scan.
type List struct {
	mu      sync.Mutex
	sorter  *extsort.Sorter[[4]uint64] // query<<8 | distance, number, fingerprint, key
	keys    groups.Keys
	n       int // number of matches
	queries int
}

// Scan reads a file of size bytes once, and finds its fingerprints that are within k bits of a
// query. It calls chunk with each chunk of the file. Close the List after use.
func Scan(
	ctx context.Context, file *corpus.Reader, queries []fingerprint.Fingerprint, k int, size int64,
	chunk func(*corpus.Chunk),
) (*List, error) {
	const lineBytes = 12 // 8 in u64le, 17 and more in lines
	prepared, err := scan.New(queries, k, size/lineBytes)
	if err != nil {
		return nil, err
	}
	l := &List{sorter: extsort.New[[4]uint64](extsort.Options{MemoryBytes: 256 << 20}),
		queries: len(queries)}
	for c, err := range file.Chunks(ctx, func(c *corpus.Chunk) error {
		return l.add(prepared, c)
	}) {
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		chunk(c)
	}
	return l, nil
}

// Close removes the temporary files of the list.
func (l *List) Close() error { return l.sorter.Close() }

// add adds the matches of a chunk. Several goroutines can call it at the same time.
func (l *List) add(queries *scan.Queries, chunk *corpus.Chunk) (err error) {
	words := make([]uint64, len(chunk.Fingerprints))
	for i, fp := range chunk.Fingerprints {
		words[i] = uint64(fp)
	}
	var found [][4]uint64
	flush := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range found {
			l.keys.Add(l.n, chunk.Key(int(found[i][3])))
			found[i][3] = uint64(l.n)
			l.n++
		}
		err = errors.Join(err, l.sorter.Add(found...))
		found = found[:0]
	}
	queries.Scan(words, func(m scan.Match) {
		found = append(found, [4]uint64{uint64(m.Query)<<8 | uint64(m.Distance), chunk.Number(m.At),
			words[m.At], uint64(m.At)})
		if len(found) == 4096 {
			flush()
		}
	})
	flush()
	return err
}

// Each calls found with the matches of each query, in order. The IDs of matches are numbers in the
// file.
func (l *List) Each(ctx context.Context, found func(query int, matches []index.Match)) error {
	next := 0
	var records [][4]uint64
	until := func(query int) {
		for ; next < query; next++ {
			slices.SortFunc(records, func(a, b [4]uint64) int {
				return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
			})
			matches := make([]index.Match, len(records))
			for i, r := range records {
				matches[i] = index.Match{Document: index.Document{ID: r[1],
					Key: l.keys.At(int(r[3])), Fingerprint: fingerprint.Fingerprint(r[2])},
					Distance: int(r[0] & 0xff)}
			}
			found(next, matches)
			records = records[:0]
		}
	}
	for run, err := range l.sorter.Sorted(ctx) {
		if err != nil {
			return err
		}
		for _, r := range run {
			until(int(r[0] >> 8))
			records = append(records, r)
		}
	}
	until(l.queries)
	return nil
}
