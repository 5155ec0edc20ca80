package store

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// model is the expected content of a store, which has two tables.
type model struct {
	counters Counters
	records  map[uint64]Record // of the documents that have not been removed
	counts   map[uint64]duplicates.Count
	crowded  []uint64
	entries  []modelEntry   // by ID, including removed documents
	removed  map[uint64]int // the epoch in which an ID was removed
	epochs   int            // commits write to the last one
	nextID   uint64         // the next ID at the last freeze
}

// modelEntry is the entry of a document in table 0.
type modelEntry struct {
	stored, id uint64
	epoch      int // packed, or the number of an epoch
}

const packed = -1

func newModel() *model {
	return &model{counters: Counters{NextID: 1}, records: map[uint64]Record{},
		counts: map[uint64]duplicates.Count{}, removed: map[uint64]int{}, epochs: 1}
}

func (m *model) clone() *model {
	c := *m
	c.records, c.counts = maps.Clone(m.records), maps.Clone(m.counts)
	c.entries, c.removed = slices.Clone(m.entries), maps.Clone(m.removed)
	return &c
}

func permutedOf(stored uint64) uint64 { return bits.RotateLeft64(stored, 32) }

func keyOf(id uint64) string { return fmt.Sprint("key ", id) }

// hashOf returns one of 7 hashes, so that keys collide.
func hashOf(key string) uint64 { return KeyHash(key) % 7 }

// modelFingerprints are the stored fingerprints of model documents, some of them adjacent.
var modelFingerprints = []uint64{0, 1, 2, 0xff, 0x100, 1 << 32, 1<<32 + 1, 7 << 61,
	math.MaxUint64 - 1, math.MaxUint64}

// change makes random changes to a model, and puts them into a batch.
func (m *model) change(rng *rand.Rand, b *Batch) {
	for range 1 + rng.IntN(6) {
		n, ids := rng.IntN(10), slices.Sorted(maps.Keys(m.records))
		if n < 6 || len(ids) == 0 {
			m.add(rng, b)
			continue
		}
		id := ids[rng.IntN(len(ids))]
		switch r := m.records[id]; n {
		case 6, 7: // remove it
			b.Remove(id)
			b.DeleteRecord(id)
			b.DeleteKey(hashOf(r.Key), id)
			b.DeleteDuplicates(id)
			delete(m.records, id)
			delete(m.counts, id)
			m.removed[id] = m.epochs - 1
			m.counters.Documents--
		case 8: // see it again
			r.Time++
			b.SetRecord(r)
			m.records[id] = r
		default: // count duplicates
			more, c := duplicates.Count{Checks: 1 + rng.Uint64N(300),
				Texts: duplicates.TextOf(rng.Uint64N(64))}, m.counts[id]
			b.AddDuplicates(id, more)
			m.counts[id] = duplicates.Count{Checks: c.Checks + more.Checks,
				Texts: c.Texts | more.Texts}
			m.crowded = []uint64{id, id + 1}
			b.SetCrowded(m.crowded)
		}
	}
	b.SetCounters(m.counters)
}

// add adds a document, or sometimes more than manyCopies documents with the same fingerprint.
func (m *model) add(rng *rand.Rand, b *Batch) {
	n, stored := 1, modelFingerprints[rng.IntN(len(modelFingerprints))]
	if rng.IntN(40) == 0 {
		n += rng.IntN(3 * manyCopies)
	}
	for range n {
		id := m.counters.NextID
		r := Record{ID: id, Fingerprint: stored, Time: 1000 + id, Digest: id % 2, Key: keyOf(id)}
		b.SetRecord(r)
		b.SetKey(hashOf(r.Key), id)
		b.SetLive(stored, id)
		b.SetEntry(1, permutedOf(stored))
		m.records[id] = r
		m.entries = append(m.entries, modelEntry{stored, id, m.epochs - 1})
		m.counters.NextID++
		m.counters.Documents++
	}
}

// freeze freezes the epoch of a store and of its model.
func (m *model) freeze(t testing.TB, s *Store) {
	t.Helper()
	must(t, s.Freeze())
	m.epochs++
	m.nextID = m.counters.NextID
}

