package index_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/index/verify"
	"github.com/neardup/neardup/internal/testhook"
)

// damaged is an open index whose bytes a test changes. Some of what it writes Open would
// refuse, so the index is open meanwhile.
type damaged struct {
	t  *testing.T
	x  *index.Index
	db *pebble.DB
}

// database returns the database of an open index, where no door leads.
func database(x *index.Index) *pebble.DB {
	store := reflect.ValueOf(x).Elem().FieldByName("store").Elem()
	return *(**pebble.DB)(store.FieldByName("db").Addr().UnsafePointer())
}

// Of the index that most damage is planted in.
const (
	packedDocuments = 300
	liveDocuments   = 12
	firstLive       = packedDocuments + 1
	next            = packedDocuments + liveDocuments + 1 // ID
)

// documents returns those with the IDs from first on. What they have depends on the
// remainder of their ID by 6: with 0 they are bare, with 1 they have a Shingle.
// Fingerprints ascend with the IDs.
func documents(first, n uint64) (docs []index.Document) {
	for id := first; id < first+n; id++ {
		rng := rand.New(rand.NewPCG(id, 1))
		d := index.Document{Fingerprint: fingerprint.Fingerprint(id<<54 | rng.Uint64()>>10)}
		if id%6 != 0 {
			d.Key = fmt.Sprint("key ", id)
		}
		if id%6 == 1 {
			d.Shingle = fingerprint.Fingerprint(rng.Uint64())
		}
		docs = append(docs, d)
	}
	return docs
}

func document(id uint64) index.Document { return documents(id, 1)[0] }

func damagedOptions(t *testing.T, fsys vfs.FS) *index.Options {
	return &index.Options{FS: fsys, MaxDistance: 3, Plan: fourTables(t), CacheBytes: 1 << 20, FilterBytes: 1 << 20}
}

// openDamaged opens an index and adds documents to what is packed there. Nothing is wrong
// with it yet.
func openDamaged(t *testing.T, fsys vfs.FS, live []index.Document) *damaged {
	t.Helper()
	x, err := index.Open("ix", damagedOptions(t, fsys))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	if err := x.Add(context.Background(), live...); err != nil {
		t.Fatal(err)
	}
	d := &damaged{t, x, database(x)}
	d.verify(nil)
	return d
}

// packedIndex returns an index of these documents that was compacted and closed.
func packedIndex(t *testing.T, docs []index.Document) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewCrashableMem()
	x, err := index.Open("ix", damagedOptions(t, fsys))
	if err == nil {
		err = errors.Join(x.Add(context.Background(), docs...), x.Close())
	}
	if err == nil {
		_, err = compaction.Run(context.Background(), "ix", compaction.Options{FS: fsys, FilterBytes: 1 << 20})
	}
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

func fourTables(t *testing.T) *plan.Plan {
	p, err := plan.Parse("k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// verify compares the problems that Verify finds with those that are wanted, each given as
// the beginning of "kind in keyspace: message": every one wanted is there, and what none
// wants is not.
func (d *damaged) verify(wants []string) {
	d.t.Helper()
	missing := slices.Clone(wants)
	told := 0
	for p := range d.x.Verify(context.Background(), verify.Options{}) {
		is := func(want string) bool {
			place, message, _ := strings.Cut(want, ": ")
			return place == fmt.Sprintf("%s in %s", p.Kind, p.Keyspace) && strings.Contains(p.Message, message)
		}
		if !slices.ContainsFunc(wants, is) {
			if told++; told < 10 {
				d.t.Errorf("a problem that is none: %v", p)
			}
		}
		if p.Message == "" || p.Key == "" && p.Keyspace != "meta" && p.Kind != verify.Unchecked {
			d.t.Errorf("%+v says too little", p)
		}
		missing = slices.DeleteFunc(missing, is)
	}
	for _, want := range missing {
		d.t.Errorf("no problem %q", want)
	}
}

func (d *damaged) set(key string, value ...byte) {
	d.t.Helper()
	if err := d.db.Set([]byte(key), value, pebble.Sync); err != nil {
		d.t.Fatal(err)
	}
}

func (d *damaged) delete(keys ...string) {
	d.t.Helper()
	for _, key := range keys {
		if err := d.db.Delete([]byte(key), pebble.Sync); err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *damaged) get(key string) []byte {
	d.t.Helper()
	value, closer, err := d.db.Get([]byte(key))
	if err != nil {
		d.t.Fatalf("%x: %v", key, err)
	}
	value = bytes.Clone(value)
	if err := closer.Close(); err != nil {
		d.t.Fatal(err)
	}
	return value
}

// keys returns all keys with a prefix.
func (d *damaged) keys(prefix string) (keys []string) {
	d.t.Helper()
	it, err := d.db.NewIter(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	for ok := it.SeekGE([]byte(prefix)); ok && bytes.HasPrefix(it.Key(), []byte(prefix)); ok = it.Next() {
		keys = append(keys, string(it.Key()))
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		d.t.Fatal(err)
	}
	return keys
}

// The keys and values of docs/format.md.

func u64(prefix string, n uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(prefix), n))
}

func tableKey(keyspace string, table uint16, fp uint64) string {
	return u64(string(binary.BigEndian.AppendUint16([]byte(keyspace), table)), fp)
}

func chunkKey(keyspace string, table uint16, chunk uint32) string {
	return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16([]byte(keyspace), table), chunk))
}

