package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
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
