package store

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// model is the expected content of a store, which has two tables.
type model struct {
	counters Counters
	records  map[uint64]Record // of the documents that have not been removed
	packed   map[uint64][]uint64
	epochs   []epochModel // the last one is written to
}

type epochModel struct {
	live    map[uint64][]uint64 // IDs by stored fingerprint, ascending
	removed map[uint64]bool
}

func newEpochModel() epochModel {
	return epochModel{live: map[uint64][]uint64{}, removed: map[uint64]bool{}}
}

func newModel() *model {
	return &model{
		counters: Counters{NextID: 1}, records: map[uint64]Record{},
		packed: map[uint64][]uint64{}, epochs: []epochModel{newEpochModel()},
	}
}

func (m *model) clone() *model {
	c := &model{counters: m.counters, records: maps.Clone(m.records), packed: maps.Clone(m.packed)}
	for _, e := range m.epochs {
		c.epochs = append(c.epochs, epochModel{maps.Clone(e.live), maps.Clone(e.removed)})
	}
	return c
}

func permutedOf(stored uint64) uint64 { return bits.RotateLeft64(stored, 32) }

// hashOf returns one of 7 hashes, so that keys collide.
func hashOf(key string) uint64 { return KeyHash(key) % 7 }

// modelFingerprints are the stored fingerprints of model documents: neighbours, and both ends.
var modelFingerprints = []uint64{0, 1, 2, 0xff, 0x100, 1 << 32, 1<<32 + 1, 7 << 61,
	math.MaxUint64 - 1, math.MaxUint64}

// change makes random changes to a model, and puts them into a batch.
func (m *model) change(rng *rand.Rand, b *Batch) {
	last := m.epochs[len(m.epochs)-1]
	for range 1 + rng.IntN(6) {
		ids := slices.Sorted(maps.Keys(m.records))
		switch n := rng.IntN(10); {
		case n < 6 || len(ids) == 0: // add a document
			id := m.counters.NextID
			// half of all have the last one
			stored := modelFingerprints[min(rng.IntN(2*len(modelFingerprints)),
				len(modelFingerprints)-1)]
			r := Record{ID: id, Fingerprint: stored, Time: 1000 + id, Digest: id % 2,
				Key: fmt.Sprint("key ", id)}
			b.SetRecord(r)
			b.SetKey(hashOf(r.Key), id)
			b.SetLive(stored, id)
			b.SetEntry(1, permutedOf(stored))
			m.records[id] = r
			last.live[stored] = append(slices.Clone(last.live[stored]), id)
			m.counters.NextID++
			m.counters.Documents++
		case n < 9: // remove one
			id := ids[rng.IntN(len(ids))]
			b.Remove(id)
			b.DeleteRecord(id)
			b.DeleteKey(hashOf(m.records[id].Key), id)
			delete(m.records, id)
			last.removed[id] = true
			m.counters.Documents--
		default: // see one again
			id := ids[rng.IntN(len(ids))]
			r := m.records[id]
			r.Time++
			b.SetRecord(r)
			m.records[id] = r
		}
	}
	b.SetCounters(m.counters)
}

func (m *model) freeze() { m.epochs = append(m.epochs, newEpochModel()) }

// take merges the packed entries and the frozen epoch, without the IDs removed in that epoch.
func (m *model) take() {
	m.packed = m.postings([]epochModel{m.epochs[0]}, 0)
	m.epochs = m.epochs[1:]
}

// entries returns the IDs by stored fingerprint, removed IDs included, from a fingerprint on.
func (m *model) entries(epochs []epochModel, first uint64) map[uint64][]uint64 {
	all := maps.Clone(m.packed)
	for _, e := range epochs {
		for stored, ids := range e.live {
			all[stored] = slices.Concat(all[stored], ids)
		}
	}
	maps.DeleteFunc(all, func(stored uint64, _ []uint64) bool { return stored < first })
	return all
}

func (m *model) postings(epochs []epochModel, first uint64) map[uint64][]uint64 {
	all := m.entries(epochs, first)
	for stored, ids := range all {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool {
			return slices.ContainsFunc(epochs, func(e epochModel) bool { return e.removed[id] })
		})
		if all[stored] = ids; len(ids) == 0 {
			delete(all, stored)
		}
	}
	return all
}

