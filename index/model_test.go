package index

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
	"pgregory.net/rapid"
)

// fixed stands for any time of arrival.
var fixed = time.Unix(1, 0)

// failer is what a *testing.T and a *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func openRapid(t *rapid.T, opts Options) *Index {
	t.Helper()
	if opts.FS == nil {
		opts.FS = vfs.NewMem()
	}
	x, err := Open("index", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// collidingKeys returns two different strings with the same xxhash64. Of the 64-byte
// input, each lane takes v = rotl(v + word*prime2, 31) * prime1 twice; what differs in
// the first word is made up for by the second one of its lane.
var collidingKeys = func() func() []string {
	const prime1, prime2 = 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f
	inverse := uint64(prime2) // of prime2, by Newton's iteration
	for range 6 {
		inverse *= 2 - prime2*inverse
	}
	lane := func(word uint64) uint64 {
		start := uint64(prime1)
		start += prime2
		return bits.RotateLeft64(start+word*prime2, 31) * prime1
	}
	a, b := make([]byte, 64), make([]byte, 64)
	binary.LittleEndian.PutUint64(b, 1)
	binary.LittleEndian.PutUint64(b[32:], (lane(0)-lane(1))*inverse)
	return func() []string { return []string{string(a), string(b)} }
}()

func TestCollidingKeysCollide(t *testing.T) {
	keys := collidingKeys()
	if keys[0] == keys[1] || xxhash.Sum64String(keys[0]) != xxhash.Sum64String(keys[1]) {
		t.Errorf("%x and %x", xxhash.Sum64String(keys[0]), xxhash.Sum64String(keys[1]))
	}
}

// checkInvariants compares everything that is stored with the documents that should
// be: counters, Documents, Get, the entries of every table, records, keys, postings.
func checkInvariants(t failer, x *Index, docs []Document, last uint64) {
	t.Helper()
	ctx := context.Background()
	postings, byID := map[uint64][]uint64{}, map[uint64]Document{}
	bare, keys := 0, map[uint64][]uint64{}
	for _, d := range docs {
		postings[storedOf(&d)] = append(postings[storedOf(&d)], d.ID)
		d.Added = fixed
		byID[d.ID] = d
		if recordOf(&d).Bare() {
			bare++
		}
		if d.Key != "" {
			keys[store.KeyHash(d.Key)] = append(keys[store.KeyHash(d.Key)], d.ID)
		}
	}
	stats := x.Stats()
	if stats.Documents != uint64(len(docs)) || stats.Bare != uint64(bare) || stats.NextID != last+1 {
		t.Fatalf("%+v for %d documents, %d bare, the last of them %d", stats, len(docs), bare, last)
	}
	got := map[uint64]Document{}
	for d, err := range x.Documents(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Added.IsZero() {
			t.Fatalf("no time of arrival: %+v", d)
		}
		d.Added = fixed
		if _, twice := got[d.ID]; twice {
			t.Fatalf("document %d comes twice", d.ID)
		}
		got[d.ID] = d
	}
	if !maps.Equal(got, byID) {
		t.Fatalf("documents %v, not %v", got, byID)
	}
	checkTables(t, x, postings)
	checkVerified(t, x)
	v, err := x.store.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	records := 0
	for r, err := range v.Records(0) {
		if err != nil {
			t.Fatal(err)
		}
		d, there := byID[r.ID]
		if !there || recordOf(&d) != r.Record || r.Bare() {
			t.Fatalf("record %+v, of document %+v", r, d)
		}
		records++
	}
	if records != len(docs)-bare {
		t.Fatalf("%d records of %d documents, %d bare", records, len(docs), bare)
	}
	for hash, want := range keys {
		ids, err := v.KeyIDs(hash)
		slices.Sort(want)
		if err != nil || !slices.Equal(slices.Collect(ids.All()), want) {
			t.Fatalf("key %016x: %v, %v, not %v", hash, slices.Collect(ids.All()), err, want)
		}
	}
	for d := range maps.Values(byID) {
		checkFound(t, x, d)
	}
}

// checkTables scans every table whole: it holds the stored fingerprints and no other.
func checkTables(t failer, x *Index, postings map[uint64][]uint64) {
	t.Helper()
	v, err := x.store.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for i := range len(x.plan.Tables) + 1 { // and no table beyond the last
		n := 0
		want, invert := 0, (*plan.Table)(nil).Invert
		if i < len(x.plan.Tables) {
			want, invert = len(postings), x.plan.Tables[i].Invert
		}
		err := v.Scan(i, 0, ^uint64(0), func(permuted uint64) bool {
			n++
			if _, stored := postings[invert(permuted)]; !stored {
				t.Fatalf("table %d has %016x, which is not stored", i, permuted)
			}
			return true
		})
		if err != nil || n != want {
			t.Fatalf("table %d has %d entries, not %d: %v", i, n, want, err)
		}
	}
	n := 0
	for p, err := range v.Postings(0) {
		want := postings[p.Stored]
		slices.Sort(want)
		if got := slices.Collect(p.IDs.All()); err != nil || !slices.Equal(got, want) {
			t.Fatalf("posting %016x: %v, %v, not %v", p.Stored, got, err, want)
		}
		n++
	}
	if n != len(postings) {
		t.Fatalf("%d postings, not %d", n, len(postings))
	}
}

// checkFound looks a document up by its key and by its own fingerprint.
func checkFound(t failer, x *Index, d Document) {
	t.Helper()
	ctx := context.Background()
	if d.Key != "" {
		got, found, err := x.Get(ctx, d.Key)
		got.Added = fixed
		if err != nil || !found || got != d {
			t.Fatalf("key %q: %+v, %v, %v, not %+v", d.Key, got, found, err, d)
		}
	}
	matches, err := x.Query(ctx, d.Fingerprint, MaxDistance(0), InScope(d.Scope))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range matches {
		m.Added = fixed
		if m.ID == d.ID && m.Document == d && m.Distance == 0 {
			return
		}
	}
	t.Fatalf("%+v is not among %+v", d, matches)
}

// machine runs random operations on an index in a file system that can crash, and on
// the model.
type machine struct {
	x       *Index
	opts    Options
	fs      *vfs.MemFS
	model   checker
	history []snapshot // the states since all was durable, each of which a crash may leave
}

type snapshot struct {
	docs []Document
	next uint64
}

func (m *machine) note() {
	s := snapshot{slices.Clone(m.model.docs), m.model.next}
	if m.opts.Durability == Sync {
		m.history = m.history[:0]
	}
	m.history = append(m.history, s)
}

func (m *machine) open(t *rapid.T) {
	m.opts.FS = m.fs
	x, err := Open("index", &m.opts)
	if err != nil {
		t.Fatal(err)
	}
	m.x = x
}

func (m *machine) add(t *rapid.T) {
	docs := make([]Document, rapid.IntRange(0, 6).Draw(t, "documents"))
	last := map[string]int{}
	for i := range docs {
		docs[i] = drawDocument(t)
		last[docs[i].Key] = i
	}
	if err := m.x.Add(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	for i := range docs {
		d := &docs[i]
		if d.Key != "" && last[d.Key] != i {
			if d.ID != docs[last[d.Key]].ID {
				t.Fatalf("document %d has ID %d, not that of the last of its key", i, d.ID)
			}
			continue
		}
		m.model.next++
		if d.ID != m.model.next {
			t.Fatalf("document %d has ID %d, not %d", i, d.ID, m.model.next)
		}
		if d.Key != "" {
			m.model.docs = slices.DeleteFunc(m.model.docs, func(old Document) bool { return old.Key == d.Key })
		}
		m.model.docs = append(m.model.docs, *d)
	}
}

func (m *machine) checkAndAdd(t *rapid.T) {
	d := drawDocument(t)
	v, err := m.x.CheckAndAdd(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if want := m.model.checkAndAdd(d); withoutTimes(v) != withoutTimes(want) {
		t.Fatalf("%+v:\n%+v, not\n%+v", d, v, want)
	}
}

func (m *machine) checkAndAddBatch(t *rapid.T) {
	docs := make([]Document, rapid.IntRange(0, 8).Draw(t, "documents"))
	for i := range docs {
		docs[i] = drawDocument(t)
	}
	verdicts, err := m.x.CheckAndAddBatch(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if want := m.model.checkAndAdd(docs[i]); withoutTimes(v) != withoutTimes(want) {
			t.Fatalf("%+v:\n%+v, not\n%+v", docs[i], v, want)
		}
	}
}

func (m *machine) delete(t *rapid.T) {
	keys := rapid.SliceOfN(rapid.SampledFrom(append(collidingKeys(), "", "a", "b", "c", "d", "nobody's")), 0, 5).Draw(t, "keys")
	before := len(m.model.docs)
	m.model.docs = slices.DeleteFunc(m.model.docs, func(d Document) bool { return d.Key != "" && slices.Contains(keys, d.Key) })
	n, err := m.x.Delete(t.Context(), keys...)
	if err != nil || n != before-len(m.model.docs) {
		t.Fatalf("deleted %d of %d: %v", n, before-len(m.model.docs), err)
	}
}

// deleteBefore expires all documents or none: they are of about the same second.
func (m *machine) deleteBefore(t *rapid.T) {
	at := time.Now().Add(-time.Hour)
	want := 0
	if rapid.Bool().Draw(t, "all") {
		at, want = time.Now().Add(time.Hour), len(m.model.docs)
		m.model.docs = nil
	}
	if n, err := m.x.DeleteBefore(t.Context(), at); err != nil || n != want {
		t.Fatalf("expired %d of %d: %v", n, want, err)
	}
}

func (m *machine) query(t *rapid.T) {
	like := drawDocument(t)
	k, limit := rapid.IntRange(0, m.model.k).Draw(t, "k"), rapid.IntRange(0, 4).Draw(t, "limit")
	opts := []QueryOption{MaxDistance(k), Limit(limit), InScope(like.Scope)}
	rule := m.model // with the limits of the query
	if rapid.Bool().Draw(t, "with its Shingle") {
		opts = append(opts, Shingle(like.Shingle))
		if rapid.Bool().Draw(t, "another limit") {
			limit := rapid.SampledFrom([]int{0, 13, 15, -1}).Draw(t, "limit of Shingles")
			opts = append(opts, MaxShingleDistance(limit))
			if limit != 0 {
				rule.shingle = limit
			}
		}
	} else {
		like.Shingle = 0
	}
	if rapid.Bool().Draw(t, "with its length") {
		opts = append(opts, Tokens(like.Tokens))
		if rapid.Bool().Draw(t, "another ratio") {
			ratio := rapid.SampledFrom(lengthRatios[1:]).Draw(t, "ratio of lengths")
			opts = append(opts, MaxLengthRatio(ratio))
			if ratio != 0 {
				rule.ratio = ratio
			}
		}
	} else {
		like.Tokens = 0
	}
	matches, err := m.x.Query(t.Context(), like.Fingerprint, opts...)
	if err != nil {
		t.Fatal(err)
	}
	var want []answer
	for _, d := range m.model.docs {
		distance := d.Fingerprint.Distance(like.Fingerprint)
		if d.Scope == like.Scope && distance <= k && rule.matches(&d, &like) {
			want = append(want, answer{d.ID, distance})
		}
	}
	sortAnswers(want)
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	if got := answersOf(matches); !slices.Equal(got, want) {
		t.Fatalf("%+v within %d, limit %d: %s", like, k, limit, difference(got, want))
	}
}

func (m *machine) sync(t *rapid.T) {
	if err := m.x.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.history = m.history[:0]
}

func (m *machine) reopen(t *rapid.T) {
	if err := m.x.Close(); err != nil {
		t.Fatal(err)
	}
	m.history = m.history[:0]
	m.open(t)
}

// crash goes on from what is synced. With NoSync that is any one of the states since
// the last sync; which one, the counters tell.
func (m *machine) crash(t *rapid.T) {
	clone := m.fs.CrashClone(vfs.CrashCloneCfg{})
	if err := m.x.Close(); err != nil {
		t.Fatal(err)
	}
	m.fs = clone
	m.open(t)
	stats := m.x.Stats()
	for i := len(m.history) - 1; i >= 0; i-- {
		s := m.history[i]
		if s.next+1 == stats.NextID && uint64(len(s.docs)) == stats.Documents && m.has(t, s.docs) {
			m.model.docs, m.model.next = slices.Clone(s.docs), s.next
			m.history = []snapshot{s}
			return
		}
	}
	t.Fatalf("after a crash there is %+v, which is no state since the last sync", stats)
}

func (m *machine) has(t *rapid.T, docs []Document) bool {
	ids := map[uint64]bool{}
	for d, err := range m.x.Documents(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids[d.ID] = true
	}
	for _, d := range docs {
		if !ids[d.ID] {
			return false
		}
	}
	return true
}

var modelPlans = append([]string{"k=0 0-63/64", "k=1 0-63/32 32-63,0-31/32"}, radiusPlans...)

func TestIndexIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := plan.Parse(rapid.SampledFrom(modelPlans).Draw(t, "plan"))
		if rapid.Bool().Draw(t, "a design") {
			p, err = plan.Named(rapid.SampledFrom(numbered).Draw(t, "design"), rapid.IntRange(0, 4).Draw(t, "k"))
		}
		if err != nil {
			t.Fatal(err)
		}
		m := &machine{fs: vfs.NewCrashableMem()}
		m.opts.Plan, m.opts.KeepDuplicates = p, rapid.Bool().Draw(t, "keep duplicates")
		m.opts.Durability = rapid.SampledFrom([]Durability{Sync, NoSync}).Draw(t, "durability")
		m.opts.MaxShingleDistance = rapid.SampledFrom(shingleLimits).Draw(t, "shingle limit")
		m.opts.MaxLengthRatio = rapid.SampledFrom(lengthRatios).Draw(t, "length ratio")
		m.model = checker{k: p.MaxDistance, shingle: m.opts.MaxShingleDistance, ratio: m.opts.MaxLengthRatio, keep: m.opts.KeepDuplicates}
		m.open(t)
		defer func() { m.x.Close() }()
		m.history = []snapshot{{}}
		steps := map[string]func(*rapid.T){
			"Add": m.add, "CheckAndAdd": m.checkAndAdd, "CheckAndAddBatch": m.checkAndAddBatch,
			"Delete": m.delete, "DeleteBefore": m.deleteBefore, "Query": m.query,
			"Sync": m.sync, "reopen": m.reopen, "crash": m.crash,
		}
		names := slices.Sorted(maps.Keys(steps))
		names = append(names, "Add", "CheckAndAdd", "CheckAndAddBatch", "Delete", "Query", "Query")
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			steps[rapid.SampledFrom(names).Draw(t, "step")](t)
			m.note()
			checkInvariants(t, m.x, m.model.docs, m.model.next)
		}
	})
}