func seconds(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (d *damaged) counters(next, documents, bare uint64) []byte {
	return slices.Concat(seconds(next), seconds(documents), seconds(bare))
}

func ids(ids ...uint64) []byte {
	list, previous := []byte{1}, uint64(0)
	for _, id := range ids {
		list = binary.AppendUvarint(list, id-previous)
		previous = id
	}
	return list
}

func record(d index.Document) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{0}, uint64(d.Fingerprint)), d.Key...)
}

// blockOf returns the packed block of a table that holds only these fingerprints, as a
// compaction writes it, and its key.
func blockOf(t *testing.T, table uint16, docs ...index.Document) (key string, block []byte) {
	t.Helper()
	d := openDamaged(t, packedIndex(t, docs), nil)
	keys := d.keys(string(binary.BigEndian.AppendUint16([]byte("u"), table)))
	if len(keys) != 1 {
		t.Fatalf("%d blocks", len(keys))
	}
	return keys[0], d.get(keys[0])
}

// denseBlock returns a block of n fingerprints, 0, 1, 2 and so on, if lows is 0xaa.
func denseBlock(n int, lows byte) []byte {
	zeros := (n - 1) / 2
	block := binary.LittleEndian.AppendUint16([]byte{2, 1}, uint16(n))
	block = append(binary.LittleEndian.AppendUint16(block, uint16(zeros)), make([]byte, 8)...)
	unary := make([]byte, (n+zeros+8)/8)
	for i := range n {
		bit := i + i/2
		unary[bit/8] |= 1 << (bit % 8)
	}
	return slices.Concat(block, unary, bytes.Repeat([]byte{lows}, max((n+7)/8, 7)))
}

// emptyFilter takes all that was added out of a saved filter.
func (d *damaged) emptyFilter(table uint16) {
	filter := d.get(chunkKey("w", table, 0))
	clear(filter[16:])
	d.set(chunkKey("w", table, 0), filter...)
}