// differences compares everything that can be read from a view with a model.
func (m *model) differences(v *View) error {
	var errs []error
	compare := func(what string, got, want any, err error) {
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			errs = append(errs, fmt.Errorf("%s: %v, %v, want %v", what, got, err, want))
		}
	}
	meta, err := v.Meta()
	if err != nil {
		return err
	}
	compare("counters", meta.Counters, m.counters, nil)
	compare("epochs", v.Epochs(), len(m.epochs), nil)
	if v.Epochs() != len(m.epochs) {
		return errors.Join(errs...)
	}

	m.compareEntries(v, compare)
	m.compareLive(v, compare)

	keys := map[uint64][]uint64{}
	var allKeys []KeyEntry
	for _, id := range slices.Sorted(maps.Keys(m.records)) {
		hash := hashOf(m.records[id].Key)
		keys[hash] = append(keys[hash], id)
	}
	for hash := range uint64(8) { // no key has the last one
		got, err := v.AppendKey([]uint64{99}, hash)
		compare(fmt.Sprint("AppendKey of ", hash), got, append([]uint64{99}, keys[hash]...), err)
		for _, id := range keys[hash] {
			allKeys = append(allKeys, KeyEntry{hash, id})
		}
	}
	gotKeys, err := collect(v.Keys())
	compare("Keys", gotKeys, allKeys, err)

	records := map[uint64]Record{}
	for d, err := range v.Records(1) {
		if err != nil {
			return err
		}
		records[d.ID] = d
	}
	compare("Records", records, m.records, nil)
	for id := range m.counters.NextID + 1 {
		r, found, err := v.Record(id)
		want, exists := m.records[id]
		compare(fmt.Sprint("Record of ", id), fmt.Sprint(r, found), fmt.Sprint(want, exists), err)
	}
	return errors.Join(errs...)
}

// compareEntries compares the merged entries of table 0, and the removed IDs.
func (m *model) compareEntries(v *View, compare func(what string, got, want any, err error)) {
	for _, first := range append([]uint64{3, 1 << 40}, modelFingerprints...) {
		for what, c := range map[string]struct {
			yields iter.Seq2[Posting, error]
			want   map[uint64][]uint64
		}{
			"Entries":  {v.Entries(first), m.entries(m.epochs, first)},
			"Postings": {v.Postings(first), m.postings(m.epochs, first)},
		} {
			all, err := postingsOf(c.yields, math.MaxInt)
			compare(fmt.Sprintf("%s from %x", what, first), all, sorted(c.want), err)
			some, err := postingsOf(c.yields, 2) // the caller stops
			compare(fmt.Sprintf("2 of %s from %x", what, first), some,
				sorted(c.want)[:min(2, len(c.want))], err)
		}
	}
	if v.Epochs() == 2 {
		frozen := v.Frozen()
		all, err := postingsOf(frozen.Postings(0), math.MaxInt)
		compare("Postings of Frozen", all, sorted(m.postings(m.epochs[:1], 0)), err)
	}
	removed := map[uint64]bool{}
	for i, e := range m.epochs {
		got, err := collect(v.RemovedIn(i))
		compare(fmt.Sprint("RemovedIn ", i), got, slices.Sorted(maps.Keys(e.removed)), err)
		maps.Copy(removed, e.removed)
	}
	bitmap, err := v.Removed()
	compare("Removed", bitmap.ToArray(), slices.Sorted(maps.Keys(removed)), err)
	for id := range m.counters.NextID + 1 {
		got, err := v.IsRemoved(id)
		compare(fmt.Sprint("IsRemoved of ", id), got, removed[id], err)
	}
	for _, stored := range append([]uint64{3}, modelFingerprints...) {
		ids, err := v.PackedIDs(stored)
		compare(fmt.Sprintf("PackedIDs of %x", stored), slices.Collect(ids.All()),
			m.packed[stored], err)
	}
}

