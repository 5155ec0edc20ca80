package index_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/rewrite"
	"github.com/neardup/neardup/internal/testing/crashfs"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
	"github.com/neardup/neardup/internal/verify"
)

// damaged is an open index whose database a test changes. The index stays open, since Open would
// refuse some of the damage.
type damaged struct {
	*testing.T
	x  *index.Index
	db *pebble.DB
}

// database returns the database of an open index.
func database(x *index.Index) *pebble.DB {
	store := reflect.ValueOf(x).Elem().FieldByName("store").Elem()
	return *(**pebble.DB)(store.FieldByName("db").Addr().UnsafePointer())
}

// Most damage is planted in an index with these numbers of packed and live documents.
const (
	packedDocuments = 300
	liveDocuments   = 12
	firstLive       = packedDocuments + 1
)

// IDs of removed documents: packed and bare, packed with a record, and live
var removedDocuments = []uint64{288, 299, 311}

// documents returns n documents with the IDs from first on. If ID%6 is 0, a document has only a
// fingerprint. Other documents have a key and, if ID%6 is 1, Shingles. Fingerprints ascend with the
// IDs.
func documents(first, n uint64) (docs []index.Document) {
	for id := first; id < first+n; id++ {
		rng := rand.New(rand.NewPCG(id, 1))
		d := index.Document{Fingerprint: fingerprint.Fingerprint(id<<54 | rng.Uint64()>>10)}
		if id%6 != 0 {
			d.Key = fmt.Sprint("key", id)
		}
		if id%6 == 1 {
			d.Shingles = fingerprint.ShingleSignature{rng.Uint64(), rng.Uint64(),
				rng.Uint64(), rng.Uint64()}
		}
		docs = append(docs, d)
	}
	return docs
}

func damagedOptions(t *testing.T, fsys vfs.FS) *index.Options {
	p, err := plan.Parse("k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16")
	must(t, err)
	return &index.Options{FS: fsys, Now: func() time.Time { return time.Unix(1000, 0) },
		MaxDistance: 3, Plan: p, CacheBytes: 1 << 20, FilterBytes: 1 << 20}
}

// packedIndex returns the files of a closed index into which docs were loaded.
func packedIndex(t *testing.T, docs []index.Document) *crashfs.FS {
	t.Helper()
	fsys := crashfs.New()
	_, err := compaction.Load(t.Context(), "ix", testgen.Sequence(docs),
		compaction.LoadOptions{Index: *damagedOptions(t, fsys)})
	must(t, err)
	return fsys
}

// openDamaged opens a packed index, adds documents and removes some. Verify finds no problem yet.
func openDamaged(t *testing.T, fsys vfs.FS, live []index.Document, removed ...uint64) *damaged {
	t.Helper()
	x, err := index.Open("ix", damagedOptions(t, fsys))
	must(t, err)
	t.Cleanup(func() { x.Close() })
	must(t, x.Add(t.Context(), live...))
	if n, err := x.DeleteIDs(t.Context(), removed...); err != nil || n != len(removed) {
		t.Fatal(n, err)
	}
	d := &damaged{t, x, database(x)}
	if problems := d.problems(); problems != "" {
		t.Fatal(problems)
	}
	return d
}

func (d *damaged) set(key, value []byte) {
	d.Helper()
	must(d, d.db.Set(key, value, pebble.Sync))
}

func (d *damaged) get(key []byte) []byte {
	d.Helper()
	value, closer, err := d.db.Get(key)
	if err != nil {
		d.Fatalf("%x: %v", key, err)
	}
	value = bytes.Clone(value)
	must(d, closer.Close())
	return value
}

// keys returns all keys with a prefix.
func (d *damaged) keys(prefix []byte) (keys [][]byte) {
	d.Helper()
	it, err := d.db.NewIter(nil)
	must(d, err)
	for ok := it.SeekGE(prefix); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
		keys = append(keys, bytes.Clone(it.Key()))
	}
	must(d, it.Error(), it.Close())
	return keys
}

