package compaction_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// TestErrors tests that invalid options, and an index that is missing or open, are refused, and
// that nothing is created.
func TestErrors(t *testing.T) {
	ctx, fsys := t.Context(), vfs.NewMem()
	x, err := index.Open("ix", &index.Options{FS: fsys, Analyzer: "one"})
	must(t, err, x.Add(ctx, index.Document{}))
	run := func(dir string, o compaction.Options) error {
		o.FS = fsys
		_, err := compaction.Run(ctx, dir, o)
		return err
	}
	load := func(dir string, memory int64, o index.Options) error {
		o.FS = fsys
		_, err := compaction.Load(ctx, dir, func(func(index.Document, error) bool) {
			t.Error("Load asks for documents")
		}, compaction.LoadOptions{Index: o, MemoryBytes: memory})
		return err
	}
	repair := func(dir, dest string, o compaction.Options) error {
		o.FS = fsys
		_, err := compaction.Repair(ctx, dir, dest, compaction.RepairOptions{Options: o})
		return err
	}
	refused := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) && !strings.Contains(fmt.Sprint(err), want.Error()) {
			t.Errorf("%s: error %v, want %v", what, err, want)
		}
	}
	refused("Run of no index", run("new", compaction.Options{}), fs.ErrNotExist)
	refused("Run of an open index", run("ix", compaction.Options{}), index.ErrLocked)
	refused("Load into an open index", load("ix", 0, index.Options{}), index.ErrLocked)
	memory := errors.New("MemoryBytes is -1")
	_, err = compaction.Compact(ctx, x, compaction.Options{MemoryBytes: -1})
	refused("Compact", err, memory)
	for what, p := range map[string]compaction.Policy{
		"Share is -0.5":     {Share: -.5},
		"Share is NaN":      {Share: math.NaN()},
		"Every is -1s":      {Every: -time.Second},
		"MemoryBytes is -1": {MemoryBytes: -1},
		"MaxAge is -1h0m0s": {Expiry: index.Expiry{MaxAge: -time.Hour}},
	} {
		_, err := compaction.Background(ctx, x, p)
		refused("Background", err, errors.New(what))
	}
	must(t, x.Close())
	refused("Run", run("ix", compaction.Options{CacheBytes: -1}), errors.New("CacheBytes is -1"))
	refused("Load", load("new", -1, index.Options{}), memory)
	refused("Repair", repair("ix", "new", compaction.Options{MemoryBytes: -1}), memory)
	refused("another k", load("ix", 0, index.Options{MaxDistance: 5}), index.ErrMismatch)
	refused("another analyzer", load("ix", 0, index.Options{Analyzer: "other"}), index.ErrMismatch)
	refused("read-only", load("ix", 0, index.Options{ReadOnly: true}), index.ErrReadOnly)
	if _, err := fsys.Stat("new"); err == nil {
		t.Error("a call that was refused has made an index")
	}
}
