package index_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/store"
)

// storedDir holds an index in the current format, which fixes the bytes on disk. To write it again
// for a new format number:
//
//	rm -r testdata/index-format
//	NEARDUP_WRITE_FORMAT=1 go test -run StoredFormat ./index
const storedDir = "../testdata/index-format"

// storedDocuments returns the documents in storedDir.
func storedDocuments() []index.Document {
	docs := []index.Document{
		{Key: "http://a.example/", Fingerprint: 0x0123456789abcdef,
			Shingles: fingerprint.ShingleSignature{0xfedcba9876543210, 1, 1 << 63,
				0x0123456789abcdef}},
		{Key: "http://b.example/", Fingerprint: 0x0123456789abcdee, Scope: "b.example"},
		{Fingerprint: 0xffffffffffffffff},
		{Key: "страница", Fingerprint: 0},
	}
	for range 40 { // the 40 IDs of one fingerprint are stored as a bitmap
		docs = append(docs, index.Document{Fingerprint: 0x5555555555555555})
	}
	docs[0].Tokens, docs[1].Tokens, docs[6].Tokens = 300, 1, match.MaxTokens
	docs[0].Digest, docs[7].Digest = 1, 1<<63
	return docs
}

// storedTime returns the time of a document. The clock was ten years ahead for a while.
func storedTime(id uint64) time.Time {
	added := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	if id > 3 && id <= 40 {
		added = added.AddDate(10, 0, 0)
	}
	return added
}

// writeStored writes an index with packed, frozen and live entries. Most documents are packed, and
// some were added and deleted later.
func writeStored(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	next := uint64(1)
	opts := index.Options{MaxDistance: 2, Analyzer: "stored/1",
		Now: func() time.Time { return storedTime(next) }}
	change := func(do func(*index.Index) error) {
		x, err := index.Open(dir, &opts)
		must(t, err)
		err = do(x)
		next = x.Stats().NextID
		must(t, err, x.Close())
	}
	docs := append(storedDocuments(), index.Document{Key: "gone", Fingerprint: 7},
		index.Document{Key: "gone too", Fingerprint: 0xffffffffffffffff})
	change(func(x *index.Index) error { return x.Add(ctx, docs[:3]...) })
	change(func(x *index.Index) error { return x.Add(ctx, docs[3:40]...) })
	if _, err := compaction.Run(ctx, dir, compaction.Options{}); err != nil {
		t.Fatal(err)
	}
	change(func(x *index.Index) error { return x.Add(ctx, docs[40:len(docs)-1]...) })
	change(func(x *index.Index) error { return x.Add(ctx, docs[len(docs)-1]) })
	opts.MaxDistance = 0
	cut := errors.New("interrupted")
	change(func(x *index.Index) error { // this freezes the documents added so far
		err := rewrite.Repack(ctx, x, func(context.Context,
			rewrite.Frozen) (rewrite.Packed, error) {
			return rewrite.Packed{},
				errors.Join(
					x.Add(ctx, index.Document{Key: "gone as well",
						Fingerprint: 0x5555555555555555}), cut)
		})
		if errors.Is(err, cut) {
			err = nil
		}
		return err
	})
	change(func(x *index.Index) error {
		_, err := x.Delete(ctx, "gone", "gone too", "gone as well")
		return err
	})
}

// TestStoredFormat opens a stored index read-only, which must not change a byte, and for writing.
// All documents must be found.
func TestStoredFormat(t *testing.T) {
	if os.Getenv("NEARDUP_WRITE_FORMAT") != "" {
		writeStored(t, storedDir)
	}
	dir := filepath.Join(t.TempDir(), "ix")
	must(t, os.CopyFS(dir, os.DirFS(storedDir)))
	for i, opts := range []index.Options{{ReadOnly: true}, {MustExist: true}, {ReadOnly: true}} {
		opts.MaxDistance, opts.Analyzer = 2, "stored/1"
		x, err := index.Open(dir, &opts)
		must(t, err)
		if s := x.Stats(); s.Format != store.Format {
			t.Errorf("open %d: %+v", i, s)
		}
		if err := checkStored(x); err != nil {
			t.Errorf("open %d: %v", i, err)
		}
		must(t, x.Close())
		if i > 0 {
			continue
		}
		names, err := os.ReadDir(dir)
		must(t, err)
		for _, name := range names {
			before, err := os.ReadFile(filepath.Join(storedDir, name.Name()))
			after, afterErr := os.ReadFile(filepath.Join(dir, name.Name()))
			if err != nil || afterErr != nil || !bytes.Equal(before, after) {
				t.Errorf("%s changed although the index was open read-only", name.Name())
			}
		}
	}
}

// checkStored compares an index with the documents that it should have.
func checkStored(x *index.Index) error {
	m := indextest.NewModel(indextest.RuleOf(index.Options{}, 2))
	for i, d := range storedDocuments() {
		m.Now = storedTime(uint64(i + 1))
		m.Add(d)
	}
	m.NextID += 3 // of the documents that were deleted
	query := index.Document{Fingerprint: 0x5555555555555556}
	return errors.Join(m.Compare(x), m.Query(x, query, 2, 2), indextest.Problems(x))
}

// TestRefusedFormats tests that Open returns ErrVersion and both format numbers for any other
// format, and ErrCorrupt for a malformed plan or a plan that misses matches. The tests of package
// store cover other damage.
func TestRefusedFormats(t *testing.T) {
	type refused struct {
		key, value string
		want       error
		says       string
	}
	cases := []refused{{"mplan", "k=3 0-63/16 16-", index.ErrCorrupt, ""},
		{"mplan", "k=3 0-63/32", index.ErrCorrupt, ""}}
	for _, format := range []uint32{0, store.Format - 1, store.Format + 1, 1 << 31} {
		value := binary.BigEndian.AppendUint32([]byte("neardup\n"), format)
		cases = append(cases, refused{"mformat", string(value), index.ErrVersion,
			fmt.Sprint(format)})
	}
	for _, c := range cases {
		fsys := vfs.NewMem()
		x, err := index.Open("ix", &index.Options{FS: fsys})
		must(t, err, database(x).Set([]byte(c.key), []byte(c.value), pebble.Sync), x.Close())
		for _, opts := range []index.Options{{MustExist: true}, {ReadOnly: true}, {}} {
			opts.FS = fsys
			_, err := index.Open("ix", &opts)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
				c.says != "" && !strings.Contains(err.Error(), fmt.Sprint(store.Format)) {
				t.Errorf("%s = %q, %+v: %v", c.key, c.value, opts, err)
			}
		}
	}
}