// firstBlock returns the first packed block of a table of an index of docs, and the block's key.
func firstBlock(t *testing.T, table byte, docs []index.Document) (key, block []byte) {
	t.Helper()
	d := openDamaged(t, packedIndex(t, docs), nil)
	key = d.keys([]byte{'u', 0, table})[0]
	return key, d.get(key)
}

// TestPlantedDamage tests that Verify reports each kind of damage, and nothing else.
// testdata/damage lists the damage and the problems.
func TestPlantedDamage(t *testing.T) {
	if testenv.Race {
		t.Skip("the test has one goroutine, and takes long")
	}
	packed := packedIndex(t, documents(1, packedDocuments))
	datadriven.RunTest(t, "testdata/damage", func(t *testing.T, c *datadriven.TestData) string {
		d := openDamaged(t, packed.CrashClone(vfs.CrashCloneCfg{}),
			documents(firstLive, liveDocuments), removedDocuments...)
		for line := range strings.Lines(c.Input) {
			d.plant(strings.Fields(line))
		}
		for range d.x.Verify(t.Context(), verify.Options{}) {
			break // Verify must not yield after the loop has ended
		}
		return d.problems()
	})
}

// problems returns the number of problems of each kind that Verify finds, and the first three.
func (d *damaged) problems() string {
	messages := map[string][]string{}
	for p := range d.x.Verify(d.Context(), verify.Options{}) {
		if p.Message == "" {
			d.Errorf("%+v has no message", p)
		}
		kind := fmt.Sprintf("%s in %s", p.Kind, p.Keyspace)
		messages[kind] = append(messages[kind], p.Message)
	}
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(messages)) {
		some := messages[kind]
		fmt.Fprintf(&b, "%d %s\n", len(some), kind)
		slices.Sort(some)
		for _, message := range some[:min(3, len(some))] {
			fmt.Fprintf(&b, "  %s\n", message)
		}
	}
	return b.String()
}

// plant changes the index as a line of testdata/damage says.
func (d *damaged) plant(words []string) {
	d.Helper()
	switch words[0] {
	case "freeze": // begin a compaction, which fails
		failed := errors.New("no packing")
		err := rewrite.Repack(d.Context(), d.x, func(context.Context,
			rewrite.Frozen) (rewrite.Packed, error) {
			return rewrite.Packed{}, failed
		})
		if !errors.Is(err, failed) {
			d.Fatal(err)
		}
	case "add":
		must(d, d.x.Add(d.Context(), documents(d.number(words[1]), 1)...))
	case "remove":
		if n, err := d.x.DeleteIDs(d.Context(), d.number(words[1])); n != 1 || err != nil {
			d.Fatal(n, err)
		}
	case "set":
		var value []byte
		for _, word := range words[3:] {
			value = append(value, d.value(word)...)
		}
		d.set(d.key(words[1]), value)
	case "delete":
		must(d, d.db.Delete(d.key(words[1]), pebble.Sync))
	case "clear": // the last bytes
		key := d.key(words[1])
		value := d.get(key)
		clear(value[len(value)-int(d.number(words[2])):])
		d.set(key, value)
	default:
		d.Fatalf("no such damage: %v", words)
	}
}

func (d *damaged) number(text string) uint64 {
	d.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	must(d, err)
	return n
}

func (d *damaged) hex(text string) []byte {
	d.Helper()
	b, err := hex.DecodeString(text)
	must(d, err)
	return b
}

