package compaction

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
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/store"
)

// releasedDir holds an index in every format that was ever written. They must open
// for good. One is made by NEARDUP_WRITE_RELEASED=1 go test -run Released ./compaction
// when the format gets a new number, and never again.
func releasedDir(format int) string {
	return fmt.Sprintf("../testdata/index-format-%d", format)
}

// releasedDocuments are in each of them, but for their time of arrival.
func releasedDocuments(format int) []index.Document {
	docs := []index.Document{
		{Key: "http://a.example/", Fingerprint: 0x0123456789abcdef, Shingle: 0xfedcba9876543210},
		{Key: "http://b.example/", Fingerprint: 0x0123456789abcdee, Scope: "b.example"},
		{Fingerprint: 0xffffffffffffffff},
		{Key: "страница", Fingerprint: 0},
	}
	for range 40 { // a posting that is a bitmap
		docs = append(docs, index.Document{Fingerprint: 0x5555555555555555})
	}
	if format >= 3 {
		docs[0].Tokens, docs[1].Tokens, docs[6].Tokens = 300, 1, index.MaxTokens
	}
	return docs
}

// releasedTime is when a document of format 4 and later was added: the clock was ten years
// ahead for a while.
func releasedTime(id uint64) time.Time {
	added := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	if id > 3 && id <= 40 {
		added = added.AddDate(10, 0, 0)
	}
	return added
}

// writeReleased makes one in which everything is both packed and live: most
// documents are packed, and some were added and deleted since.
func writeReleased(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	next := uint64(1)
	opts := index.Options{Analyzer: "released/1", Now: func() time.Time { return releasedTime(next) }}
	change := func(do func(*index.Index) error) {
		x, err := index.Open(dir, &opts)
		if err != nil {
			t.Fatal(err)
		}
		err = do(x)
		next = x.Stats().NextID
		if err := errors.Join(err, x.Close()); err != nil {
			t.Fatal(err)
		}
	}
	docs := append(releasedDocuments(store.Format), index.Document{Key: "gone", Fingerprint: 7}, index.Document{Key: "gone too", Fingerprint: 0xffffffffffffffff})
	change(func(x *index.Index) error { return x.Add(ctx, docs[:3]...) })
	change(func(x *index.Index) error { return x.Add(ctx, docs[3:40]...) })
	if _, err := Run(ctx, dir, Options{}); err != nil {
		t.Fatal(err)
	}
	change(func(x *index.Index) error { return x.Add(ctx, docs[40:len(docs)-1]...) })
	if _, err := Run(ctx, dir, Options{}); err != nil {
		t.Fatal(err)
	}
	change(func(x *index.Index) error { return x.Add(ctx, docs[len(docs)-1]) })
	change(func(x *index.Index) error { _, err := x.Delete(ctx, "gone", "gone too"); return err })
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
			checkReleased(t, dir, format)
		})
	}
}

func checkReleased(t *testing.T, dir string, format int) {
	ctx := context.Background()
	x, err := index.Open(dir, &index.Options{MaxDistance: 3, Analyzer: "released/1", MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	want := make(map[uint64]index.Document)
	for i, d := range releasedDocuments(format) {
		d.ID = uint64(i + 1)
		want[d.ID] = d
	}
	for d, err := range x.Documents(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if format >= 4 && !d.Added.Equal(releasedTime(d.ID)) || d.Added.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
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
	matches, err := x.Query(ctx, fingerprint.Fingerprint(0x5555555555555556), index.MaxDistance(2), index.Limit(3))
	if err != nil || len(matches) != 3 || matches[0].ID != 5 || matches[0].Distance != 2 {
		t.Errorf("query: %v, %v", matches, err)
	}
	if v, err := x.CheckAndAdd(ctx, index.Document{Key: "http://a.example/copy", Fingerprint: 0x0123456789abcdee}); err != nil || v.Status != index.Duplicate || v.Of.Key != "http://a.example/" {
		t.Errorf("check: %+v, %v", v, err)
	}
	for p := range x.Verify(ctx) {
		t.Errorf("verify: %v", p)
	}
	if n := x.Stats().Documents; n != uint64(len(releasedDocuments(format))) {
		t.Errorf("%d documents", n)
	}
}