// TestPlantedDamage: each thing that Verify looks at is found when it is wrong, and
// nothing else is told.
func TestPlantedDamage(t *testing.T) {
	packed := packedIndex(t, documents(1, packedDocuments))
	far := uint64(time.Now().Unix()) + 1<<20
	for _, c := range []struct {
		what  string
		plant func(d *damaged)
		wants []string
	}{
		// Meta.
		{"a meta entry of another kind", func(d *damaged) { d.set("mother", 1) }, []string{"malformed in meta: no such meta entry"}},
		{"half a format", func(d *damaged) { d.set("mformat", 1, 2) }, []string{"malformed in meta: magic"}},
		{"half the counters", func(d *damaged) { d.set("mcounters", 1, 2) }, []string{"malformed in meta: counters have 2 bytes"}},
		{"half of packed", func(d *damaged) { d.set("mpacked", 1, 2) },
			[]string{"malformed in meta: \"packed\" of 2 bytes", "malformed in meta: generation 0, and the index works with 1", "malformed in unknown: an index with 4 tables"}},
		{"no format", func(d *damaged) { d.delete("mformat") }, []string{`malformed in meta: "format" is missing`}},
		{"no plan", func(d *damaged) { d.delete("mplan") }, []string{`malformed in meta: "plan" is missing`}},
		{"no analyzer", func(d *damaged) { d.delete("manalyzer") }, []string{`malformed in meta: "analyzer" is missing`}},
		{"no counters", func(d *damaged) { d.delete("mcounters") }, []string{`malformed in meta: "counters" is missing`}},
		{"another plan", func(d *damaged) { d.set("mplan", []byte("k=0 0-63/16")...) }, []string{`malformed in meta: and the index works with`}},
		{"other counters", func(d *damaged) { d.set("mcounters", d.counters(next, next-2, next/6)...) }, []string{"miscounted in meta: and the index works with"}},
		{"another generation", func(d *damaged) {
			d.set("mpacked", append(seconds(2), d.get("mpacked")[8:]...)...)
		}, []string{"malformed in meta: generation 2, and the index works with 1"}},
		{"packed in the future", func(d *damaged) {
			packed := d.get("mpacked")
			d.set("mpacked", slices.Concat(packed[:8], seconds(next+1), packed[16:])...)
		}, []string{"miscounted in meta: packed when the next ID was", "false negative in filter: the filter of keys"}},
		{"a packed table that meta does not know", func(d *damaged) {
			packed := d.get("mpacked")
			d.set("mpacked", packed[:len(packed)-24]...)
		}, []string{"malformed in meta: 3 packed tables, and 4 in the plan", "miscounted in meta: packed table 3"}},
		{"a packed table of other size", func(d *damaged) {
			packed := d.get("mpacked")
			packed[len(packed)-1]++
			d.set("mpacked", packed...)
		}, []string{"miscounted in meta: packed table 3"}},

		// Keyspaces and tables that no index has.
		{"a key before all keyspaces", func(d *damaged) { d.set("b") }, []string{"malformed in unknown"}},
		{"a key behind the clock", func(d *damaged) { d.set("cz") }, []string{"malformed in clock"}},
		{"a key between documents and keys", func(d *damaged) { d.set("e") }, []string{"malformed in unknown"}},
		{"a key between keys and meta", func(d *damaged) { d.set("l") }, []string{"malformed in unknown"}},
		{"a key between meta and tables", func(d *damaged) { d.set("n") }, []string{"malformed in unknown"}},
		{"a live table too many", func(d *damaged) { d.set(tableKey("t", 4, 1)) }, []string{"malformed in unknown: no such entry"}},
		{"a packed table too many", func(d *damaged) { d.set(tableKey("u", 4, 1)) }, []string{"malformed in unknown: no such entry"}},
		{"a directory too many", func(d *damaged) { d.set(chunkKey("v", 4, 0)) }, []string{"malformed in unknown: no such entry"}},
		{"a filter too many", func(d *damaged) { d.set(chunkKey("w", 4, 0)) }, []string{"malformed in unknown: no such entry"}},
		{"a key behind all keyspaces", func(d *damaged) { d.set("y") }, []string{"malformed in unknown"}},

		// The clock.
		{"a short clock key", func(d *damaged) { d.set("c\x00\x01") }, []string{"malformed in clock: has 3 bytes"}},
		{"a short clock entry", func(d *damaged) { d.set(u64("c", 3), 1) }, []string{"malformed in clock: has 1 bytes"}},
		{"a second that no clock tells", func(d *damaged) { d.set(u64("c", 3), seconds(1<<63)...) }, []string{"malformed in clock: second 9223372036854775808"}},
		{"a clock entry of no document", func(d *damaged) { d.set(u64("c", 0), seconds(1)...) }, []string{"malformed in clock: an entry for ID 0", "missing in clock"}},
		{"a clock entry of the future", func(d *damaged) { d.set(u64("c", next+1), seconds(far)...) }, []string{"malformed in clock: and the next ID is"}},
		{"no clock", func(d *damaged) { d.delete(d.keys("c")...) }, []string{"missing in clock: document 1 ", "missing in clock: document 6 ", "missing in clock"}},
		{"a clock that begins late", func(d *damaged) {
			d.delete(d.keys("c")...)
			d.set(u64("c", 7), seconds(7)...)
		}, []string{"missing in clock: document 5 ", "missing in clock: document 6 ", "missing in clock"}},

		// Documents.
		{"a short document key", func(d *damaged) { d.set("d\x00\x01") }, []string{"malformed in document: has 3 bytes", "unchecked in key: ", "unchecked in table: postings"}},
		{"half a record", func(d *damaged) { d.set(u64("d", 2), 0, 1) }, []string{"malformed in document: record", "unchecked in key: ", "unchecked in table: postings"}},
		{"a record of document 0", func(d *damaged) { d.set(u64("d", 0), record(document(2))...) }, []string{"malformed in document: or no ID", "unchecked in key: ", "unchecked in table: postings"}},
		{"a record with nothing in it", func(d *damaged) { d.set(u64("d", 6), record(document(6))...) }, []string{"malformed in document: nothing in it", "unchecked in key: ", "unchecked in table: postings"}},
		{"a document of the future", func(d *damaged) {
			d.set(u64("d", next), record(document(2))...)
		}, []string{"unexpected in document: and the next ID is", "missing in key: ", "missing in table: is in no posting"}},
		{"a record that nothing asks for", func(d *damaged) {
			d.set(u64("d", 6), record(index.Document{Fingerprint: document(6).Fingerprint, Key: "another"})...)
		}, []string{"missing in key: ", "miscounted in meta: documents"}},
		{"a missing record", func(d *damaged) { d.delete(u64("d", 2)) }, []string{"unexpected in key: ", "miscounted in meta: documents"}},
		{"a record with another fingerprint", func(d *damaged) {
			d.set(u64("d", 2), record(index.Document{Fingerprint: 77, Key: document(2).Key})...)
		}, []string{"missing in table: has this fingerprint, and is not in its posting", "unexpected in table: whose record has another fingerprint"}},

		// Keys.
		{"a short key of a key", func(d *damaged) { d.set("k\x00\x01") }, []string{"malformed in key: has 3 bytes", "unchecked in key: "}},
		{"half a list of a key", func(d *damaged) { d.set(u64("k", 5), 9) }, []string{"malformed in key: unknown codec", "unchecked in key: "}},
		{"a key of no documents", func(d *damaged) { d.set(u64("k", 5), ids()...) }, []string{"malformed in key: no documents", "unchecked in key: "}},
		{"a missing key", func(d *damaged) { d.delete(u64("k", xxhash.Sum64String("key 2"))) }, []string{"missing in key: document 2 "}},
		{"a key too many", func(d *damaged) { d.set(u64("k", 4711), ids(firstLive)...) }, []string{"unexpected in key: document 301", "false negative in filter: the filter of keys in memory"}},
		{"a key of another document", func(d *damaged) {
			d.set(u64("k", xxhash.Sum64String("key 2")), ids(3)...)
		}, []string{"missing in key: document 2 ", "unexpected in key: document 3"}},
		{"two documents of one key", func(d *damaged) {
			d.set(u64("d", 4), record(index.Document{Fingerprint: document(4).Fingerprint, Key: "key 2"})...)
			d.delete(u64("k", xxhash.Sum64String("key 4")))
			d.set(u64("k", xxhash.Sum64String("key 2")), ids(2, 4)...)
		}, []string{"unexpected in document: document 4 has the key of document 2"}},

		// What is live in the tables.
		{"a short key of a table", func(d *damaged) { d.set("t\x00\x00\x01") }, []string{"malformed in table: has 4 bytes", "unchecked in table: postings", "unchecked in table: entries"}},
		{"an entry with a value", func(d *damaged) {
			d.set(tableKey("t", 1, 5), 1)
		}, []string{"malformed in table: a value of 1 bytes", "unchecked in table: entries"}},
		{"half a posting", func(d *damaged) {
			d.set(tableKey("t", 0, uint64(document(firstLive).Fingerprint)), 3, 9)
		}, []string{"malformed in table: breaks off", "unchecked in table: postings", "unchecked in table: entries"}},
		{"a change of a posting that is none", func(d *damaged) {
			if err := d.db.Merge([]byte(tableKey("t", 0, uint64(document(firstLive).Fingerprint))), []byte{9}, pebble.Sync); err != nil {
				d.t.Fatal(err)
			}
		}, []string{"unreadable in table: unknown codec", "unchecked in table: postings", "unchecked in table: entries"}},
		{"a missing live entry", func(d *damaged) {
			d.delete(d.keys("t\x00\x02")[0])
		}, []string{"missing in table: table 2 has no entry"}},
		{"a live entry too many", func(d *damaged) { d.set(tableKey("t", 3, 12345)) }, []string{"unexpected in table: table 3 has an entry"}},
		{"a document in no posting", func(d *damaged) {
			d.delete(tableKey("t", 0, uint64(document(firstLive).Fingerprint)))
		}, []string{"missing in table: document 301 has a record, and is in no posting", "miscounted in meta: documents",
			"unexpected in table: table 1", "unexpected in table: table 2", "unexpected in table: table 3"}},
		{"a posting that the live filters do not know", func(d *damaged) {
			d.set(tableKey("t", 0, uint64(document(packedDocuments).Fingerprint)), ids(packedDocuments)...)
		}, []string{"false negative in filter: the filters of live entries"}},
		{"a document of the future in a posting", func(d *damaged) {
			d.set(tableKey("t", 0, uint64(document(firstLive).Fingerprint)), ids(firstLive, next)...)
		}, []string{"unexpected in table: and the next ID is", "miscounted in meta: documents"}},
		{"a document in two postings", func(d *damaged) {
			d.set(tableKey("t", 0, uint64(document(firstLive).Fingerprint)), ids(firstLive, firstLive+1)...)
		}, []string{"unexpected in table: which another fingerprint has as well", "unexpected in table: whose record has another fingerprint"}},
		{"a bare document in two postings", func(d *damaged) {
			d.set(tableKey("t", 0, uint64(document(firstLive).Fingerprint)), ids(6, firstLive)...)
		}, []string{"unexpected in table: which another fingerprint has as well", "miscounted in meta: documents"}},

		// Packed blocks.
		{"a short key of a block", func(d *damaged) { d.set("u\x00\x01\x01") },
			[]string{"malformed in packed: has 4 bytes", "unchecked in table: entries"}},
		{"an empty block", func(d *damaged) { d.set(d.keys("u\x00\x01")[0]) },
			[]string{"malformed in packed: empty block", "unchecked in table: entries"}},
		{"a block whose fingerprints do not ascend", func(d *damaged) {
			key := d.keys("u\x00\x01")[0]
			block := d.get(key)
			clear(block[len(block)-60:])
			d.set(key, block...)
		}, []string{"malformed in packed: follows", "unchecked in table: entries"}},
		{"a block with postings in another table", func(d *damaged) {
			d.set(d.keys("u\x00\x01")[0], d.get(d.keys("u\x00\x00")[0])...)
		}, []string{"malformed in packed: postings are for table 0", "unchecked in table: entries"}},
		{"a block without postings in table 0", func(d *damaged) {
			d.set(d.keys("u\x00\x00")[0], d.get(d.keys("u\x00\x01")[0])...)
		}, []string{"malformed in packed: postings are for table 0", "unchecked in table: postings", "unchecked in table: entries"}},
		{"a block under another key", func(d *damaged) {
			keys := d.keys("u\x00\x02")
			d.set(keys[0], d.get(keys[1])...)
		}, []string{"malformed in packed: the block ends with", "unchecked in table: entries"}},
		{"a block that begins before the end of the one before", func(d *damaged) {
			key := d.keys("u\x00\x00")[1]
			last := binary.BigEndian.Uint64([]byte(key)[3:])
			_, block := blockOf(d.t, 0, document(2), index.Document{Fingerprint: fingerprint.Fingerprint(last), Key: "last"})
			d.set(key, block...)
		}, []string{"malformed in packed: and the one before ends with", "unchecked in table: postings", "unchecked in table: entries"}},
		{"a block too few", func(d *damaged) {
			keys := d.keys("u\x00\x01")
			d.delete(keys[len(keys)-1])
		}, []string{"malformed in directory: it lists", "miscounted in meta: packed table 1", "missing in packed: table 1 has no entry"}},

		// The directory.
		{"a short key of the directory", func(d *damaged) { d.set("v\x00\x01\x01") }, []string{"malformed in directory: has 4 bytes"}},
		{"an empty chunk of the directory", func(d *damaged) { d.set(chunkKey("v", 1, 0)) }, []string{"malformed in directory: empty block"}},
		{"a directory that does not ascend", func(d *damaged) {
			d.set(chunkKey("v", 1, 0), denseBlock(3, 0)...)
		}, []string{"malformed in directory: follows"}},
		{"a directory with postings", func(d *damaged) {
			d.set(chunkKey("v", 1, 0), d.get(d.keys("u\x00\x00")[0])...)
		}, []string{"malformed in directory: postings true"}},
		{"a chunk of the directory that is too large", func(d *damaged) {
			d.set(chunkKey("v", 1, 0), denseBlock(4097, 0xaa)...)
		}, []string{"malformed in directory: 4097 blocks"}},
		{"a directory that skips a chunk", func(d *damaged) {
			d.set(chunkKey("v", 1, 0), denseBlock(4096, 0xaa)...)
			d.set(chunkKey("v", 1, 2), denseBlock(1, 0xaa)...)
		}, []string{"malformed in directory: it comes as chunk 1"}},
		{"a chunk of the directory behind one that is not full", func(d *damaged) {
			d.set(chunkKey("v", 1, 1), d.get(chunkKey("v", 1, 0))...)
		}, []string{"malformed in directory: the chunk before it is not full"}},
		{"the directory of another table", func(d *damaged) {
			d.set(chunkKey("v", 1, 0), d.get(chunkKey("v", 2, 0))...)
		}, []string{"malformed in directory: block 0 of table 1 is not in the directory"}},
		{"a directory that ends early", func(d *damaged) {
			d.set(chunkKey("v", 1, 0), denseBlock(1, 0xaa)...)
		}, []string{"malformed in directory: of table 1 is not in the directory"}},
		{"no directory", func(d *damaged) { d.delete(chunkKey("v", 1, 0)) }, []string{"malformed in directory: block 0 of table 1 is not in the directory"}},

		// Filters.
		{"a short key of a filter", func(d *damaged) { d.set("w\x00\x01\x01") }, []string{"malformed in filter: it comes as chunk 1"}},
		{"a filter without its first chunk", func(d *damaged) {
			d.set(chunkKey("w", 1, 1), d.get(chunkKey("w", 1, 0))...)
			d.delete(chunkKey("w", 1, 0))
		}, []string{"malformed in filter: it comes as chunk 0"}},
		{"a filter of another version", func(d *damaged) {
			filter := d.get(chunkKey("w", 1, 0))
			filter[0] = 9
			d.set(chunkKey("w", 1, 0), filter...)
		}, []string{"malformed in filter: the saved filter of table 1 is of no use"}},
		{"a filter with a chunk too many", func(d *damaged) {
			d.set(chunkKey("w", 0xffff, 1), d.get(chunkKey("w", 0xffff, 0))...)
		}, []string{"malformed in filter: the saved filter of table ffff is of no use"}},
		{"a filter of table 0 that says no", func(d *damaged) { d.emptyFilter(0) }, []string{"false negative in filter: the filter of table 0"}},
		{"a filter of another table that says no", func(d *damaged) { d.emptyFilter(3) }, []string{"false negative in filter: the filter of table 3"}},
		{"a filter of keys that says no", func(d *damaged) { d.emptyFilter(0xffff) }, []string{"false negative in filter: the filter of keys"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := openDamaged(t, packed.CrashClone(vfs.CrashCloneCfg{}), documents(firstLive, liveDocuments))
			c.plant(d)
			d.verify(c.wants)
		})
	}
}

