package redis

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/index"
)

// What a sweep writes says the same of each document as what was there, whatever is said behind it.
func TestRewrittenLogs(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		log := ""
		for range r.IntN(30) {
			log += someEntry(r)
		}
		before, err := replay(log)
		must(t, err)
		rewritten := before.rewritten()
		for range 10 {
			said := someEntry(r)
			log, rewritten = log+said, rewritten+said
			a, err := replay(log)
			must(t, err)
			b, err := replay(rewritten)
			must(t, err)
			for seq := range uint64(9) {
				x, y := a.state(seq), b.state(seq)
				if (x == nil) != (y == nil) || x != nil && x.dead != y.dead || !reflect.DeepEqual(a.record(seq), b.record(seq)) {
					t.Fatalf("seed %d, document %d: %+v, rewritten %+v", seed, seq, x, y)
				}
			}
			if a.earlier("a") != b.earlier("a") || a.earlier("b") != b.earlier("b") {
				t.Fatalf("seed %d: other earlier selves", seed)
			}
		}
	}
}

func someEntry(r *rand.Rand) string {
	seq := 1 + r.Uint64N(8)
	switch r.IntN(10) {
	case 0:
		return floorEntry(seq / 2)
	case 1, 2:
		return killEntry(seq)
	case 3:
		return dropEntry(seq, "token")
	}
	d := someDocument(r)
	d.ID = seq
	return commitEntry(&d, r.Uint64N(9)*r.Uint64N(2))
}

func someDocument(r *rand.Rand) index.Document {
	docs := documents(r, 1)
	docs[0].Key, docs[0].Added = []string{"", "a", "b"}[r.IntN(3)], time.Unix(1_800_000_000, 0).UTC()
	return docs[0]
}

// Any bytes are a log or an error; records come back as they went in.
func FuzzReplay(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	d := someDocument(r)
	d.ID, d.Scope, d.Shingle, d.Tokens = 5, "scope", 3, 400
	f.Add(commitEntry(&d, 0)+dropEntry(5, "token")+killEntry(6)+floorEntry(7), uint64(5))
	f.Add("\x00", uint64(1))
	f.Fuzz(func(t *testing.T, log string, seq uint64) {
		l, err := replay(log)
		if err != nil {
			if !errors.Is(err, index.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again, err := replay(l.rewritten()); err != nil || !reflect.DeepEqual(again.record(seq), l.record(seq)) {
			t.Fatalf("%v, rewritten %v: %v", l.record(seq), again.record(seq), err)
		}
	})
}

func TestRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(1000) {
		d := someDocument(r)
		d.ID = i + 1
		l, err := replay(commitEntry(&d, 0))
		must(t, err)
		if got := l.record(d.ID); got == nil || *got != d {
			t.Fatalf("%+v came back as %+v", d, got)
		}
	}
}

// A log of another use, and a floor that no number has reached, are errors that name a key; nothing is tried for ever.
func TestBadLogs(t *testing.T) {
	for log, says := range map[string]string{
		"hello world":         `key "m:gU4RU": corrupt index: the entry at byte 0 of a log of `,
		killEntry(1) + "\x07": `: the entry at byte 8 of a log of `,
		floorEntry(1 << 47):   `a log has floor 140737488355328, which no number of key "m:s" has reached`,
	} {
		d := index.Document{Fingerprint: 7}
		f := &fake{keys: map[string]string{}, time: 10_000}
		x := testIndex(f)
		f.keys[x.name.group(x.groupOf(&d))] = log
		verdicts, err := x.check(t.Context(), []index.Document{d})
		if !errors.Is(err, index.ErrCorrupt) || !strings.Contains(err.Error(), says) || len(verdicts) > 0 {
			t.Errorf("%q: %v, %v; want %q", log, verdicts, err, says)
		}
	}
}