// compareLive compares the live entries of both tables.
func (m *model) compareLive(v *View, compare func(what string, got, want any, err error)) {
	some := false
	for i, e := range m.epochs {
		var want [2][]uint64
		for _, stored := range slices.Sorted(maps.Keys(e.live)) {
			want[0] = append(want[0], slices.Repeat([]uint64{stored}, len(e.live[stored]))...)
			want[1] = append(want[1], permutedOf(stored))
		}
		slices.Sort(want[1])
		for table, want := range want {
			got, err := collect(v.Live(i, table))
			compare(fmt.Sprintf("Live of epoch %d, table %d", i, table), got, want, err)
		}
		largest := slices.Max(append(slices.Concat(slices.Collect(maps.Values(e.live))...), 0))
		last, err := v.LastLiveID(i)
		compare(fmt.Sprint("LastLiveID of epoch ", i), last, largest, err)
		some = some || len(e.live)+len(e.removed) > 0
	}
	has, err := v.HasLive()
	compare("HasLive", has, some, err)

	for _, stored := range append([]uint64{3}, modelFingerprints...) {
		var all []uint64
		for _, e := range m.epochs {
			all = append(all, e.live[stored]...)
		}
		froms := []uint64{0, math.MaxUint64}
		if len(all) > 0 {
			froms = append(froms, all[0]+1, all[len(all)/2], all[len(all)-1])
		}
		for _, from := range froms {
			at, _ := slices.BinarySearch(all, from)
			want := all[at:]
			for _, n := range []int{0, 1, len(want) - 1, len(want), len(want) + 1, math.MaxInt} {
				if n < 0 {
					continue
				}
				got, err := v.AppendLive([]uint64{99}, stored, from, n)
				compare(fmt.Sprintf("AppendLive of %x from %d, limit %d", stored, from, n), got,
					append([]uint64{99}, want[:min(n, len(want))]...), err)
			}
		}
	}
	for table, permute := range []func(uint64) uint64{func(stored uint64) uint64 {
		return stored
	}, permutedOf} {
		for _, first := range modelFingerprints {
			for _, last := range modelFingerprints {
				var got, want []uint64
				err := v.Scan(table, first, last, func(permuted uint64) bool {
					got = append(got, permuted)
					return true
				})
				for _, e := range m.epochs { // each fingerprint once per epoch
					var of []uint64
					for stored := range e.live {
						if p := permute(stored); first <= p && p <= last {
							of = append(of, p)
						}
					}
					slices.Sort(of)
					want = append(want, of...)
				}
				compare(fmt.Sprintf("Scan of table %d from %x to %x", table, first, last),
					got, want, err)
			}
		}
	}
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

// sorted writes the postings of a model as postingsOf does.
func sorted(postings map[uint64][]uint64) (all []string) {
	for _, stored := range slices.Sorted(maps.Keys(postings)) {
		all = append(all, fmt.Sprintf("%x:%d", stored, postings[stored]))
	}
	return all
}

// holds fails the test if the content of the store differs from the model.
func (m *model) holds(t *testing.T, what string, open func() (*View, error)) {
	t.Helper()
	v, err := open()
	must(t, err)
	if err := m.differences(v); err != nil {
		t.Errorf("%s:\n%.3000v", what, err)
	}
	must(t, v.Close())
}

// packFrozen prepares the replacement of the packed tables and the frozen epoch. nextID is of the
// time of Freeze.
func packFrozen(s *Store, nextID uint64) (*Rewrite, error) {
	r, err := s.NewRewrite(2)
	if err != nil {
		return nil, err
	}
	v, err := s.View()
	if err != nil {
		return r, err
	}
	w := r.Table(0)
	var permuted []uint64
	for p, postingErr := range v.Frozen().Postings(0) {
		if err = postingErr; err == nil {
			err = w.AddPosting(p.Stored, p.IDs)
		}
		if err != nil {
			break
		}
		permuted = append(permuted, permutedOf(p.Stored))
	}
	err = errors.Join(err, w.Close(), v.Close())
	slices.Sort(permuted)
	w = r.Table(1)
	for _, p := range permuted {
		err = errors.Join(err, w.Add(p))
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = r.Prepare("plan", nextID, nil)
	}
	return r, err
}

// TestModel makes random changes and compactions, and compares everything that can be read with a
// model: packed, frozen and live entries, removed IDs, keys and records.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	fsys := vfs.NewMem()
	s, m := openIn(t, fsys), newModel()
	var before []func() // checks of tables that were replaced
	frozenAt, done := uint64(0), map[string]int{}
	for range testenv.Number(100, 250, 500, 5000) {
		var what string
		switch n := rng.IntN(10); {
		case n < 6:
			what = "change"
			apply(t, s, rng.IntN(2) == 0, func(b *Batch) { m.change(rng, b) })
		case n < 7:
			what = "flush"
			must(t, s.db.Flush())
		case n < 8:
			what = "open again"
			for _, check := range before {
				check()
			}
			before = nil
			must(t, s.Close())
			s = openIn(t, fsys)
		default:
			if what = "Freeze"; len(m.epochs) == 2 {
				what = "Take"
			}
			tables, old := s.Tables(), m.clone()
			replaced := "tables before " + what
			before = append(before,
				func() { old.holds(t, replaced, tables.View); tables.Release() })
			if what == "Freeze" {
				must(t, s.Freeze())
				m.freeze()
				frozenAt = m.counters.NextID
				break
			}
			r, err := packFrozen(s, frozenAt)
			must(t, err, s.Take(t.Context(), r), r.Close())
			m.take()
		}
		done[what]++
		if m.holds(t, "after "+what, s.View); t.Failed() {
			break
		}
		var inNow []error // of lookups without a view
		for id := range m.counters.NextID {
			want := slices.ContainsFunc(m.epochs, func(e epochModel) bool { return e.removed[id] })
			if got, err := s.Now().IsRemoved(id); err != nil || got != want {
				inNow = append(inNow, fmt.Errorf("IsRemoved of %d: %t, %v", id, got, err))
			}
		}
		for _, stored := range modelFingerprints {
			ids, err := s.Now().PackedIDs(stored)
			if err != nil || !slices.Equal(slices.Collect(ids.All()), m.packed[stored]) {
				inNow = append(inNow, fmt.Errorf("PackedIDs of %x: %v, %v", stored, ids, err))
			}
		}
		if err := errors.Join(inNow...); err != nil {
			t.Fatalf("after %s: %v", what, err)
		}
	}
	for _, check := range before {
		check()
	}
	must(t, s.Close())
	t.Log(done, m.counters)
	for _, what := range []string{"change", "flush", "open again", "Freeze", "Take"} {
		if done[what] < 3 {
			t.Errorf("%s: %d times", what, done[what])
		}
	}
}

