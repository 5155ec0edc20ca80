package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/neardup/neardup/index"
)

// references are indexes that documents are compared with and that nothing is added to.
type references struct {
	call    *call
	dirs    []string
	indexes []*index.Index // of dirs
	k       int            // largest distance of a match
	match   *matchFlags
}

func (c *call) againstFlag(match *matchFlags) *references {
	r := &references{call: c, match: match}
	c.flags.Func("against", "`folder` of an index to compare with first, to which nothing is added; may be given several times", func(dir string) error {
		if dir == "" {
			return errors.New("the name of the folder is empty")
		}
		r.dirs = append(r.dirs, dir)
		return nil
	})
	return r
}

// open opens the references. Where the k of the index at hand is known before it is
// opened, or made, it is checked: what fails should not leave an empty index.
func (r *references) open(indexes *indexFlags, analyzer string) error {
	for _, dir := range r.dirs {
		if indexes.dir != "" && sameFolder(dir, indexes.dir) {
			return usagef("-against %s is the index that documents are added to", dir)
		}
		x, err := index.Open(dir, &index.Options{ReadOnly: true, CacheBytes: indexes.cache << 20, Analyzer: analyzer})
		if err != nil {
			return fmt.Errorf("-against: %w", err)
		}
		r.indexes = append(r.indexes, x)
	}
	if _, err := os.Stat(indexes.dir); r.call.given("k") || err != nil {
		return r.setDistance(indexes.k)
	}
	return nil
}

func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// setDistance checks that all references can be asked for matches within k.
func (r *references) setDistance(k int) error {
	r.k = k
	for i, x := range r.indexes {
		if has := x.Plan().MaxDistance; has < k {
			return fmt.Errorf("-against %s: %w: it finds what is within k = %d only, documents are to be compared within %d",
				r.dirs[i], index.ErrMismatch, has, k)
		}
	}
	return nil
}

func (r *references) close() error {
	var errs []error
	for _, x := range r.indexes {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// nearest returns the nearest match of each document in the references, nil if it has
// none. Of several at one distance it is that of the reference that was given first.
func (r *references) nearest(ctx context.Context, docs []index.Document) ([]*ofLine, error) {
	nearest := make([]*ofLine, len(docs))
	scopes := make(map[string][]int)
	for i := range docs {
		scopes[docs[i].Scope] = append(scopes[docs[i].Scope], i)
	}
	for n, x := range r.indexes {
		for scope, places := range scopes {
			asked := make([]index.Document, len(places))
			for i, place := range places {
				asked[i] = docs[place]
			}
			fps, opts := r.match.queries(asked)
			opts = append(opts, index.MaxDistance(r.k), index.Limit(1), index.InScope(scope))
			for answer, err := range x.QueryBatch(ctx, fps, opts...) {
				if err != nil {
					return nil, fmt.Errorf("-against %s: %w", r.dirs[n], err)
				}
				if len(answer.Matches) == 0 {
					continue
				}
				m, have := answer.Matches[0], &nearest[places[answer.Query]]
				if *have == nil || m.Distance < (*have).Distance {
					*have = &ofLine{Key: m.Key, Distance: m.Distance, Index: r.dirs[n]}
				}
			}
		}
	}
	return nearest, nil
}
