package compaction_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
)

// state is all that can be seen of an index, kept apart from it by the test.
type state struct {
	name       string
	none       bool // there is no index
	docs       map[uint64]index.Document
	next       uint64 // the ID of the next document
	generation uint64
	plan       string // "": any
	live       bool   // something was written since the tables were packed
}

func (s state) clone() state {
	s.docs = maps.Clone(s.docs)
	return s
}

// packed is what compaction makes of a state.
func (s state) packed(name string) state {
	s = s.clone()
	if s.live || s.generation == 0 {
		s.generation++
	}
	s.name, s.live = name, false
	return s
}

// add stores a document under the next ID, in the place of the one with its key.
func (s *state) add(d index.Document) {
	s.remove(d.Key)
	d.ID = s.next
	s.docs[s.next] = d
	s.next++
}

func (s *state) remove(key string) {
	maps.DeleteFunc(s.docs, func(_ uint64, d index.Document) bool { return key != "" && d.Key == key })
}

// differs says in what the two states differ; "" if in nothing. A time of arrival that
// is not known to s may be any.
func (s *state) differs(got *state) string {
	for id, want := range s.docs {
		d, found := got.docs[id]
		if !found {
			return fmt.Sprintf("document %d is missing", id)
		}
		if want.Added.IsZero() && !d.Added.IsZero() {
			d.Added = want.Added
		}
		if d != want {
			return fmt.Sprintf("document %+v, not %+v", d, want)
		}
	}
	for id, d := range got.docs {
		if _, found := s.docs[id]; !found {
			return fmt.Sprintf("document %+v should not be there", d)
		}
	}
	if s.next != got.next || s.generation != got.generation || s.plan != "" && s.plan != got.plan {
		return fmt.Sprintf("next ID %d, generation %d, plan %q, not %d, %d, %q", got.next, got.generation, got.plan, s.next, s.generation, s.plan)
	}
	return ""
}

// which opens the index for writing, finds out in which of the states it is, and
// checks every way to look at it. Nothing else may be left in its folder.
func which(fsys vfs.FS, states []state, r *rand.Rand) (*state, error) {
	found, err := look(fsys, states, r, index.Options{FS: fsys, MustExist: true})
	if err != nil || found.none {
		return found, err
	}
	if _, err := fsys.Stat("ix/incoming"); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the folder incoming is still there: %v", err)
	}
	return found, checkStored(fsys, found)
}

// look does which, with an index open as opts say, and leaves everything as it is.
func look(fsys vfs.FS, states []state, r *rand.Rand, opts index.Options) (found *state, err error) {
	x, err := index.Open("ix", &opts)
	if errors.Is(err, fs.ErrNotExist) && states[0].none {
		return &states[0], nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	got, err := read(x)
	if err != nil {
		return nil, err
	}
	var differences strings.Builder
	for i := range states {
		if states[i].none {
			continue
		}
		difference := states[i].differs(got)
		if difference == "" {
			return &states[i], checkQueries(x, got, r)
		}
		fmt.Fprintf(&differences, "\n  from %s: %s", states[i].name, difference)
	}
	return nil, fmt.Errorf("an index that differs%s", &differences)
}

func read(x *index.Index) (*state, error) {
	for p := range x.Verify(context.Background()) {
		return nil, fmt.Errorf("verify: %v", p)
	}
	s := x.Stats()
	got := &state{docs: make(map[uint64]index.Document), next: s.NextID, generation: s.Generation, plan: s.Plan}
	for d, err := range x.Documents(context.Background()) {
		if err != nil {
			return nil, err
		}
		if _, twice := got.docs[d.ID]; twice || d.Added.IsZero() {
			return nil, fmt.Errorf("document %+v comes twice or has no time of arrival", d)
		}
		got.docs[d.ID] = d
	}
	if s.Documents != uint64(len(got.docs)) {
		return nil, fmt.Errorf("%d documents by the counters, %d there", s.Documents, len(got.docs))
	}
	return got, nil
}

// maxChecked bounds the documents and queries that are checked one by one.
const maxChecked = 40

// checkQueries compares Get and Query with the documents.
func checkQueries(x *index.Index, s *state, r *rand.Rand) error {
	ctx := context.Background()
	left := maxChecked
	for _, d := range s.docs { // in no order
		if left--; left < 0 {
			break
		}
		if d.Key != "" {
			if got, found, err := x.Get(ctx, d.Key); err != nil || !found || got != d {
				return fmt.Errorf("key %q: %+v, %t, %v; want %+v", d.Key, got, found, err, d)
			}
		}
		fp := d.Fingerprint
		for range r.IntN(4) {
			fp ^= 1 << r.IntN(64)
		}
		got, err := x.Query(ctx, fp, index.InScope(d.Scope))
		if err != nil {
			return err
		}
		if want := s.near(fp, d.Scope, x.Plan().MaxDistance); !slices.Equal(got, want) {
			return fmt.Errorf("query %s in scope %q: %+v, not %+v", fp, d.Scope, got, want)
		}
	}
	stored := make(map[string]bool)
	for _, d := range s.docs {
		stored[d.Key] = true
	}
	for i := range keyNames {
		key := keyName(i)
		if _, found, err := x.Get(ctx, key); err != nil || found != stored[key] {
			return fmt.Errorf("key %q: stored %t, found %t, %v", key, stored[key], found, err)
		}
	}
	return nil
}

// near is a query by brute force.
func (s *state) near(fp fingerprint.Fingerprint, scope string, k int) (matches []index.Match) {
	for _, d := range s.docs {
		if distance := d.Fingerprint.Distance(fp); d.Scope == scope && distance <= k {
			matches = append(matches, index.Match{Document: d, Distance: distance})
		}
	}
	slices.SortFunc(matches, func(a, b index.Match) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.ID, b.ID))
	})
	return matches
}