// take packs the frozen epoch of a store and of its model.
func (m *model) take(t testing.TB, s *Store) {
	t.Helper()
	r := m.packFrozen(t, s)
	must(t, s.Take(t.Context(), r), r.Close())
	m.pack()
}

// packFrozen prepares the replacement of the packed tables and the frozen epoch.
func (m *model) packFrozen(t testing.TB, s *Store) *Rewrite {
	t.Helper()
	r, err := s.NewRewrite(2)
	must(t, err)
	expired := roaring64.New()
	for _, hash := range []uint64{0, 1, 2, 3, 4, 5, 6} { // the order of DeleteKey
		for _, e := range m.entries {
			if m.expires(e) && hashOf(keyOf(e.id)) == hash {
				expired.Add(e.id)
				must(t, r.DeleteKey(hash, e.id))
			}
		}
	}
	for it := expired.Iterator(); it.HasNext(); {
		must(t, r.DeleteRecord(it.Next()))
	}
	var permuted []uint64
	w := r.Table(0)
	inView(t, s, func(v *View) {
		for p, err := range v.Frozen().Postings(0) {
			must(t, err)
			if ids := p.IDs.WithoutAll(expired); !ids.Empty() {
				must(t, w.AddPosting(p.Stored, ids))
				permuted = append(permuted, permutedOf(p.Stored))
			}
		}
	})
	must(t, w.Close())
	slices.Sort(permuted)
	w = r.Table(1)
	for _, p := range permuted {
		must(t, w.Add(p))
	}
	must(t, w.Close(), r.Prepare("plan", m.nextID, nil))
	return r
}

// expires reports whether the next compaction deletes the document of an entry.
func (m *model) expires(e modelEntry) bool { return e.epoch < 1 && e.id%5 == 0 }

// pack packs the frozen epoch of the model, without the IDs that were removed in that epoch, and
// without expired documents.
func (m *model) pack() {
	m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool {
		if m.expires(e) {
			delete(m.records, e.id)
			delete(m.counts, e.id)
			return true
		}
		return m.isRemoved(e.id, 1)
	})
	for i := range m.entries {
		m.entries[i].epoch = max(m.entries[i].epoch-1, packed)
	}
	for id, epoch := range m.removed {
		if m.removed[id] = epoch - 1; epoch == 0 {
			delete(m.removed, id)
		}
	}
	m.epochs--
}

// isRemoved reports whether an ID was removed in one of the first epochs.
func (m *model) isRemoved(id uint64, epochs int) bool {
	epoch, removed := m.removed[id]
	return removed && epoch < epochs
}

