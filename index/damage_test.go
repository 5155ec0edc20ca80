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

// damaged is an open index whose database a test changes. The index is open during the change,
// since Open would refuse some of the damage.
type damaged struct {
	t  *testing.T
	x  *index.Index
	db *pebble.DB
}

// database returns the database of an open index.
func database(x *index.Index) *pebble.DB {
	store := reflect.ValueOf(x).Elem().FieldByName("store").Elem()
	return *(**pebble.DB)(store.FieldByName("db").Addr().UnsafePointer())
}

// The index that most damage is planted in: packed documents, live ones, and some of both that were
// removed.
const (
	packedDocuments = 300
	liveDocuments   = 12
	firstLive       = packedDocuments + 1
)

// a bare one, a packed one with a record, and a live one
var removedDocuments = []uint64{288, 299, 311}

// documents returns n documents with the IDs from first on. The remainder of the ID by 6 decides
// what a document has: with 0 nothing but a fingerprint, else a key, and with 1 Shingles as well.
// Fingerprints ascend with the IDs.
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

func document(id uint64) index.Document { return documents(id, 1)[0] }

func damagedOptions(t *testing.T, fsys vfs.FS) *index.Options {
	return &index.Options{FS: fsys, Now: func() time.Time { return time.Unix(1000, 0) },
		MaxDistance: 3, Plan: fourTables(t), CacheBytes: 1 << 20, FilterBytes: 1 << 20}
}

// openDamaged opens a packed index, adds documents and removes some. Verify finds no problem yet.
func openDamaged(t *testing.T, fsys vfs.FS, live []index.Document, removed ...uint64) *damaged {
	t.Helper()
	x, err := index.Open("ix", damagedOptions(t, fsys))
	must(t, err)
	t.Cleanup(func() { x.Close() })
	must(t, x.Add(context.Background(), live...))
	if n, err := x.DeleteIDs(context.Background(), removed...); err != nil || n != len(removed) {
		t.Fatal(n, err)
	}
	d := &damaged{t, x, database(x)}
	if problems := d.problems(); problems != "" {
		t.Fatal(problems)
	}
	return d
}

// packedIndex returns an index of these documents that was compacted, with so much memory for
// filters, and closed.
func packedIndex(t *testing.T, filterBytes int64, docs []index.Document) *crashfs.FS {
	t.Helper()
	fsys := crashfs.New()
	opts := *damagedOptions(t, fsys)
	opts.FilterBytes = filterBytes
	_, err := compaction.Load(context.Background(), "ix", testgen.Sequence(docs),
		compaction.LoadOptions{Index: opts})
	must(t, err)
	return fsys
}

func fourTables(t *testing.T) *plan.Plan {
	p, err := plan.Parse("k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16")
	must(t, err)
	return p
}

func (d *damaged) set(key string, value ...byte) {
	d.t.Helper()
	must(d.t, d.db.Set([]byte(key), value, pebble.Sync))
}

func (d *damaged) delete(keys ...string) {
	d.t.Helper()
	for _, key := range keys {
		must(d.t, d.db.Delete([]byte(key), pebble.Sync))
	}
}

func (d *damaged) get(key string) []byte {
	d.t.Helper()
	value, closer, err := d.db.Get([]byte(key))
	if err != nil {
		d.t.Fatalf("%x: %v", key, err)
	}
	value = bytes.Clone(value)
	must(d.t, closer.Close())
	return value
}

// keys returns all keys with a prefix.
func (d *damaged) keys(prefix string) (keys []string) {
	d.t.Helper()
	it, err := d.db.NewIter(nil)
	must(d.t, err)
	for ok := it.SeekGE([]byte(prefix)); ok &&
		bytes.HasPrefix(it.Key(), []byte(prefix)); ok = it.Next() {
		keys = append(keys, string(it.Key()))
	}
	must(d.t, it.Error(), it.Close())
	return keys
}

