package compaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// documents returns all that an index holds but the IDs' order of listing.
func documents(t *testing.T, x *index.Index) []index.Document {
	t.Helper()
	var docs []index.Document
	for d, err := range x.Documents(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	return docs
}

func TestRunKeepsDocumentsAndGivesSpaceBack(t *testing.T) {
	ctx, fsys := context.Background(), vfs.NewMem()
	r := rand.New(rand.NewPCG(1, 2))
	x, err := index.Open("ix", &index.Options{FS: fsys, Durability: index.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	n := 20_000
	if testing.Short() {
		n = 3000
	}
	fps := make([]fingerprint.Fingerprint, n)
	var gone []string
	docs := make([]index.Document, len(fps))
	for i := range docs {
		fps[i] = fingerprint.Fingerprint(r.Uint64())
		docs[i] = index.Document{Key: fmt.Sprintf("http://a.example/%d", i), Fingerprint: fps[i]}
		if i%10 != 0 {
			gone = append(gone, docs[i].Key)
		}
	}
	if err := x.Add(ctx, docs...); err != nil {
		t.Fatal(err)
	}
	// Only what has reached the tables on disk can be given back.
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if x, err = index.Open("ix", &index.Options{FS: fsys, Durability: index.NoSync}); err != nil {
		t.Fatal(err)
	}
	if n, err := x.Delete(ctx, gone...); err != nil || n != len(gone) {
		t.Fatal(n, err)
	}
	before := documents(t, x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}

	report, err := Run(ctx, "ix", Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	if report.Documents != uint64(len(before)) || report.BytesAfter > report.BytesBefore/3 {
		t.Errorf("%+v: nine in ten of the documents were deleted", report)
	}
	if x, err = index.Open("ix", &index.Options{FS: fsys, ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if after := documents(t, x); !reflect.DeepEqual(before, after) {
		t.Errorf("%d documents before, %d after, and they differ", len(before), len(after))
	}
	for i, fp := range fps {
		matches, err := x.Query(ctx, fp^1)
		if err != nil {
			t.Fatal(err)
		}
		stored := i%10 == 0
		if slices.ContainsFunc(matches, func(m index.Match) bool { return m.Fingerprint == fp }) != stored {
			t.Fatalf("document %d, stored %t: matches %v", i, stored, matches)
		}
	}
}

func TestRunErrors(t *testing.T) {
	ctx, fsys := context.Background(), vfs.NewMem()
	if _, err := Run(ctx, "nowhere", Options{FS: fsys}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no index: %v", err)
	}
	x, err := index.Open("ix", &index.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(ctx, "ix", Options{FS: fsys}); !errors.Is(err, index.ErrLocked) {
		t.Errorf("open index: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Run(cancelled, "ix", Options{FS: fsys}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