// TestScanOfManyCopies scans fingerprints with numbers of documents around the one from which a
// scan skips.
func TestScanOfManyCopies(t *testing.T) {
	s := openMem(t)
	var want []uint64
	apply(t, s, true, func(b *Batch) {
		id := uint64(0)
		for _, copies := range []int{1, manyCopies - 1, manyCopies, manyCopies + 1, manyCopies + 2,
			3 * manyCopies} {
			for _, stored := range []uint64{uint64(copies) << 8, uint64(copies)<<8 + 1,
				math.MaxUint64 - uint64(copies)} {
				want = append(want, stored)
				for range copies {
					id++
					b.SetLive(stored, id)
				}
			}
		}
		for range 3 * manyCopies {
			id++
			b.SetLive(math.MaxUint64, id)
		}
	})
	want = append(want, math.MaxUint64)
	slices.Sort(want)
	inView(t, s, func(v *View) {
		for i, first := range want {
			for j, last := range want[i:] {
				var got []uint64
				must(t, v.Scan(0, first, last, func(stored uint64) bool {
					got = append(got, stored)
					return true
				}))
				if !slices.Equal(got, want[i:i+j+1]) {
					t.Errorf("from %x to %x: %x", first, last, got)
				}
			}
		}
		n := 0
		if err := v.Scan(0, 0, math.MaxUint64, func(uint64) bool {
			n++
			return n < 4
		}); err != nil || n != 4 {
			t.Errorf("a scan that is stopped at 4 yields %d: %v", n, err)
		}
	})
}

// TestBrokenLiveEntries reads entries that no writer makes.
func TestBrokenLiveEntries(t *testing.T) {
	good := liveKey(evenKeyspace, 5, 1)
	for what, c := range map[string]struct {
		key, value []byte
		read       func(v *View) error
	}{
		"live entry without an ID": {good[:tableKeyLen], nil, readEntries},
		"live entry with ID 0":     {liveKey(evenKeyspace, 5, 0), nil, readEntries},
		"live entry with a value":  {good, []byte{1}, readEntries},
		"live entry too long":      {append(good, 0), nil, readEntries},
		"entry too long":           {append(tableKey(evenKeyspace, 1, 5), 0), nil, readLive},
		"entry with a value":       {tableKey(evenKeyspace, 1, 5), []byte{1}, readLive},
		"removed ID too short": {tableKey(evenKeyspace, removedTable, math.MaxUint64)[:8],
			nil, readRemoved},
		"removed ID too long": {append(tableKey(evenKeyspace, removedTable, 5), 0),
			nil, readRemoved},
		"key without an ID":       {keyKey(5, 1)[:9], nil, readKeys},
		"key too long":            {append(keyKey(5, 1), 0), nil, readKeys},
		"document without an ID":  {documentKey(math.MaxUint64)[:8], nil, readRecords},
		"document with ID 0":      {documentKey(0), new(Record).appendTo(nil), readRecords},
		"document without record": {documentKey(5), nil, readRecords},
	} {
		s := openMem(t)
		apply(t, s, true, func(b *Batch) { b.SetLive(5, 2); b.SetLive(6, 3) })
		must(t, s.db.Set(c.key, c.value, nil))
		inView(t, s, func(v *View) {
			if err := c.read(v); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

func readEntries(v *View) error {
	_, err := collect(v.Entries(0))
	if _, postingsErr := collect(v.Postings(0)); postingsErr == nil {
		return fmt.Errorf("Entries returns %v, and Postings no error", err)
	}
	return err
}

func readLive(v *View) error { _, err := collect(v.Live(0, 1)); return err }

func readRemoved(v *View) error {
	_, err := v.Removed()
	if _, postingsErr := collect(v.Postings(0)); postingsErr == nil {
		return fmt.Errorf("Removed returns %v, and Postings no error", err)
	}
	return err
}

func readKeys(v *View) error { _, err := collect(v.Keys()); return err }

func readRecords(v *View) error { _, err := collect(v.Records(0)); return err }