// The keys and values of docs/format.md.

func u64(prefix string, n uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(prefix), n))
}

// blockOf returns the packed block of a table that holds only these fingerprints, as a
// compaction writes it, and its key.
func blockOf(t *testing.T, table uint16, docs ...index.Document) (key string, block []byte) {
	t.Helper()
	d := openDamaged(t, packedIndex(t, 1<<20, docs), nil)
	keys := d.keys(string(binary.BigEndian.AppendUint16([]byte("u"), table)))
	if len(keys) != 1 {
		t.Fatalf("%d blocks", len(keys))
	}
	return keys[0], d.get(keys[0])
}

// TestPlantedDamage: Verify reports each kind of damage, and nothing else. testdata/damage lists
// the damage and the problems.
func TestPlantedDamage(t *testing.T) {
	if testenv.Race {
		t.Skip("it is one goroutine, and takes long")
	}
	packed := packedIndex(t, 1<<20, documents(1, packedDocuments))
	datadriven.RunTest(t, "testdata/damage", func(t *testing.T, c *datadriven.TestData) string {
		d := openDamaged(t, packed.CrashClone(vfs.CrashCloneCfg{}),
			documents(firstLive, liveDocuments), removedDocuments...)
		for line := range strings.Lines(c.Input) {
			d.plant(strings.Fields(line))
		}
		return d.problems()
	})
}