// key returns the key that text describes: see testdata/damage.
func (d *damaged) key(text string) []byte {
	d.Helper()
	keyspace, rest, _ := strings.Cut(text, "/")
	key := []byte(keyspace)
	if keyspace == "m" {
		return append(key, rest...)
	}
	widths := map[string][]int{"d": {8}, "k": {8, 8}, "t": {2, 8, 8}, "x": {2, 8, 8},
		"u": {2, 8}}[keyspace]
	for i, part := range strings.Split(rest, "/") {
		switch part[0] {
		case 'x':
			key = append(key, d.hex(part[1:])...)
		case 'n': // key number n, or the last one
			keys := d.keys(key)
			if key = keys[len(keys)-1]; part != "n-1" {
				key = keys[d.number(part[1:])]
			}
		case '#':
			doc := documents(d.number(part[1:]), 1)[0]
			n := uint64(doc.Fingerprint)
			if keyspace == "k" {
				n = xxhash.Sum64String(doc.Key)
			}
			key = binary.BigEndian.AppendUint64(key, n)
		default:
			n := binary.BigEndian.AppendUint64(nil, d.number(part))
			key = append(key, n[8-widths[i]:]...)
		}
	}
	return key
}

// value returns the part of a value that text describes.
func (d *damaged) value(text string) []byte {
	d.Helper()
	switch kind, rest, _ := strings.Cut(text, ":"); kind {
	case "x":
		return d.hex(rest)
	case "text":
		return []byte(rest)
	case "fingerprint":
		fp := documents(d.number(rest), 1)[0].Fingerprint
		return binary.BigEndian.AppendUint64(nil, uint64(fp))
	case "of":
		return d.get(d.key(rest))
	case "block": // of documents, by IDs and ranges of IDs
		var docs []index.Document
		for part := range strings.SplitSeq(rest, ",") {
			first, last, several := strings.Cut(part, "-")
			if !several {
				last = first
			}
			docs = append(docs, documents(d.number(first), d.number(last)-d.number(first)+1)...)
		}
		_, block := firstBlock(d.T, 0, docs)
		return block
	}
	d.Fatalf("no such value: %q", text)
	return nil
}

// TestPlantedPackedEntries tests that Verify finds an entry of table 0 that is missing in another
// packed table, and an entry of another packed table that is missing in table 0.
func TestPlantedPackedEntries(t *testing.T) {
	fsys := packedIndex(t, documents(1, 6))
	for _, c := range []struct {
		table byte
		docs  []index.Document // with the same last entry
		wants string
	}{
		{1, append(documents(1, 1), documents(3, 4)...), `1 unreadable in tables
  corrupt index: the packed blocks of table 1 hold 5 fingerprints, not 6
`},
		{2, documents(1, 7), `1 unreadable in tables
  corrupt index: the packed blocks of table 2 hold 7 fingerprints, not 6
`},
	} {
		d := openDamaged(t, fsys.CrashClone(vfs.CrashCloneCfg{}), nil)
		key, block := firstBlock(t, c.table, c.docs)
		d.set(key, block)
		if got := d.problems(); got != c.wants {
			t.Error(got)
		}
	}
}

// TestVerifyTooManyOpenFiles tests that Verify reports that it could not continue, and no damage,
// if the process cannot open more files.
func TestVerifyTooManyOpenFiles(t *testing.T) {
	fsys := packedIndex(t, documents(1, 60))
	unchecked, ended := 0, false
	for n := int64(1); !ended; n++ {
		var denied atomic.Bool
		var opened atomic.Int64
		x, err := index.Open("ix", damagedOptions(t,
			errorfs.Wrap(fsys.CrashClone(vfs.CrashCloneCfg{}),
				errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind == errorfs.OpOpen && denied.Load() && opened.Add(1) >= n {
						return &fs.PathError{Op: "open", Path: op.Path, Err: syscall.EMFILE}
					}
					return nil
				}))))
		must(t, err)
		denied.Store(true)
		for p := range x.Verify(t.Context(), verify.Options{}) {
			if p.Kind != verify.Unchecked || !errors.Is(p.Err, syscall.EMFILE) ||
				errors.Is(p.Err, index.ErrCorrupt) {
				t.Errorf("open %d: %v", n, p)
			}
			unchecked++
		}
		ended = opened.Load() < n
		must(t, x.Close())
	}
	if unchecked == 0 {
		t.Error("no file was opened")
	}
}
