package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/store"
)

// releasedDir holds an index in every format that was ever written. They must open
// for good. One is made by NEARDUP_WRITE_RELEASED=1 go test -run Released ./index
// when the format gets a new number, and never again.
func releasedDir(format int) string {
	return fmt.Sprintf("../testdata/index-format-%d", format)
}

// releasedDocuments are in each of them, but for their time of arrival.
func releasedDocuments() []Document {
	docs := []Document{
		{Key: "http://a.example/", Fingerprint: 0x0123456789abcdef, Shingle: 0xfedcba9876543210},
		{Key: "http://b.example/", Fingerprint: 0x0123456789abcdee, Scope: "b.example"},
		{Fingerprint: 0xffffffffffffffff},
		{Key: "страница", Fingerprint: 0},
	}
	for range 40 { // a posting that is a bitmap
		docs = append(docs, Document{Fingerprint: 0x5555555555555555})
	}
	return docs
}

func writeReleased(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	x, err := Open(dir, &Options{Analyzer: "released/1"})
	if err != nil {
		t.Fatal(err)
	}
	docs := append(releasedDocuments(), Document{Key: "gone", Fingerprint: 7}, Document{Key: "gone too", Fingerprint: 0xffffffffffffffff})
	if err := x.Add(ctx, docs...); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Compact(ctx), s.Close()); err != nil { // so that there is a table as well as a log
		t.Fatal(err)
	}
	if x, err = Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Delete(ctx, "gone", "gone too"); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReleasedFormatsOpen(t *testing.T) {
	if os.Getenv("NEARDUP_WRITE_RELEASED") != "" {
		writeReleased(t, releasedDir(store.Format))
	}
	for format := store.FormatOldest; format <= store.Format; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ix") // opening writes
			if err := os.CopyFS(dir, os.DirFS(releasedDir(format))); err != nil {
				t.Fatal(err)
			}
			checkReleased(t, dir)
		})
	}
}

func checkReleased(t *testing.T, dir string) {
	ctx := context.Background()
	x, err := Open(dir, &Options{MaxDistance: 3, Analyzer: "released/1", MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	want := make(map[uint64]Document)
	for i, d := range releasedDocuments() {
		d.ID = uint64(i + 1)
		want[d.ID] = d
	}
	for d, err := range x.Documents(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Added.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("document %d was added %v", d.ID, d.Added)
		}
		d.Added = time.Time{}
		if !reflect.DeepEqual(d, want[d.ID]) {
			t.Errorf("document %+v, want %+v", d, want[d.ID])
		}
		delete(want, d.ID)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	matches, err := x.Query(ctx, fingerprint.Fingerprint(0x5555555555555556), MaxDistance(2), Limit(3))
	if err != nil || len(matches) != 3 || matches[0].ID != 5 || matches[0].Distance != 2 {
		t.Errorf("query: %v, %v", matches, err)
	}
	if v, err := x.CheckAndAdd(ctx, Document{Key: "http://a.example/copy", Fingerprint: 0x0123456789abcdee}); err != nil || v.Status != Duplicate || v.Of.Key != "http://a.example/" {
		t.Errorf("check: %+v, %v", v, err)
	}
	if n := x.Stats().Documents; n != uint64(len(releasedDocuments())) {
		t.Errorf("%d documents", n)
	}
}