// problems counts the problems that Verify finds of each kind, with the first three.
func (d *damaged) problems() string {
	messages := map[string][]string{}
	for p := range d.x.Verify(context.Background(), verify.Options{}) {
		if p.Message == "" {
			d.t.Errorf("%+v says too little", p)
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
	d.t.Helper()
	switch ctx := context.Background(); words[0] {
	case "freeze": // begin a compaction, which fails
		failed := errors.New("no packing")
		if err := rewrite.Repack(ctx, d.x, func(context.Context,
			rewrite.Frozen) (rewrite.Packed, error) {
			return rewrite.Packed{}, failed
		}); !errors.Is(err, failed) {
			d.t.Fatal(err)
		}
		return
	case "add":
		doc := document(uint64(d.number(words[1])))
		must(d.t, d.x.Add(ctx, doc))
		return
	case "remove":
		if n, err := d.x.DeleteIDs(ctx, uint64(d.number(words[1]))); n != 1 || err != nil {
			d.t.Fatal(n, err)
		}
		return
	}
	key := d.key(words[1])
	var value []byte
	if at := slices.Index(words, "="); at > 0 {
		for _, word := range words[at+1:] {
			value = append(value, d.value(word)...)
		}
	}
	var err error
	switch words[0] {
	case "set":
		err = d.db.Set([]byte(key), value, pebble.Sync)
	case "delete":
		d.delete(key)
	case "delete-all":
		d.delete(d.keys(key)...)
	case "clear": // from a byte on
		value = d.get(key)
		from := d.number(words[2])
		clear(value[(from+len(value))%len(value):])
		d.set(key, value...)
	default:
		d.t.Fatalf("no such damage: %v", words)
	}
	must(d.t, err)
}

func (d *damaged) number(text string) int {
	d.t.Helper()
	n, err := strconv.Atoi(text)
	must(d.t, err)
	return n
}

func (d *damaged) hex(text string) []byte {
	d.t.Helper()
	b, err := hex.DecodeString(text)
	must(d.t, err)
	return b
}

// key makes a key of its parts, see testdata/damage.
func (d *damaged) key(text string) string {
	d.t.Helper()
	keyspace, rest, more := strings.Cut(text, "/")
	if !more || keyspace == "m" {
		return keyspace + rest
	}
	widths := map[string][]int{"k": {8, 8}, "t": {2, 8, 8}, "x": {2, 8, 8}, "u": {2, 8}}[keyspace]
	if widths == nil {
		widths = []int{8}
	}
	key := keyspace
	for i, part := range strings.Split(rest, "/") {
		switch kind, rest := part[0], part[1:]; kind {
		case 'x':
			key += string(d.hex(rest))
		case 'n': // the n-th stored key, from the end if n is negative
			keys := d.keys(key)
			n := d.number(rest)
			key = keys[(n+len(keys))%len(keys)]
		case '#':
			doc := document(uint64(d.number(rest)))
			n := uint64(doc.Fingerprint)
			if keyspace == "k" {
				n = xxhash.Sum64String(doc.Key)
			}
			key = u64(key, n)
		default:
			n := u64("", uint64(d.number(part)))
			key += n[8-widths[i]:]
		}
	}
	return key
}

// value makes a part of a value.
func (d *damaged) value(text string) []byte {
	d.t.Helper()
	kind, rest, _ := strings.Cut(text, ":")
	parts := strings.Split(rest, ",")
	switch kind {
	case "x":
		return d.hex(rest)
	case "text":
		return []byte(strings.ReplaceAll(rest, "_", " "))
	case "n":
		return []byte(u64("", uint64(d.number(rest))))
	case "fingerprint":
		return []byte(u64("", uint64(document(uint64(d.number(rest))).Fingerprint)))
	case "of": // another key, and a range of its value
		value := d.get(d.key(parts[0]))
		if len(parts) == 1 {
			return value
		}
		from, end := d.number(parts[1]), d.number(parts[2])
		if end <= 0 {
			end += len(value)
		}
		return value[from:end]
	// the first block of table 0 of an index of some documents, which get the IDs 1, 2, ...
	case "load":
		other := openDamaged(d.t, packedIndex(d.t, 1<<20,
			documents(uint64(d.number(parts[0])), uint64(d.number(parts[1])))), nil)
		return other.get(other.keys("u\x00\x00")[0])
	case "block": // of a document, and one with the fingerprint of a packed block
		last := binary.BigEndian.Uint64([]byte(d.key(parts[1]))[3:])
		_, block := blockOf(d.t, 0, document(uint64(d.number(parts[0]))),
			index.Document{Fingerprint: fingerprint.Fingerprint(last), Key: "last"})
		return block
	}
	d.t.Fatalf("no such value: %q", text)
	return nil
}

// TestPlantedPackedEntries tests that Verify finds a packed entry that table 0 lacks, and an
// entry of table 0 that another packed table lacks.
func TestPlantedPackedEntries(t *testing.T) {
	fsys := packedIndex(t, 1<<20, documents(1, 6))
	for _, c := range []struct {
		what  string
		table uint16
		docs  func(n uint64) []index.Document // some n gives a block with the same last entry
		wants string
	}{
		{"one too few", 1, func(n uint64) []index.Document {
			return slices.Delete(documents(1, 6), int(n), int(n+1))
		}, `1 unreadable in tables
  corrupt index: the packed blocks of table 1 hold 5 fingerprints, not 6
`},
		{"one too many", 2, func(n uint64) []index.Document {
			return append(documents(1, 6), document(7+n))
		}, `1 unreadable in tables
  corrupt index: the packed blocks of table 2 hold 7 fingerprints, not 6
`},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := openDamaged(t, fsys.CrashClone(vfs.CrashCloneCfg{}), nil)
			last := d.keys(string(binary.BigEndian.AppendUint16([]byte("u"), c.table)))[0]
			for n := uint64(0); ; n++ {
				if key, block := blockOf(t, c.table, c.docs(n)...); key == last {
					d.set(key, block...)
					break
				}
			}
			if got := d.problems(); got != c.wants {
				t.Error(got)
			}
		})
	}
}

// TestVerifyWithoutFiles: if the process cannot open more files, Verify reports that it could not
// go on, and no damage.
func TestVerifyWithoutFiles(t *testing.T) {
	fsys := packedIndex(t, 1<<10, documents(1, 60))
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
