package index_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/indextest"
)

// together adds each document by a call of its own while no commit is applied, and returns their errors once all are.
func together(t *testing.T, x *index.Index, docs []index.Document) []error {
	t.Helper()
	release, errs := x.HoldCommits(), make([]error, len(docs))
	done := make(chan int)
	for i := range docs {
		go func() {
			errs[i] = x.Add(context.Background(), docs[i:i+1]...)
			done <- i
		}()
	}
	for begun := time.Now(); x.Joined() < len(docs); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("%d of %d changes wait", x.Joined(), len(docs))
		}
	}
	release()
	for range docs {
		<-done
	}
	return errs
}

// Changes that only add, and wait for the same lock, are one commit: each document has an ID of its own, and all are there.
func TestChangesAreAppliedTogether(t *testing.T) {
	for _, durability := range []index.Durability{index.Sync, index.NoSync} {
		x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Durability: durability})
		must(t, err)
		docs := make([]index.Document, 40)
		for i := range docs {
			docs[i] = index.Document{Fingerprint: fingerprint.Fingerprint(i) * 0x9e3779b97f4a7c15, Key: fmt.Sprint("page ", i)}
		}
		before := x.Commits()
		must(t, together(t, x, docs)...)
		if n := x.Commits() - before; n != 1 {
			t.Errorf("%v: %d commits", durability, n)
		}
		ids := map[uint64]bool{}
		for _, d := range docs {
			got, found, err := x.Get(context.Background(), d.Key)
			if err != nil || !found || got != d {
				t.Errorf("%v: %+v is stored as %+v, %v, %v", durability, d, got, found, err)
			}
			ids[d.ID] = true
		}
		if len(ids) != len(docs) {
			t.Errorf("%v: %d IDs of %d documents", durability, len(ids), len(docs))
		}
		must(t, indextest.Problems(x), x.Close())
	}
}

// Of changes that are applied together one cannot be: it fails, and the others do not.
func TestOneOfAGroupFails(t *testing.T) {
	packed := documents(1, packedDocuments)
	d := openDamaged(t, packedIndex(t, 1<<20, packed), nil)
	for _, key := range d.keys("u\x00\x00") {
		d.set(key, 0xff)
	}
	docs := documents(firstLive, 5)
	docs[2] = index.Document{Fingerprint: packed[7].Fingerprint, Key: "in a block that cannot be read"}
	for i, err := range together(t, d.x, docs) {
		if failed := i == 2; failed != errors.Is(err, index.ErrCorrupt) || !failed && err != nil {
			t.Errorf("document %d: %v", i, err)
		}
		if _, found, err := d.x.Get(context.Background(), docs[i].Key); docs[i].Key != "" && (err != nil || found == (i == 2)) {
			t.Errorf("document %d: there %v, %v", i, found, err)
		}
	}
}

// inParts has windows applied in parts, until restore is called.
func inParts() (restore func()) {
	processors, always := runtime.GOMAXPROCS(2), index.SetPartsFrom(0) // with one nothing goes on meanwhile
	return func() {
		runtime.GOMAXPROCS(processors)
		always()
	}
}

// Documents behind those that are applied are duplicates of these, and there is nothing else to apply with them: their
// verdicts name what they are duplicates of, as it is stored.
func TestDuplicatesOfAnEarlierPart(t *testing.T) {
	defer inParts()()
	x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Durability: index.NoSync})
	must(t, err)
	docs := make([]index.Document, 256)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(i%64+1) * 0x9e3779b97f4a7c15
	}
	verdicts, err := x.CheckAndAddBatch(t.Context(), docs)
	must(t, err)
	for i, v := range verdicts[64:] {
		if v.Status != index.Duplicate || v.Of.Document != verdicts[i%64].Document || v.Of.ID == 0 {
			t.Fatalf("document %d: %v of %+v, not of %+v", 64+i, v.Status, v.Of, verdicts[i%64].Document)
		}
	}
	must(t, x.Close())
}

// whenAsked is a context that calls back whenever it is asked whether it is over.
type whenAsked struct {
	context.Context
	call func()
}

func (c whenAsked) Err() error {
	c.call()
	return c.Context.Err()
}

// What a duplicate is a duplicate of is applied with the documents at the beginning of a window, and deleted before those behind
// them are: the duplicate is new then.
func TestOriginIsDeletedWithinAWindow(t *testing.T) {
	defer inParts()()
	x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Durability: index.NoSync, KeepDuplicates: true})
	must(t, err)
	docs := make([]index.Document, 256)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(i+1) * 0x9e3779b97f4a7c15
	}
	docs[200].Fingerprint = docs[3].Fingerprint
	deleted := 0
	verdicts, err := x.CheckAndAddBatch(whenAsked{t.Context(), func() {
		if n := x.Stats().Documents; deleted == 0 && n > 150 && n < 200 {
			var err error
			if deleted, err = x.DeleteIDs(t.Context(), 4); err != nil {
				t.Error(err)
			}
		}
	}}, docs)
	must(t, err)
	if v := verdicts[200]; deleted != 1 || v.Status != index.New || x.Stats().Documents != 255 {
		t.Errorf("%d deleted, %v of %+v, %d documents", deleted, v.Status, v.Of, x.Stats().Documents)
	}
	must(t, indextest.Problems(x), x.Close())
}

// What a document near the end of a window is a duplicate of is deleted before a recrawl at its beginning is applied: in turn, the recrawl comes
// first, so the document is new.
func TestDeletedBeforeAnEarlierPart(t *testing.T) {
	defer inParts()()
	x, err := index.Open("ix", &index.Options{FS: vfs.NewMem(), Durability: index.NoSync})
	must(t, err)
	docs := make([]index.Document, 256)
	for i := range docs {
		docs[i].Fingerprint = fingerprint.Fingerprint(i+1) * 0x9e3779b97f4a7c15
	}
	must(t, x.Add(t.Context(), index.Document{Key: "page"}, docs[0], docs[200]))
	docs[0].Key = "page" // has become a duplicate
	asked := 0
	verdicts, err := x.CheckAndAddBatch(whenAsked{t.Context(), func() {
		if asked++; asked == 2 { // when the call begins, and for the first document
			if n, err := x.DeleteIDs(t.Context(), 3); n != 1 || err != nil {
				t.Error(n, err)
			}
		}
	}}, docs)
	must(t, err)
	if first, late := verdicts[0], verdicts[200]; first.Of.ID != 2 || late.Status != index.New {
		t.Errorf("%v of %+v, and %v of %+v", first.Status, first.Of, late.Status, late.Of)
	}
	must(t, indextest.Problems(x), x.Close())
}