// checkStored compares the tables, postings, records and keys with the documents.
func checkStored(fsys vfs.FS, want *state) (err error) {
	s, err := store.Open("ix", store.Options{FS: fsys})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	plan, err := plan.Parse(s.Header().Plan)
	if err != nil {
		return err
	}
	v, err := s.View()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()

	postings, keys, records := make(map[uint64][]uint64), make(map[uint64][]uint64), 0
	for _, id := range slices.Sorted(maps.Keys(want.docs)) {
		d := want.docs[id]
		stored := store.Stored(uint64(d.Fingerprint), d.Scope)
		postings[stored] = append(postings[stored], id)
		if d.Key != "" {
			keys[store.KeyHash(d.Key)] = append(keys[store.KeyHash(d.Key)], id)
		}
		if d.Key != "" || d.Scope != "" || d.Shingle != 0 || d.Tokens != 0 {
			records++
		}
	}
	var stored []uint64
	for p, err := range v.Postings(0) {
		got := slices.Collect(p.IDs.All())
		if err != nil || !slices.Equal(got, postings[p.Stored]) || len(got) == 0 && !want.live {
			return fmt.Errorf("posting %016x: %v, %v; want %v", p.Stored, got, err, postings[p.Stored])
		}
		stored = append(stored, p.Stored)
		delete(postings, p.Stored)
	}
	if len(postings) > 0 {
		return fmt.Errorf("%d fingerprints are missing", len(postings))
	}
	for i := range plan.Tables {
		if err := checkTable(v, &plan.Tables[i], i, stored); err != nil {
			return fmt.Errorf("table %d: %w", i, err)
		}
	}
	for r, err := range v.Records(0) {
		if _, found := want.docs[r.ID]; err != nil || !found {
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
func checkTable(v *store.View, t *plan.Table, number int, stored []uint64) error {
	var want, got []uint64
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
	if number == 0 {
		got = slices.Compact(got) // what is packed may have a live change as well
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%d entries, not %d, or others", len(got), len(want))
	}
	return nil
}

const keyNames = 150

func keyName(i int) string { return fmt.Sprintf("http://a.example/%d", i) }

// draw makes documents of every kind: some of them near to each other, some equal,
// with keys that come again, scopes, second fingerprints, and nothing of it.
func draw(r *rand.Rand, n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		d := &docs[i]
		d.Fingerprint = fingerprint.Fingerprint(r.Uint64N(60) * 0x9e3779b97f4a7c15)
		for range r.IntN(4) {
			d.Fingerprint ^= 1 << r.IntN(64)
		}
		if r.IntN(4) == 0 {
			continue
		}
		if r.IntN(4) > 0 {
			d.Key = keyName(r.IntN(keyNames))
		}
		if r.IntN(3) == 0 {
			d.Scope = []string{"a.example", "b.example"}[r.IntN(2)]
		}
		if r.IntN(3) == 0 {
			d.Shingle = fingerprint.Fingerprint(r.Uint64())
		}
		if r.IntN(3) == 0 {
			d.Tokens = 100 + 20*r.IntN(4)
		}
	}
	return docs
}

// session opens the index, lets do change it and the state, and closes it.
func session(t *testing.T, fsys vfs.FS, s *state, do func(*index.Index)) {
	t.Helper()
	x, err := index.Open("ix", &index.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	do(x)
	got, err := read(x)
	if err != nil {
		t.Fatal(err)
	}
	for id, d := range s.docs {
		d.Added = got.docs[id].Added
		s.docs[id] = d
	}
	s.plan, s.live = got.plan, true
	if difference := s.differs(got); difference != "" {
		t.Fatal(difference)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// addAll adds documents in one call, in which the last of a key counts.
func addAll(t *testing.T, x *index.Index, s *state, docs []index.Document) {
	t.Helper()
	last := make(map[string]int)
	for i := range docs {
		last[docs[i].Key] = i
	}
	var once []index.Document
	for i, d := range docs {
		if d.Key == "" || last[d.Key] == i {
			once = append(once, d)
		}
	}
	for _, d := range once {
		s.add(d)
	}
	if err := x.Add(context.Background(), docs...); err != nil {
		t.Fatal(err)
	}
}

// makeUsed makes an index that has packed and live documents, of which some were
// replaced or deleted, and whose log on disk holds the last of them.
func makeUsed(t *testing.T, fsys vfs.FS, r *rand.Rand) state {
	t.Helper()
	s := state{name: "before", docs: make(map[uint64]index.Document), next: 1}
	change := func(x *index.Index) {
		for range 3 {
			addAll(t, x, &s, draw(r, 60))
		}
		keys := make([]string, 20)
		for i := range keys {
			keys[i] = keyName(r.IntN(keyNames))
			s.remove(keys[i])
		}
		if _, err := x.Delete(context.Background(), keys...); err != nil {
			t.Fatal(err)
		}
	}
	session(t, fsys, &s, change)
	if _, err := compaction.Run(context.Background(), "ix", compaction.Options{FS: fsys}); err != nil {
		t.Fatal(err)
	}
	s.generation, s.live = 1, false
	session(t, fsys, &s, change)
	return s
}
