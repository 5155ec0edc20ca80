package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
	"pgregory.net/rapid"
)

// TestPostingsOfBothParts takes postings out of a store where some fingerprints are
// packed, some live, and some both, from any first one on and up to any place.
func TestPostingsOfBothParts(t *testing.T) {
	fsys := vfs.NewMem()
	rng := rand.New(rand.NewPCG(1, 1))
	model := map[uint64][]uint64{}
	for id := range uint64(1500) {
		fp := rng.Uint64() >> rng.IntN(60)
		model[fp] = append(model[fp], id+1)
	}
	s := openIn(t, fsys)
	rewrite(t, s, Counters{NextID: 3000}, func(_ *Rewrite, w *TableWriter) {
		for _, fp := range slices.Sorted(maps.Keys(model)) {
			must(t, w.AddPosting(fp, NewIDs(slices.Clone(model[fp])...)))
		}
	})
	must(t, s.Close())
	s = openIn(t, fsys)
	defer s.Close()
	apply(t, s, false, func(b *Batch) {
		for i, fp := range slices.Sorted(maps.Keys(model)) {
			switch i % 5 {
			case 0: // another document
				b.ChangePosting(fp, NewIDs(uint64(1501+i)), IDs{})
				model[fp] = append(model[fp], uint64(1501+i))
			case 1: // none is left
				b.ChangePosting(fp, IDs{}, NewIDs(slices.Clone(model[fp])...))
				delete(model, fp)
			case 2: // a neighbour that is not packed
				if _, packed := model[fp+1]; !packed && fp+1 != 0 {
					b.ChangePosting(fp+1, NewIDs(uint64(1501+i)), IDs{})
					model[fp+1] = []uint64{uint64(1501 + i)}
				}
			}
		}
	})
	all := slices.Sorted(maps.Keys(model))
	inView(t, s, func(v *View) {
		for n := range 200 {
			first := uint64(0)
			if n > 0 {
				first = all[rng.IntN(len(all))] + uint64(rng.IntN(3)) - 1
			}
			from, _ := slices.BinarySearch(all, first)
			stop := len(all) // the end
			if n%4 > 0 {
				stop = from + rng.IntN(len(all)-from+1)
			}
			var got, want []string
			for _, fp := range all[from:stop] {
				want = append(want, fmt.Sprintf("%016x %v", fp, model[fp]))
			}
			for p, err := range v.Postings(first) {
				must(t, err)
				if stop < len(all) && len(got) == len(want) {
					break
				}
				if !p.IDs.Empty() {
					got = append(got, fmt.Sprintf("%016x %v", p.Stored, slices.Collect(p.IDs.All())))
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("postings from %016x on: %v, not %v", first, got, want)
			}
		}
	})
}

// drawOperands draws the operands of one posting: an ID is added once and may be
// removed once, at any later time or at once.
func drawOperands(t *rapid.T) (operands [][]byte, want []uint64) {
	n := rapid.IntRange(1, 12).Draw(t, "operands")
	added, removed := make([][]uint64, n), make([][]uint64, n)
	last := rapid.Uint64Range(1, 90).Draw(t, "IDs")
	for id := uint64(1); id <= last; id++ {
		at := rapid.IntRange(0, n-1).Draw(t, "added in")
		added[at] = append(added[at], id)
		if gone := rapid.IntRange(at, 2*n).Draw(t, "removed in"); gone < n {
			removed[gone] = append(removed[gone], id)
		} else {
			want = append(want, id)
		}
	}
	for i := range n {
		operands = append(operands, encodeChange(t, NewIDs(added[i]...), NewIDs(removed[i]...)))
	}
	return operands, want
}

func encodeChange(t fatal, added, removed IDs) []byte {
	encoded, err := change{added, removed}.append(nil)
	must(t, err)
	return encoded
}

// mergeInSomeWay merges operands as Pebble might: partly, from either end of any
// neighbouring ones, then all that is left. The oldest operands may be merged into a
// value of their own early, if nothing that comes later was removed among them.
func mergeInSomeWay(t *rapid.T, values [][]byte, inOrder bool) []byte {
	for len(values) > 1 {
		from := rapid.IntRange(0, len(values)-2).Draw(t, "from")
		to := rapid.IntRange(from+2, len(values)).Draw(t, "to")
		whole := from == 0 && to == len(values)
		includesBase := whole || from == 0 && inOrder && rapid.Bool().Draw(t, "with base")
		start := rapid.IntRange(from, to-1).Draw(t, "start")
		m, err := postingMerger.Merge(nil, values[start])
		must(t, err)
		for older, newer := start-1, start+1; older >= from || newer < to; {
			if newer == to || older >= from && rapid.Bool().Draw(t, "older") {
				must(t, m.MergeOlder(values[older]))
				older--
			} else {
				must(t, m.MergeNewer(values[newer]))
				newer++
			}
		}
		value, closer, err := m.Finish(includesBase)
		if err != nil || closer != nil {
			t.Fatal(closer, err)
		}
		values = slices.Replace(values, from, to, value)
	}
	return values[0]
}

func TestMergeInAnyGrouping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values, want := drawOperands(t)
		if len(values) == 1 {
			values = append(values, encodeChange(t, IDs{}, IDs{}))
		}
		inOrder := rapid.Bool().Draw(t, "in order")
		if !inOrder {
			values = rapid.Permutation(values).Draw(t, "order")
		}
		c, err := decodeChange(mergeInSomeWay(t, values, inOrder))
		ids := c.apply(IDs{})
		if got := slices.Collect(ids.All()); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, %v, not %v", got, err, want)
		}
	})
}

