package compaction_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/verify"
)

// TestVerifyOverCompaction: an index that shrinks much and is packed while it is verified is as sound as it was.
func TestVerifyOverCompaction(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("takes some seconds")
	}
	ctx, fs := context.Background(), vfs.NewMem()
	docs := randomDocuments(rand.New(rand.NewPCG(1, 4)), 500_000)
	if _, err := compaction.Load(ctx, "ix", seqOf(docs, nil), compaction.LoadOptions{Index: index.Options{FS: fs}}); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open("ix", &index.Options{FS: fs, Durability: index.NoSync})
	must(t, err)
	defer x.Close()
	compacted := false
	for p := range x.Verify(ctx, verify.Options{Progress: func(stage string, _ uint64) {
		if compacted || stage != "meta" {
			return
		}
		compacted = true
		if _, err := x.DeleteBefore(ctx, time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
		if _, err := compaction.Compact(ctx, x, compaction.Options{}); err != nil {
			t.Error(err)
		}
	}}) {
		t.Error(p)
	}
	if s := x.Stats(); !compacted || s.Generation != 2 || s.Packed != 0 {
		t.Errorf("%+v", s)
	}
}
