package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// TestPostingsOfBothParts takes postings out of a store where some fingerprints are
// packed, some live, and some both, from any first one on and up to any place.
func TestPostingsOfBothParts(t *testing.T) {
	ctx, fsys := context.Background(), vfs.NewMem()
	rng := rand.New(rand.NewPCG(1, 1))
	s, err := Open("ix", Options{FS: fsys, Create: &Header{Plan: "k=0 0-63/64"}})
	if err != nil {
		t.Fatal(err)
	}
	model := map[uint64][]uint64{}
	for id := range uint64(1500) {
		fp := rng.Uint64() >> rng.IntN(60)
		model[fp] = append(model[fp], id+1)
	}
	r, err := s.NewRewrite(1)
	if err != nil {
		t.Fatal(err)
	}
	w := r.Table(0)
	for _, fp := range slices.Sorted(maps.Keys(model)) {
		if err == nil {
			err = w.AddPosting(fp, NewIDs(slices.Clone(model[fp])...))
		}
	}
	for _, f := range []func() error{
		func() error { return err },
		func() error { return w.Close() },
		func() error { return r.Commit(ctx, "k=0 0-63/64", Counters{NextID: 3000}) },
		func() error { return r.Close() },
		func() error { return s.Close() },
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = Open("ix", Options{FS: fsys}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	batch := s.NewBatch()
	for i, fp := range slices.Sorted(maps.Keys(model)) {
		switch i % 5 {
		case 0: // another document
			batch.ChangePosting(fp, NewIDs(uint64(1501+i)), IDs{})
			model[fp] = append(model[fp], uint64(1501+i))
		case 1: // none is left
			batch.ChangePosting(fp, IDs{}, NewIDs(slices.Clone(model[fp])...))
			delete(model, fp)
		case 2: // a neighbour that is not packed
			if _, packed := model[fp+1]; !packed && fp+1 != 0 {
				batch.ChangePosting(fp+1, NewIDs(uint64(1501+i)), IDs{})
				model[fp+1] = []uint64{uint64(1501 + i)}
			}
		}
	}
	if finish, err := s.Apply(batch, false); err != nil || finish() != nil {
		t.Fatal(err)
	}
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	all := slices.Sorted(maps.Keys(model))
	for n := range 200 {
		first := uint64(0)
		if n > 0 {
			first = all[rng.IntN(len(all))] + uint64(rng.IntN(3)) - 1
		}
		from, _ := slices.BinarySearch(all, first)
		want, stop := all[from:], -1 // to the end
		if n%4 > 0 {
			stop = rng.IntN(len(want) + 1)
			want = want[:stop]
		}
		if got, want := takePostings(t, v, first, stop), describe(want, model); !slices.Equal(got, want) {
			t.Fatalf("postings from %016x on: %v, not %v", first, got, want)
		}
	}
}

func describe(fps []uint64, model map[uint64][]uint64) []string {
	var out []string
	for _, fp := range fps {
		out = append(out, fmt.Sprintf("%016x %v", fp, model[fp]))
	}
	return out
}

// takePostings stops after so many, or at the end if that is negative.
func takePostings(t *testing.T, v *View, first uint64, stop int) (got []string) {
	t.Helper()
	if stop == 0 {
		return nil
	}
	for p, err := range v.Postings(first) {
		if err != nil {
			t.Fatal(err)
		}
		if p.IDs.Empty() {
			continue
		}
		got = append(got, fmt.Sprintf("%016x %v", p.Stored, slices.Collect(p.IDs.All())))
		if len(got) == stop {
			break
		}
	}
	return got
}

type operand struct{ added, removed []uint64 }

// drawOperands draws the operands of one posting: an ID is added once and may be
// removed once, at any later time or at once.
func drawOperands(t *rapid.T) (operands []operand, want []uint64) {
	n := rapid.IntRange(1, 12).Draw(t, "operands")
	operands = make([]operand, n)
	last := rapid.Uint64Range(1, 90).Draw(t, "IDs")
	for id := uint64(1); id <= last; id++ {
		at := rapid.IntRange(0, n-1).Draw(t, "added in")
		operands[at].added = append(operands[at].added, id)
		if gone := rapid.IntRange(at, 2*n).Draw(t, "removed in"); gone < n {
			operands[gone].removed = append(operands[gone].removed, id)
		} else {
			want = append(want, id)
		}
	}
	return operands, want
}

func (o operand) encode(t interface{ Fatal(...any) }) []byte {
	encoded, err := change{NewIDs(slices.Clone(o.added)...), NewIDs(slices.Clone(o.removed)...)}.append(nil)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		for older, newer := start-1, start+1; older >= from || newer < to; {
			if newer == to || older >= from && rapid.Bool().Draw(t, "older") {
				err = m.MergeOlder(values[older])
				older--
			} else {
				err = m.MergeNewer(values[newer])
				newer++
			}
			if err != nil {
				t.Fatal(err)
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
		operands, want := drawOperands(t)
		var values [][]byte
		for _, o := range operands {
			values = append(values, o.encode(t))
		}
		if len(values) == 1 {
			values = append(values, operand{}.encode(t))
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
		if _, err := postingMerger.Merge(nil, []byte(value)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", value, err)
		}
		m, err := postingMerger.Merge(nil, []byte{0x01, 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.MergeNewer([]byte(value)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("newer %x: %v", value, err)
		}
	}
}

func FuzzDecodeChange(f *testing.F) {
	f.Add([]byte{0x01, 7, 1})
	f.Add(operand{[]uint64{3, 4}, []uint64{9}}.encode(f))
	f.Add([]byte{postingChange, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 1})
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := decodeChange(value)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if c.added.Len() > 1<<20 || c.removed.Len() > 1<<20 {
			return
		}
		encoded, err := c.append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeChange(encoded)
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
		fs := vfs.NewMem()
		s, err := Open("store", Options{Create: &Header{}, FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		model, next := map[uint64]map[uint64]bool{}, uint64(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); step {
			case 0:
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := s.db.Compact(t.Context(), []byte{0}, []byte{255}, rapid.Bool().Draw(t, "parallel")); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = Open("store", Options{FS: fs}); err != nil {
					t.Fatal(err)
				}
			default:
				b := s.NewBatch()
				for range rapid.IntRange(1, 3).Draw(t, "changes") {
					next = changeSomePosting(t, b, model, next)
				}
				finish, err := s.Apply(b, false)
				if err != nil {
					t.Fatal(err)
				}
				if err := finish(); err != nil {
					t.Fatal(err)
				}
			}
			checkPostings(t, s, model)
		}
	})
}

// changeSomePosting adds IDs to a posting and removes others, as package index does:
// a posting that loses its last ID is deleted.
func changeSomePosting(t *rapid.T, b *Batch, model map[uint64]map[uint64]bool, next uint64) uint64 {
	stored := rapid.Uint64Range(0, 3).Draw(t, "stored")
	var added, removed []uint64
	for _, id := range slices.Sorted(maps.Keys(model[stored])) {
		if rapid.IntRange(0, 2).Draw(t, "remove") > 0 {
			removed = append(removed, id)
			delete(model[stored], id)
		}
	}
	for range rapid.IntRange(0, 50).Draw(t, "add") {
		added = append(added, next)
		next++
	}
	if model[stored] == nil {
		model[stored] = map[uint64]bool{}
	}
	for _, id := range added {
		model[stored][id] = true
	}
	switch {
	case len(model[stored]) == 0:
		b.DeletePosting(stored)
	default:
		b.ChangePosting(stored, NewIDs(added...), NewIDs(removed...))
	}
	return next
}

func checkPostings(t *rapid.T, s *Store, model map[uint64]map[uint64]bool) {
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	want := map[uint64]string{}
	for stored := range uint64(4) {
		ids := slices.Sorted(maps.Keys(model[stored]))
		if len(ids) > 0 {
			want[stored] = fmt.Sprint(ids)
		}
		fromView, err := v.Posting(stored)
		if err != nil {
			t.Fatal(err)
		}
		newest, err := s.Posting(stored)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := slices.Collect(fromView.All()), slices.Collect(newest.All()); !slices.Equal(a, ids) || !slices.Equal(b, ids) {
			t.Fatalf("posting %d: %v in a view, %v newest, not %v", stored, a, b, ids)
		}
		found, err := s.ContainsLive(0, stored)
		if err != nil || found != (len(ids) > 0) {
			t.Fatalf("table 0 contains %d: %v, %v", stored, found, err)
		}
	}
	got := map[uint64]string{}
	for p, err := range v.Postings(0) {
		if err != nil {
			t.Fatal(err)
		}
		if p.IDs.Empty() {
			continue
		}
		got[p.Stored] = fmt.Sprint(slices.Collect(p.IDs.All()))
	}
	if !maps.Equal(got, want) {
		t.Fatalf("postings %v, not %v", got, want)
	}
}

// TestEmptyPostingIsNone: a posting that merges to nothing, as a crash between
// formats or a foreign writer may leave it, is not seen.
func TestEmptyPostingIsNone(t *testing.T) {
	s := openMem(t)
	b := s.NewBatch()
	b.ChangePosting(5, NewIDs(1), IDs{})
	b.ChangePosting(5, IDs{}, NewIDs(1))
	apply(t, s, b, false)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for p, err := range v.Postings(0) {
		if err != nil || !p.IDs.Empty() {
			t.Errorf("posting %v, %v", p, err)
		}
	}
	if ids, err := v.Posting(5); ids.Len() != 0 || err != nil {
		t.Errorf("posting 5: %v, %v", ids, err)
	}
}

// TestDamagedPostingIsReported writes what no commit would.
func TestDamagedPostingIsReported(t *testing.T) {
	s := openMem(t)
	key := tableKey(tableKeyspace, 0, 5)
	if err := s.db.Set(key, []byte{0x01, 0}, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	v, err := s.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Posting(5); !errors.Is(err, ErrCorrupt) {
		t.Errorf("View.Posting: %v", err)
	}
	if _, err := s.Posting(5); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Store.Posting: %v", err)
	}
	for _, err := range v.Postings(0) {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("View.Postings: %v", err)
		}
	}
}
