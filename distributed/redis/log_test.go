package redis

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

func someEntry(r *rand.Rand) string {
	seq := 1 + r.Uint64N(8)
	switch r.IntN(10) {
	case 0:
		return logEntry(isFloor, seq/2, "")
	case 1, 2:
		return logEntry(isKilled, seq, "")
	case 3:
		return logEntry(isDropped, seq, "token")
	}
	d := someDocument(r)
	d.ID = seq
	return commitEntry(&d, r.Uint64N(9)*r.Uint64N(2))
}

func someDocument(r *rand.Rand) index.Document {
	docs := documents(r, 1)
	docs[0].Key, docs[0].Added = []string{"", "a", "b"}[r.IntN(3)],
		time.Unix(1_800_000_000, 0).UTC()
	return docs[0]
}

// FuzzReplay tests that any bytes are a log or an error. A sweep must not change the state of any
// document, whatever entries follow later.
func FuzzReplay(f *testing.F) {
	for seed := range uint64(2000) {
		r, logs := rand.New(rand.NewPCG(seed, 1)), [2]string{}
		for i := range logs {
			for range r.IntN(25) {
				logs[i] += someEntry(r)
			}
		}
		f.Add(logs[0], logs[1])
	}
	f.Add("\x00", "")
	f.Fuzz(func(t *testing.T, log, said string) {
		before, err := replay("key", log)
		if err == nil {
			rewritten, floor := before.rewritten(before.floor), before.floor
			var a *groupLog
			if a, err = replay("key", log+said); err == nil {
				b, err := replay("key", rewritten+said)
				must(t, err)
				sameStates(t, a, b, floor)
			}
		}
		if err != nil && !errors.Is(err, index.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

// sameStates compares a rewritten log with the original one. For dead documents up to the floor,
// the rewritten log does not name the document that replaced them.
func sameStates(t *testing.T, log, rewritten *groupLog, floor uint64) {
	for seq := range log.bySeq {
		a, b := log.state(seq), rewritten.state(seq)
		if b == nil || a.dead != b.dead || a.token != b.token && seq > floor ||
			!reflect.DeepEqual(log.record(seq), rewritten.record(seq)) {
			t.Fatalf("document %d: %+v, rewritten %+v", seq, a, b)
		}
		if key := a.doc.Key; log.earlier(key) != rewritten.earlier(key) {
			t.Fatalf("key %q has the record %d, rewritten %d", key, log.earlier(key),
				rewritten.earlier(key))
		}
	}
	if len(rewritten.bySeq) > len(log.bySeq) || len(rewritten.byKey) != len(log.byKey) {
		t.Fatalf("%d documents with %d keys, rewritten %d and %d", len(log.bySeq), len(log.byKey),
			len(rewritten.bySeq), len(rewritten.byKey))
	}
}

// TestLogsOfRecrawls tests that the log of a page that is crawled repeatedly stays short. Commits
// drop the records of dead documents, and after a minute also their other entries.
func TestLogsOfRecrawls(t *testing.T) {
	const recrawls = 1000
	for pace, inMinute := range map[time.Duration]int{time.Second / 100: recrawls,
		time.Second: 61} {
		f := &fake{keys: map[string]string{}, time: 1 << 40}
		x, clock := testIndex(f.run), time.Unix(1_800_000_000, 0)
		x.grace, x.longLog, x.now = time.Minute, 4<<10, func() time.Time { return clock }
		d := index.Document{Key: "https://example.org/" + strings.Repeat("a", 40)}
		key := x.name.group(x.groupOf(&d))
		for d.Fingerprint = range fingerprint.Fingerprint(recrawls + 2) {
			// much later, one crawl raises the floor, and one uses it
			if d.Fingerprint == recrawls {
				f.time, clock = f.time+120*ticksSecond, clock.Add(2*time.Minute)
			}
			v, err := checkedOne(t.Context(), x, d)
			if err != nil || v.Status == index.Duplicate || d.Fingerprint > 0 &&
				v.Of.Fingerprint != d.Fingerprint-1 {
				t.Fatalf("recrawl %d: %+v, %v", d.Fingerprint, v, err)
			}
			f.time, clock = f.time+uint64(pace.Seconds()*ticksSecond), clock.Add(pace)
			if n := len(f.keys[key]); n > x.longLog+16*inMinute+100 || d.Fingerprint > recrawls &&
				n > x.longLog+100 {
				t.Fatalf("a recrawl per %v, recrawl %d: a log of %d bytes", pace, d.Fingerprint, n)
			}
		}
	}
}

// TestBadLogs tests that invalid logs, and a floor above all sequence numbers, are errors that name
// a key. No call may retry forever.
func TestBadLogs(t *testing.T) {
	for log, says := range map[string]string{
		"hello world":                      `corrupt index: key "m:gU4RU": the entry at byte 0 of a log of `,
		logEntry(isKilled, 1, "") + "\x07": `: the entry at byte 8 of a log of `,
		logEntry(isFloor, 1<<47,
			""): `a log has floor 140737488355328, which is above the last sequence number: key "m:s" was lost`,
	} {
		d := index.Document{Fingerprint: 7}
		f := &fake{keys: map[string]string{}, time: 10_000}
		x := testIndex(f.run)
		key := x.name.group(x.groupOf(&d))
		f.keys[key] = log
		verdicts, err := x.CheckDocuments(t.Context(), []index.Document{d})
		if !errors.Is(err, index.ErrCorrupt) || !strings.Contains(err.Error(), says) ||
			len(verdicts) > 0 {
			t.Errorf("%q: %v, %v; want %q", log, verdicts, err, says)
		}
		if bad := strings.Contains(says, "entry"); bad && f.keys[key] != log {
			t.Errorf("%q is now %q", log, f.keys[key])
		}
	}
}
