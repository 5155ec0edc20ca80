package index_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/store"
)

// releasedDir holds an index in every format that was ever written. They must open
// for good. One is made by NEARDUP_WRITE_RELEASED=1 go test -run Released ./index
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
		docs[0].Tokens, docs[1].Tokens, docs[6].Tokens = 300, 1, match.MaxTokens
	}
	if format >= 7 {
		docs[0].Digest, docs[7].Digest = 1, 1<<63
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

// writeReleased makes one in which everything is packed, frozen and live: most
// documents are packed, and some were added and deleted since. Its plan was changed while one was added.
func writeReleased(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	next := uint64(1)
	opts := index.Options{MaxDistance: 2, Analyzer: "released/1", Now: func() time.Time { return releasedTime(next) }}
	change := func(do func(*index.Index) error) {
		x, err := index.Open(dir, &opts)
		must(t, err)
		err = do(x)
		next = x.Stats().NextID
		must(t, err, x.Close())
	}
	docs := append(releasedDocuments(store.Format), index.Document{Key: "gone", Fingerprint: 7}, index.Document{Key: "gone too", Fingerprint: 0xffffffffffffffff})
	change(func(x *index.Index) error { return x.Add(ctx, docs[:3]...) })
	change(func(x *index.Index) error { return x.Add(ctx, docs[3:40]...) })
	if _, err := compaction.Run(ctx, dir, compaction.Options{}); err != nil {
		t.Fatal(err)
	}
	change(func(x *index.Index) error { return x.Add(ctx, docs[40:len(docs)-1]...) })
	meanwhile := func() {}
	opts.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "/incoming/") {
			meanwhile()
		}
		return nil
	}))
	change(func(x *index.Index) error {
		to, err := index.ParsePlan("2", 3)
		meanwhile = func() { err, meanwhile = x.Add(ctx, docs[len(docs)-1]), func() {} }
		_, failed := compaction.Compact(ctx, x, compaction.Options{Plan: to})
		return errors.Join(err, failed)
	})
	opts.MaxDistance, opts.FS = 0, nil
	cut := errors.New("cut short")
	change(func(x *index.Index) error { // the document before comes to be frozen
		one := rewrite.Addition{
			Read:  func(context.Context, *store.Store, *plan.Plan) (uint64, error) { return 1, nil },
			Close: func() error { return nil },
		}
		err := x.Rewrite(ctx, nil, &one, func(context.Context, rewrite.Frozen) (rewrite.Packed, error) {
			// This is packed, and comes to be live in all tables as well.
			return rewrite.Packed{}, errors.Join(x.Add(ctx, index.Document{Key: "gone as well", Fingerprint: 0x5555555555555555}), cut)
		})
		if errors.Is(err, cut) {
			err = nil
		}
		return err
	})
	change(func(x *index.Index) error { _, err := x.Delete(ctx, "gone", "gone too", "gone as well"); return err })
}

func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		must(t, err)
		files[filepath.Base(name)] = string(data)
	}
	return files
}

// TestReleasedFormats: each opens for reading without a byte of it being changed, and for
// writing as the newest one, which it then stays. All documents are there, and found.
func TestReleasedFormats(t *testing.T) {
	if os.Getenv("NEARDUP_WRITE_RELEASED") != "" {
		writeReleased(t, releasedDir(store.Format))
	}
	for format := store.FormatOldest; format <= store.Format; format++ {
		dir := filepath.Join(t.TempDir(), "ix")
		must(t, os.CopyFS(dir, os.DirFS(releasedDir(format))))
		before := readFiles(t, dir)
		for i, c := range []struct {
			opts index.Options
			want int
		}{{index.Options{ReadOnly: true}, format}, {index.Options{MustExist: true}, store.Format}, {index.Options{ReadOnly: true}, store.Format}} {
			c.opts.MaxDistance, c.opts.Analyzer = 3, "released/1"
			x, err := index.Open(dir, &c.opts)
			if err != nil {
				t.Fatalf("format %d: %v", format, err)
			}
			if s := x.Stats(); s.Format != c.want {
				t.Errorf("format %d, opened the %d. time: %+v", format, i+1, s)
			}
			if err := checkReleased(x, format); err != nil {
				t.Errorf("format %d, opened the %d. time: %v", format, i+1, err)
			}
			if err := x.Close(); err != nil {
				t.Error(err)
			}
			if i == 0 && !maps.Equal(readFiles(t, dir), before) {
				t.Errorf("format %d was changed by reading it", format)
			}
		}
	}
}

// checkReleased compares an index with the documents that it should have. Before format 4,
// nothing is said of their times.
func checkReleased(x *index.Index, format int) error {
	got, err := indextest.AllDocuments(x)
	if err != nil {
		return err
	}
	m := indextest.NewModel(indextest.RuleOf(index.Options{}, 3))
	for i, d := range releasedDocuments(format) {
		if m.Now = releasedTime(uint64(i + 1)); format < 4 && i < len(got) {
			m.Now = got[i].Added
		}
		m.Add(d)
	}
	m.NextID += 2 // those that are gone
	if format >= 6 {
		m.NextID += 2 // one more, and one that was not loaded
	}
	query := index.Document{Fingerprint: 0x5555555555555556}
	return errors.Join(m.Compare(x), m.Query(x, query, 2, 3), indextest.Problems(x))
}

// TestOpenOfABrokenPlan: what is no plan, or does not find all that it says, is damage. What else may be wrong
// is for the tests of package store.
func TestOpenOfABrokenPlan(t *testing.T) {
	for _, text := range []string{"k=3 0-63/16 16-", "k=3 0-63/32"} {
		fsys := vfs.NewMem()
		x, err := index.Open("ix", &index.Options{FS: fsys})
		must(t, err)
		must(t, database(x).Set([]byte("mplan"), []byte(text), pebble.Sync), x.Close())
		for _, opts := range []index.Options{{MustExist: true}, {ReadOnly: true}} {
			opts.FS = fsys
			if _, err := index.Open("ix", &opts); !errors.Is(err, index.ErrCorrupt) {
				t.Errorf("%q, %+v: %v", text, opts, err)
			}
		}
	}
}