// TestScopesOfOneHash: scopes that hash alike share their stored fingerprints, and
// still never see each other.
func TestScopesOfOneHash(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{})
	scopes := append(collidingKeys(), "")
	for i := range 300 {
		for _, scope := range scopes {
			v, err := x.CheckAndAdd(ctx, Document{Scope: scope, Fingerprint: fingerprint.Fingerprint(i) << 20})
			if err != nil {
				t.Fatal(err)
			}
			if (v.Status == Duplicate) != (v.Of.ID != 0) || v.Of.ID != 0 && v.Of.Scope != scope {
				t.Fatalf("%+v", v)
			}
		}
	}
	var want []answer
	for _, scope := range scopes {
		matches, err := x.Query(ctx, 0, InScope(scope), Limit(2))
		if err != nil {
			t.Fatal(err)
		}
		got := answersOf(matches)
		for i := range got {
			got[i].id = 0
		}
		if want == nil {
			want = got
		}
		if len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("scope %x: %v, not %v", scope, got, want)
		}
	}
}

// TestPlantedDamageIsFound shows that checkInvariants can fail: each damage that a
// lost or doubled write would do is told.
func TestPlantedDamageIsFound(t *testing.T) {
	for what, plant := range map[string]func(*store.Batch, *Index, Document){
		"a missing entry": func(b *store.Batch, x *Index, d Document) {
			b.DeleteEntry(1, x.plan.Tables[1].Permute(storedOf(&d)))
		},
		"an entry too many": func(b *store.Batch, _ *Index, _ Document) { b.SetEntry(2, 12345) },
		"a missing posting": func(b *store.Batch, _ *Index, d Document) { b.DeletePosting(storedOf(&d)) },
		"an ID too many": func(b *store.Batch, _ *Index, d Document) {
			b.ChangePosting(storedOf(&d), store.NewIDs(99), store.IDs{})
		},
		"a missing record":  func(b *store.Batch, _ *Index, d Document) { b.DeleteRecord(d.ID) },
		"a record too many": func(b *store.Batch, _ *Index, _ Document) { b.SetRecord(99, store.Record{Key: "x"}) },
		"a missing key":     func(b *store.Batch, _ *Index, d Document) { b.SetKeyIDs(store.KeyHash(d.Key), store.IDs{}) },
	} {
		x := openMem(t, Options{Plan: mustPlan(t, "4", 3)})
		d := Document{Key: "key", Fingerprint: 0x0123456789abcdef}
		docs := []Document{d}
		if err := x.Add(context.Background(), docs...); err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, x, docs, 1)
		b := x.store.NewBatch()
		plant(b, x, docs[0])
		finish, err := x.store.Apply(b, false)
		if err == nil {
			err = finish()
		}
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{}
		func() {
			defer func() { recover() }()
			checkInvariants(r, x, docs, 1)
		}()
		if r.said == "" {
			t.Errorf("%s is not found", what)
		}
	}
}

// recorder is a failer that stops at the first failure.
type recorder struct{ said string }

func (r *recorder) Helper()                      {}
func (r *recorder) Fatal(args ...any)            { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatalf(f string, args ...any) { r.said = fmt.Sprintf(f, args...); panic(r) }
