package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/indextest"
	"github.com/neardup/neardup/internal/plan"
	"github.com/neardup/neardup/internal/store"
)

// seen returns the state of an open index, which Verify finds whole.
func seen(x *index.Index) (*state, error) {
	if err := indextest.Problems(x); err != nil {
		return nil, err
	}
	docs, err := indextest.AllDocuments(x)
	if err != nil {
		return nil, err
	}
	stats := x.Stats()
	m := indextest.NewModel(indextest.RuleOf(index.Options{}, x.Plan().MaxDistance))
	m.Docs, m.NextID = docs, stats.NextID
	if stats.Documents != uint64(len(docs)) || stats.Bare != m.Bare() {
		return nil, fmt.Errorf("%d documents by the counters, %d of them bare, not %d, %d", stats.Documents, stats.Bare, len(docs), m.Bare())
	}
	return &state{Model: m, generation: stats.Generation, plan: stats.Plan}, nil
}

// which opens the index in a file system, finds out in which of the states it is, and
// checks answers of it. With deeply, nothing else may be left in its folder, and what is
// in its tables is looked at without package index.
func which(fsys vfs.FS, states []state, r *rand.Rand, opts index.Options, deeply bool) (found *state, err error) {
	opts.FS, opts.MustExist = fsys, true
	x, err := index.Open("ix", &opts)
	if errors.Is(err, fs.ErrNotExist) && states[0].none {
		return &states[0], nil
	}
	if err != nil {
		return nil, err
	}
	found, err = whichOf(x, states, r)
	if err = errors.Join(err, x.Close()); err != nil || !deeply {
		return found, err
	}
	if opts.ReadOnly { // then all is as the crash left it, and what sweeps up is yet to come
		opts.ReadOnly = false
		again, err := which(fsys, states, r, opts, deeply)
		if err == nil && again.name != found.name {
			err = fmt.Errorf("for reading it is from %s, for writing from %s", found.name, again.name)
		}
		return again, err
	}
	if _, err := fsys.Stat("ix/incoming"); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the folder incoming is still there: %v", err)
	}
	as := *found // where there are several, it may be another one that was frozen
	return &as, checkStored(fsys, &as)
}

// whichOf finds out in which of the states an open index is.
func whichOf(x *index.Index, states []state, r *rand.Rand) (*state, error) {
	got, err := seen(x)
	if err != nil {
		return nil, err
	}
	var differences strings.Builder
	for i := range states {
		if states[i].none {
			continue
		}
		diff := states[i].differs(got)
		if diff == "" {
			states[i].plan = got.plan
			return &states[i], checkAnswers(x, got.Model, r, 12)
		}
		fmt.Fprintf(&differences, "\n  from %s: %s", states[i].name, diff)
	}
	return nil, fmt.Errorf("an index that differs%s", &differences)
}

// checkAnswers asks for some documents, and for a quarter of all keys that there can be.
func checkAnswers(x *index.Index, m *indextest.Model, r *rand.Rand, queries int) error {
	for range min(len(m.Docs), queries) {
		like := m.Docs[r.IntN(len(m.Docs))]
		for range r.IntN(4) {
			like.Fingerprint ^= 1 << r.IntN(64)
		}
		if err := m.Query(x, like, m.Rule.MaxDistance, 0); err != nil {
			return err
		}
	}
	for i := r.IntN(4); i < keyNames; i += 4 {
		want, stored := m.Docs.Key(keyName(i))
		if got, found, err := x.Get(context.Background(), keyName(i)); err != nil || found != stored || got != want {
			return fmt.Errorf("key %q: stored %t, found %t, %v: %+v, not %+v", keyName(i), stored, found, err, got, want)
		}
	}
	return nil
}

