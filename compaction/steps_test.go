package compaction_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
)

// TestCheckpointBetweenTwoCompactions makes a checkpoint with the files from before a compaction.
// Its log extends until the next compaction has frozen its epoch, which uses the same keyspace as
// the first.
func TestCheckpointBetweenTwoCompactions(t *testing.T) {
	ctx := t.Context()
	// documents with equal fingerprints, for each epoch
	inEpoch := func(n int) (docs []index.Document) {
		for i := range 20 {
			docs = append(docs, index.Document{Key: fmt.Sprintf("%d in epoch %d", i, n),
				Fingerprint: fingerprint.Fingerprint(i) << 40})
		}
		return docs
	}
	var packing, installing, copying func() // each is called once
	once := func(f *func()) {
		if call := *f; call != nil {
			*f = nil
			call()
		}
	}
	mem := vfs.NewMem()
	x, err := index.Open("ix", &index.Options{Durability: index.NoSync,
		FS: errorfs.Wrap(mem, writes(func(op errorfs.Op) error {
			incoming := strings.HasPrefix(op.Path, "ix/incoming/")
			switch {
			case op.Kind == errorfs.OpCreate && incoming:
				once(&packing)
			case op.Kind == errorfs.OpLink && incoming:
				once(&installing)
			case strings.HasPrefix(op.Path, "copy"):
				once(&copying)
			}
			return nil
		}))})
	must(t, err, x.Add(ctx, inEpoch(0)...))
	reached, goOn, made := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	copying = func() { close(reached); <-goOn }
	packing = func() { must(t, x.Add(ctx, inEpoch(1)...)) }
	installing = func() {
		go func() { made <- x.Checkpoint(ctx, "copy") }()
		<-reached
	}
	compact := func(x *index.Index) error {
		_, err := compaction.Compact(ctx, x, compaction.Options{})
		return err
	}
	must(t, compact(x))
	_, err = x.Delete(ctx, inEpoch(0)[0].Key, inEpoch(1)[1].Key)
	must(t, err)
	frozen, wait, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	packing = func() {
		must(t, x.Add(ctx, inEpoch(2)...), x.Sync(ctx)) // goes to the log that is copied
		close(frozen)
		<-wait
	}
	go func() { done <- compact(x) }()
	select { // The second compaction may wait for the end of the checkpoint.
	case <-frozen:
	case <-time.After(100 * time.Millisecond):
	}
	must(t, x.Sync(ctx))
	close(goOn)
	must(t, <-made)
	close(wait)
	must(t, <-done, x.Close())
	y, err := index.Open("copy", &index.Options{FS: mem, MustExist: true})
	must(t, err)
	want, err := seen(y)
	must(t, err)
	if n := len(want.Docs); n != 38 && n != 58 {
		t.Errorf("the checkpoint has %d documents", n)
	}
	for range 3 {
		must(t, compact(y))
		got, err := seen(y)
		must(t, err)
		if diff := indextest.Difference(got.Docs, want.Docs); diff != "" {
			t.Errorf("after a compaction the checkpoint differs: %s", diff)
		}
		must(t, y.Add(ctx, index.Document{}))
		want, err = seen(y)
		must(t, err)
	}
	must(t, y.Close())
}
