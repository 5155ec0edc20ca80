package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/neardup/neardup/index"
)

var deleteCommand = command{
	name:    "delete",
	args:    "-index DIR [-before TIME] KEY...",
	summary: "delete documents by key (- reads keys from standard input, one a line) or by age",
	run:     runDelete,
}

func runDelete(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	before := c.flags.String("before", "", "delete what was added before this `time`: 2026-01-31, 2026-01-31T12:00:00Z, or a duration ago such as 720h")
	if err := c.parse(); err != nil {
		return err
	}
	if err := indexes.required(); err != nil {
		return err
	}
	if *before == "" && len(c.args) == 0 {
		return usagef("nothing to delete: no KEY and no -before")
	}
	var bound time.Time
	if *before != "" {
		var err error
		if bound, err = parseTime(*before, time.Now()); err != nil {
			return err
		}
	}
	x, err := index.Open(indexes.dir, &index.Options{MustExist: true, CacheBytes: indexes.cache << 20})
	if err != nil {
		return err
	}
	deleted := 0
	if !bound.IsZero() {
		deleted, err = x.DeleteBefore(ctx, bound)
	}
	for keys := range keyBatches(c.args, c.in, &err) {
		var n int
		if n, err = x.Delete(ctx, keys...); err != nil {
			break
		}
		deleted += n
	}
	out := newLines(c.out)
	out.write(struct {
		Deleted int `json:"deleted"`
	}{deleted})
	return errors.Join(err, out.flush(), x.Close())
}

// parseTime reads a date, a time or a duration before now.
func parseTime(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("-before is %q, want a date, an RFC 3339 time or a duration such as 720h", s)
}

// keyBatches yields the keys, some hundreds at a time; "-" stands for the lines of in.
// It yields nothing where *err is set, and sets it when reading fails.
func keyBatches(args []string, in io.Reader, err *error) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		var batch []string
		add := func(key string) bool {
			if batch = append(batch, key); len(batch) < maxBatch {
				return true
			}
			full := batch
			batch = nil
			return yield(full)
		}
		for _, arg := range args {
			if *err != nil {
				return
			}
			if arg != "-" {
				if !add(arg) {
					return
				}
				continue
			}
			lines := bufio.NewScanner(in)
			lines.Buffer(nil, 2*index.MaxKeyBytes)
			for lines.Scan() {
				if !add(lines.Text()) {
					return
				}
			}
			*err = lines.Err()
		}
		if *err == nil && len(batch) > 0 {
			yield(batch)
		}
	}
}