// checkStored compares the tables, postings, records and keys with the documents, and notes whether an epoch is frozen.
func checkStored(fsys vfs.FS, want *state) (err error) {
	s, err := store.Open("ix", store.Options{FS: fsys})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p, err := plan.Parse(s.Header().Plan)
	if err != nil {
		return err
	}
	v, err := s.View()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()

	if frozen := v.Epochs() > 1; !frozen || !want.frozen {
		want.frozen, want.frozenDocs = frozen, want.Docs
	}
	postings, keys, records := make(map[uint64][]uint64), make(map[uint64][]uint64), len(want.Docs)-int(want.Bare())
	ids := make(map[uint64]bool, len(want.Docs))
	for _, d := range want.Docs {
		ids[d.ID] = true
		stored := store.Stored(uint64(d.Fingerprint), d.Scope)
		postings[stored] = append(postings[stored], d.ID)
		if d.Key != "" {
			keys[store.KeyHash(d.Key)] = append(keys[store.KeyHash(d.Key)], d.ID)
		}
	}
	var stored, empty []uint64
	for p, err := range v.Postings(0) {
		if got := slices.Collect(p.IDs.All()); err != nil || !slices.Equal(got, postings[p.Stored]) || len(got) == 0 && !want.live() && !want.unsure {
			return fmt.Errorf("posting %016x: %v, %v; want %v", p.Stored, got, err, postings[p.Stored])
		}
		if stored = append(stored, p.Stored); p.IDs.Empty() {
			empty = append(empty, p.Stored)
		}
		delete(postings, p.Stored)
	}
	if len(postings) > 0 {
		return fmt.Errorf("%d fingerprints are missing", len(postings))
	}
	for i := range p.Tables {
		if err := checkTable(v, &p.Tables[i], i, stored, empty, want.unsure); err != nil {
			return fmt.Errorf("table %d: %w", i, err)
		}
	}
	for r, err := range v.Records(0) {
		if !ids[r.ID] || err != nil {
			return fmt.Errorf("record of document %d, which is not there: %v", r.ID, err)
		}
		records--
	}
	if records != 0 {
		return fmt.Errorf("%d records are missing", records)
	}
	for hash, ids := range keys {
		if got, err := v.KeyIDs(hash); err != nil || !slices.Equal(slices.Collect(got.All()), ids) {
			return fmt.Errorf("key hash %016x: %v, %v; want %v", hash, slices.Collect(got.All()), err, ids)
		}
	}
	return nil
}

// checkTable compares what is live and packed in a table with what is stored.
func checkTable(v *store.View, t *plan.Table, number int, stored, empty []uint64, unsure bool) error {
	var want, got []uint64
	if unsure && number > 0 {
		stored = slices.DeleteFunc(slices.Clone(stored), func(fp uint64) bool { return slices.Contains(empty, fp) })
	}
	for _, fp := range stored {
		want = append(want, t.Permute(fp))
	}
	for b, err := range v.PackedBlocks(number, 0) {
		if err != nil {
			return err
		}
		got = b.AppendTo(got)
	}
	err := v.Scan(number, 0, ^uint64(0), func(permuted uint64) bool { got = append(got, permuted); return true })
	if err != nil {
		return err
	}
	slices.Sort(want)
	slices.Sort(got)
	// What is packed may have a live change as well, and a fingerprint that a frozen epoch has left no document may come again.
	got = slices.CompactFunc(got, func(a, b uint64) bool {
		return a == b && (number == 0 || unsure || v.Epochs() > 1 && settledEmpty(v, t.Invert(a)))
	})
	if unsure && number > 0 {
		got = slices.DeleteFunc(got, func(permuted uint64) bool { return slices.Contains(empty, t.Invert(permuted)) })
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%d entries, not %d, or others", len(got), len(want))
	}
	return nil
}

// settledEmpty reports whether what is packed and frozen leaves a fingerprint no document.
func settledEmpty(v *store.View, stored uint64) bool {
	ids, err := v.SettledPosting(stored)
	return err == nil && ids.Empty()
}