// ids returns the IDs of the chosen entries of a stored fingerprint.
func (m *model) ids(stored uint64, choose func(modelEntry) bool) (ids []uint64) {
	for _, e := range m.entries {
		if e.stored == stored && choose(e) {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// postings writes the chosen entries from a stored fingerprint on, as postingsOf does.
func (m *model) postings(first uint64, choose func(modelEntry) bool) (all []string) {
	for _, stored := range modelFingerprints {
		if ids := m.ids(stored, choose); stored >= first && len(ids) > 0 {
			all = append(all, fmt.Sprintf("%x:%d", stored, ids))
		}
	}
	return all
}

// postingsOf writes up to n postings as text.
func postingsOf(yields iter.Seq2[Posting, error], n int) (all []string, err error) {
	for p, err := range yields {
		if err != nil {
			return all, err
		}
		if all = append(all, fmt.Sprintf("%x:%d", p.Stored,
			slices.Collect(p.IDs.All()))); len(all) == n {
			break
		}
	}
	return all, nil
}

// collect returns the values of an iterator before its first error.
func collect[T any](yields iter.Seq2[T, error]) (all []T, err error) {
	for x, err := range yields {
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}

// comparison compares what can be read from a store with its model.
type comparison struct {
	t    *testing.T
	when string
}

func (c comparison) equal(got, want any, err error, what string, args ...any) {
	c.t.Helper()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		c.t.Fatalf("%s, %s: %v, %v, want %v", c.when, fmt.Sprintf(what, args...), got, err, want)
	}
}

// holds compares everything that can be read from tables with the model.
func (m *model) holds(t *testing.T, when string, tables *Tables) {
	t.Helper()
	v, err := tables.View()
	must(t, err)
	meta, err := v.Meta()
	c := comparison{t, when}
	c.equal(meta.Counters, m.counters, err, "counters")
	c.equal(meta.Crowded, m.crowded, nil, "crowded")
	c.equal(v.Epochs(), m.epochs, nil, "epochs")
	m.comparePostings(v, c)
	m.compareLive(v, c)
	m.compareDocuments(v, c)
	must(t, v.Close())
}

// comparePostings compares the merged entries of table 0.
func (m *model) comparePostings(v *View, c comparison) {
	all := func(modelEntry) bool { return true }
	valid := func(epochs int) func(e modelEntry) bool {
		return func(e modelEntry) bool { return e.epoch < epochs && !m.isRemoved(e.id, epochs) }
	}
	for _, first := range append([]uint64{3, 1 << 40}, modelFingerprints...) {
		for _, n := range []int{2, math.MaxInt} { // the caller stops after 2
			got, err := postingsOf(v.Entries(first), n)
			want := m.postings(first, all)
			c.equal(got, want[:min(n, len(want))], err, "%d of Entries from %x", n, first)
			got, err = postingsOf(v.Postings(first), n)
			want = m.postings(first, valid(m.epochs))
			c.equal(got, want[:min(n, len(want))], err, "%d of Postings from %x", n, first)
		}
	}
	if m.epochs == 2 {
		got, err := postingsOf(v.Frozen().Postings(0), math.MaxInt)
		c.equal(got, m.postings(0, valid(1)), err, "Postings of Frozen")
	}
	for _, stored := range append([]uint64{3}, modelFingerprints...) {
		want := m.ids(stored, func(e modelEntry) bool { return e.epoch == packed })
		for _, r := range []*reader{&v.reader, &v.tables.reader} {
			got, err := r.PackedIDs(stored)
			c.equal(slices.Collect(got.All()), want, err, "PackedIDs of %x", stored)
		}
	}
}

// compareLive compares the live entries of both tables, and the removed IDs.
func (m *model) compareLive(v *View, c comparison) {
	removed := slices.Sorted(maps.Keys(m.removed))
	bitmap, err := v.Removed()
	c.equal(bitmap.ToArray(), removed, err, "Removed")
	some := len(removed) > 0
	var scanned [2][]uint64 // by table: the distinct entries of each epoch
	for epoch := range m.epochs {
		got, err := collect(v.RemovedIn(epoch))
		c.equal(got, slices.DeleteFunc(slices.Clone(removed),
			func(id uint64) bool { return m.removed[id] != epoch }), err, "RemovedIn %d", epoch)
		var stored, permuted []uint64
		last := uint64(0)
		for _, e := range m.entries {
			if e.epoch == epoch {
				stored, permuted = append(stored, e.stored), append(permuted, permutedOf(e.stored))
				last, some = e.id, true
			}
		}
		slices.Sort(stored)
		slices.Sort(permuted)
		permuted = slices.Compact(permuted)
		for table, want := range [][]uint64{stored, permuted} {
			got, err := collect(v.Live(epoch, table))
			c.equal(got, want, err, "Live of epoch %d, table %d", epoch, table)
			scanned[table] = append(scanned[table], slices.Compact(want)...)
		}
		largest, err := v.LastLiveID(epoch)
		c.equal(largest, last, err, "LastLiveID of epoch %d", epoch)
	}
	has, err := v.HasLive()
	c.equal(has, some, err, "HasLive")
	for _, stored := range append([]uint64{3}, modelFingerprints...) {
		all := m.ids(stored, func(e modelEntry) bool { return e.epoch != packed })
		for _, from := range []uint64{0, m.counters.NextID / 2, m.counters.NextID - 1,
			math.MaxUint64} {
			at, _ := slices.BinarySearch(all, from)
			want := all[at:]
			for _, n := range []int{0, 1, len(want), math.MaxInt} {
				got, err := v.AppendLive([]uint64{99}, stored, from, n)
				c.equal(got, append([]uint64{99}, want[:min(n, len(want))]...), err,
					"AppendLive of %x from %d, limit %d", stored, from, n)
			}
		}
	}
	for table, all := range scanned {
		for _, first := range modelFingerprints {
			for _, last := range modelFingerprints {
				var got []uint64
				err := v.Scan(table, first, last, func(permuted uint64) bool {
					got = append(got, permuted)
					return true
				})
				want := slices.DeleteFunc(slices.Clone(all),
					func(permuted uint64) bool { return permuted < first || permuted > last })
				c.equal(got, want, err, "Scan of table %d from %x to %x", table, first, last)
			}
		}
		n := 0
		err := v.Scan(table, 0, math.MaxUint64, func(uint64) bool { n++; return n < 2 })
		c.equal(n, min(2, len(all)), err, "number of entries of a scan that stops after 2")
	}
}

// compareDocuments compares keys, records and counts.
func (m *model) compareDocuments(v *View, c comparison) {
	keys := make([][]uint64, 8) // no key has the last hash
	var records []Record
	for _, id := range slices.Sorted(maps.Keys(m.records)) {
		r := m.records[id]
		records = append(records, r)
		keys[hashOf(r.Key)] = append(keys[hashOf(r.Key)], id)
	}
	var entries []KeyEntry
	for hash, ids := range keys {
		got, err := v.AppendKey([]uint64{99}, uint64(hash))
		c.equal(got, append([]uint64{99}, ids...), err, "AppendKey of %d", hash)
		for _, id := range ids {
			entries = append(entries, KeyEntry{uint64(hash), id})
		}
	}
	gotEntries, err := collect(v.Keys())
	c.equal(gotEntries, entries, err, "Keys")
	gotRecords, err := collect(v.Records(1))
	c.equal(gotRecords, records, err, "Records")
	for id := range m.counters.NextID + 1 {
		for _, r := range []*reader{&v.reader, &v.tables.reader} {
			record, found, err := r.Record(id)
			want, exists := m.records[id]
			c.equal(fmt.Sprint(record, found), fmt.Sprint(want, exists), err, "Record of %d", id)
			count, err := r.Duplicates(id)
			c.equal(count, m.counts[id], err, "Duplicates of %d", id)
			removed, err := r.IsRemoved(id)
			c.equal(removed, m.isRemoved(id, m.epochs), err, "IsRemoved of %d", id)
		}
	}
}

// TestModel makes random changes and compactions, and compares everything that can be read with a
// model: packed, frozen and live entries, removed IDs, keys, records and counts.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	fsys := vfs.NewMem()
	s, m := openIn(t, fsys), newModel()
	var before []func() // checks of replaced tables
	checkBefore := func() {
		for _, check := range before {
			check()
		}
		before = nil
	}
	done := map[string]int{}
	steps := testenv.Number(100, 250, 500, 5000)
	if testenv.Race {
		steps = 20 // it is one goroutine
	}
	for range steps {
		var what string
		switch n := rng.IntN(20); {
		case n < 12:
			what = "change"
			apply(t, s, rng.IntN(2) == 0, func(b *Batch) { m.change(rng, b) })
		case n < 14:
			what = "flush"
			must(t, s.db.Flush())
		case n < 15:
			what = "CompactRecords"
			must(t, s.CompactRecords(t.Context()))
		case n < 17:
			what = "open again"
			checkBefore()
			must(t, s.Close())
			s = openIn(t, fsys)
		default:
			tables, old := s.Tables(), m.clone()
			if what = "Freeze"; m.epochs == 1 {
				m.freeze(t, s)
			} else {
				what = "Take"
				m.take(t, s)
			}
			before = append(before,
				func() { old.holds(t, "tables before "+what, tables); tables.Release() })
		}
		done[what]++
		m.holds(t, "after "+what, s.Now())
	}
	checkBefore()
	must(t, s.Close())
	t.Log(done, m.counters)
	for _, what := range []string{"change", "flush", "CompactRecords", "open again", "Freeze",
		"Take"} {
		if done[what] < 3 && !testenv.Race {
			t.Errorf("%s: %d times", what, done[what])
		}
	}
}

// errOf returns the error of an iterator.
func errOf[T any](yields iter.Seq2[T, error]) error {
	_, err := collect(yields)
	return err
}