// TestPlantedPackedEntries: an entry that a packed table has and table 0 has not, or the
// other way round, is found by comparing them, and by the filters.
func TestPlantedPackedEntries(t *testing.T) {
	fsys := packedIndex(t, documents(1, 6))
	for _, c := range []struct {
		what  string
		table uint16
		docs  func(n uint64) []index.Document // some n gives a block with the same last entry
		wants []string
	}{
		{"one too few", 1, func(n uint64) []index.Document {
			return slices.Delete(documents(1, 6), int(n), int(n+1))
		}, []string{"missing in packed: table 1 has no entry of fingerprint", "miscounted in meta: packed table 1"}},
		{"one too many", 2, func(n uint64) []index.Document {
			return append(documents(1, 6), document(7+n))
		}, []string{"unexpected in packed: table 2 has an entry of fingerprint", "miscounted in meta: packed table 2",
			"false negative in filter: the filter of table 2"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := openDamaged(t, fsys.CrashClone(vfs.CrashCloneCfg{}), nil)
			d.loadFilters()
			d.delete(chunkKey("w", c.table, 0)) // the filter in memory has to tell
			last := d.keys(string(binary.BigEndian.AppendUint16([]byte("u"), c.table)))[0]
			for n := uint64(0); ; n++ {
				if key, block := blockOf(t, c.table, c.docs(n)...); key == last {
					d.set(key, block...)
					break
				}
			}
			d.verify(c.wants)
		})
	}
}