func TestMergeRefusesDamage(t *testing.T) {
	for _, value := range []string{"", "\x01\x00", "\x03", "\x03\x05\x01", "\x03\x01\x01", "\x03\x01\x01\x04"} {
		if _, err := postingMerger.Merge(nil, []byte(value)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%x: %v", value, err)
		}
		m, err := postingMerger.Merge(nil, []byte{0x01, 1})
		must(t, err)
		if err := m.MergeNewer([]byte(value)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("newer %x: %v", value, err)
		}
	}
}

func FuzzDecodeChange(f *testing.F) {
	f.Add([]byte{0x01, 7, 1})
	f.Add(encodeChange(f, NewIDs(3, 4), NewIDs(9)))
	f.Add([]byte{postingChange, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 1})
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := decodeChange(value)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if c.added.Len() > 1<<20 || c.removed.Len() > 1<<20 {
			return
		}
		again, err := decodeChange(encodeChange(t, c.added, c.removed))
		if err != nil || !slices.Equal(slices.Collect(again.added.All()), slices.Collect(c.added.All())) ||
			!slices.Equal(slices.Collect(again.removed.All()), slices.Collect(c.removed.All())) {
			t.Fatalf("%x reads back differently: %v", value, err)
		}
	})
}

// TestPostingsThroughPebble changes, deletes and adds again a few postings under
// small memtables, flushes, compactions and reopening, against a map.
func TestPostingsThroughPebble(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := vfs.NewMem()
		s := openIn(t, fsys)
		defer func() { must(t, s.Close()) }()
		model, next := map[uint64][]uint64{}, uint64(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); step {
			case 0:
				must(t, s.db.Flush())
			case 1:
				must(t, s.db.Compact(t.Context(), []byte{0}, []byte{255}, rapid.Bool().Draw(t, "parallel")))
			case 2:
				must(t, s.Close())
				s = openIn(t, fsys)
			default:
				apply(t, s, false, func(b *Batch) {
					for range rapid.IntRange(1, 3).Draw(t, "changes") {
						next = changeSomePosting(t, b, model, next)
					}
				})
			}
			checkPostings(t, s, model)
		}
	})
}

// changeSomePosting adds IDs to a posting and removes others, as package index does:
// a posting that loses its last ID is deleted.
func changeSomePosting(t *rapid.T, b *Batch, model map[uint64][]uint64, next uint64) uint64 {
	stored := rapid.Uint64Range(0, 3).Draw(t, "stored")
	var left, added, removed []uint64
	for _, id := range model[stored] {
		if rapid.IntRange(0, 2).Draw(t, "remove") > 0 {
			removed = append(removed, id)
		} else {
			left = append(left, id)
		}
	}
	for range rapid.IntRange(0, 50).Draw(t, "add") {
		added = append(added, next)
		next++
	}
	if model[stored] = append(left, added...); len(model[stored]) == 0 {
		b.DeleteEntry(0, stored)
	} else {
		b.ChangePosting(stored, NewIDs(added...), NewIDs(removed...))
	}
	return next
}

func checkPostings(t *rapid.T, s *Store, model map[uint64][]uint64) {
	inView(t, s, func(v *View) {
		got := map[uint64]string{}
		for p, err := range v.Postings(0) {
			must(t, err)
			if !p.IDs.Empty() {
				got[p.Stored] = fmt.Sprint(slices.Collect(p.IDs.All()))
			}
		}
		want := map[uint64]string{}
		for stored := range uint64(4) {
			ids := model[stored]
			if len(ids) > 0 {
				want[stored] = fmt.Sprint(ids)
			}
			fromView, err := v.Posting(stored)
			must(t, err)
			newest, err := s.Now().Posting(stored)
			must(t, err)
			if a, b := slices.Collect(fromView.All()), slices.Collect(newest.All()); !slices.Equal(a, ids) || !slices.Equal(b, ids) {
				t.Fatalf("posting %d: %v in a view, %v newest, not %v", stored, a, b, ids)
			}
			if found, err := s.Now().ContainsLive(0, stored); err != nil || found != (len(ids) > 0) {
				t.Fatalf("table 0 contains %d: %v, %v", stored, found, err)
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("postings %v, not %v", got, want)
		}
	})
}

// TestEmptyPostingIsNone: a posting that merges to nothing, as a crash between
// formats or a foreign writer may leave it, is not seen.
func TestEmptyPostingIsNone(t *testing.T) {
	s := openMem(t)
	apply(t, s, false, func(b *Batch) {
		b.ChangePosting(5, NewIDs(1), IDs{})
		b.ChangePosting(5, IDs{}, NewIDs(1))
	})
	must(t, s.db.Flush())
	inView(t, s, func(v *View) {
		for p, err := range v.Postings(0) {
			if err != nil || !p.IDs.Empty() {
				t.Errorf("posting %v, %v", p, err)
			}
		}
		if ids, err := v.Posting(5); ids.Len() != 0 || err != nil {
			t.Errorf("posting 5: %v, %v", ids, err)
		}
	})
}

// TestDamagedPostingIsReported writes what no commit would.
func TestDamagedPostingIsReported(t *testing.T) {
	s := openMem(t)
	must(t, s.db.Set(tableKey(evenKeyspace, 0, 5), []byte{0x01, 0}, pebble.NoSync))
	_, newest := s.Now().Posting(5)
	inView(t, s, func(v *View) {
		_, err := v.Posting(5)
		for _, listed := range v.Postings(0) {
			if !errors.Is(newest, fault.ErrCorrupt) || !errors.Is(err, fault.ErrCorrupt) || !errors.Is(listed, fault.ErrCorrupt) {
				t.Errorf("%v, %v, %v", newest, err, listed)
			}
			return
		}
		t.Error("nothing is listed")
	})
}