// loadFilters waits until the filters of the packed tables are in memory.
func (d *damaged) loadFilters() {
	d.t.Helper()
	for _, err := range d.x.QueryBatch(testhook.WithSortedBatches(context.Background(), true), make([]index.Query, 1)) {
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// TestDamagedBlocksOfFiles: a flipped byte in any kind of block of Pebble's files is
// found, also where nothing but its checksum tells.
func TestDamagedBlocksOfFiles(t *testing.T) {
	fsys := packedIndex(t, documents(1, packedDocuments))
	x, err := index.Open("ix", damagedOptions(t, fsys))
	if err == nil { // goes to a file of an upper level, which has Bloom filters
		err = errors.Join(x.Add(context.Background(), documents(firstLive, liveDocuments)...), x.Close())
	}
	if err == nil {
		x, err = index.Open("ix", damagedOptions(t, fsys))
	}
	if err == nil {
		err = x.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	seen, unread := map[string]bool{}, 0
	for _, b := range fileBlocks(t, fsys) {
		seen[b.kind] = true
		clone := fsys.CrashClone(vfs.CrashCloneCfg{})
		d := openDamaged(t, clone, nil)
		flipByte(t, clone, b.file, b.offset+b.length/2)
		found := false
		for p := range d.x.Verify(context.Background(), verify.Options{}) {
			if p.Kind == verify.Unreadable && p.Keyspace == "file" && strings.HasSuffix(b.file, p.Key) {
				found = true
			} else if b.kind != "data" && b.kind != "index" { // who reads entries does not read this
				t.Errorf("%+v: %v", b, p)
			}
		}
		if !found {
			t.Errorf("%+v: not found", b)
		}
		if b.kind == "data" {
			unread += unreadRanges(t, clone)
		}
	}
	if unread == 0 {
		t.Error("no iterator met a damaged block")
	}
	for _, kind := range []string{"data", "index", "filter", "properties", "metaindex"} {
		if !seen[kind] {
			t.Errorf("no file has a block of kind %s", kind)
		}
	}
}

// unreadRanges returns how many ranges of keys Verify tells of that cannot be read, in an
// index that was not in memory. Open may refuse it.
func unreadRanges(t *testing.T, fsys *vfs.MemFS) (n int) {
	t.Helper()
	x, err := index.Open("ix", damagedOptions(t, fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})))
	if err != nil {
		if !errors.Is(err, index.ErrCorrupt) {
			t.Error(err)
		}
		return 0
	}
	for p := range x.Verify(context.Background(), verify.Options{}) {
		if p.Kind == verify.Unreadable && p.Keyspace != "file" {
			n++
			if !strings.Contains(p.Message, "nothing from key") || !errors.Is(p.Err, index.ErrCorrupt) || p.Keyspace == "" {
				t.Error(p)
			}
		}
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	return n
}

type fileBlock struct {
	file, kind     string
	offset, length uint64
}

// fileBlocks returns one block of each kind that each of Pebble's files has.
func fileBlocks(t *testing.T, fsys vfs.FS) (blocks []fileBlock) {
	t.Helper()
	merger := *pebble.DefaultMerger
	merger.Name = "neardup.posting.1" // nothing is merged
	opts := &pebble.Options{Merger: &merger}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	opts.EnsureDefaults()
	files, err := fsys.List("ix")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		name = fsys.PathJoin("ix", name)
		f, err := fsys.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		readable, err := sstable.NewSimpleReadable(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sstable.NewReader(context.Background(), readable, opts.MakeReaderOptions())
		if err != nil {
			t.Fatal(err)
		}
		layout, err := r.Layout()
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		add := func(kind string, h block.Handle) { blocks = append(blocks, fileBlock{name, kind, h.Offset, h.Length}) }
		add("data", layout.Data[0].Handle)
		add("index", layout.Index[0])
		add("properties", layout.Properties)
		add("metaindex", layout.MetaIndex)
		for _, filter := range layout.Filter {
			add("filter", filter.Handle)
		}
	}
	return blocks
}

func flipByte(t *testing.T, fsys vfs.FS, name string, offset uint64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], int64(offset)); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], int64(offset)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
