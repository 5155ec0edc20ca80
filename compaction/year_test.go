package compaction_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/indextest"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// A year is a crawler on some hosts, day by day of a simulated clock, with an index that is compacted and expires in
// the background. Every answer is compared with a model of its host.
type year struct {
	t      *testing.T
	seed   uint64
	r      *rand.Rand
	expiry index.Expiry
	x      *index.Index
	w      *compaction.Watcher
	now    atomic.Int64 // Unix
	nextID uint64
	hosts  []*host
	months []month
}

// host is a scope of its own: hosts do not meet, so that a model need not be large.
type host struct {
	scope string
	model *indextest.Model
	pages []*hostPage
	named int
}

type hostPage struct {
	index.Document     // as it was last crawled
	due            int // the day of the next crawl
}

// month has the most that there was at the end of any of its days.
type month struct{ documents, disk, memory uint64 }

const (
	day         = 24 * time.Hour
	daysOfYear  = 365
	daysOfMonth = 30
	hostPages   = 100 // that a host has at a time
)

// TestYear: neither documents nor disk nor memory grow after the first months, in which the index fills, for all the
// recrawls of a year.
func TestYear(t *testing.T) {
	hosts := testenv.Number(1, 1, 5, 30)
	for name, e := range map[string]index.Expiry{
		"MaxAge":       {MaxAge: daysOfMonth*day - day/2},
		"MaxDocuments": {MaxDocuments: uint64(hosts * hostPages)},
	} {
		t.Run(name, func(t *testing.T) {
			if !testenv.Long() {
				t.Parallel()
			}
			y := &year{t: t, seed: testenv.Seed(t), expiry: e, nextID: 1}
			y.r = rand.New(rand.NewPCG(y.seed, 365))
			y.run(hosts)
		})
	}
}

func (y *year) run(hosts int) {
	opts := &index.Options{CacheBytes: 16 << 20, Durability: index.NoSync, Now: y.clock}
	var err error
	if y.x, err = index.Open(y.t.TempDir(), opts); err != nil {
		y.t.Fatal(err)
	}
	defer y.x.Close()
	y.w = watch(y.t, y.t.Context(), y.x, compaction.Policy{AtLeast: uint64(100 * hosts), Every: time.Millisecond, Expiry: index.Expiry{MaxAge: y.expiry.MaxAge}})
	defer y.w.Close()
	for n := range hosts {
		h := &host{scope: fmt.Sprint("host", n), model: indextest.NewModel(indextest.RuleOf(*opts, 3))}
		for range hostPages {
			y.open(h, 0)
		}
		y.hosts = append(y.hosts, h)
	}
	days := daysOfYear
	if testenv.Race {
		days /= 3
	}
	for today := range days {
		y.now.Store(time.Date(2026, 1, 1+today, 0, 0, 0, 0, time.UTC).Unix())
		y.expire()
		if today%daysOfMonth == 0 {
			y.compare()
			y.months = append(y.months, month{})
		}
		for _, h := range y.hosts {
			y.crawl(h, today)
		}
		y.sample()
	}
	y.expire()
	y.compare()
	y.judge()
}

func (y *year) clock() time.Time { return time.Unix(y.now.Load(), 0).UTC() }

// open makes a new page of a host; one in ten is nearly as another one there.
func (y *year) open(h *host, today int) {
	h.named++
	p := &hostPage{due: today + y.r.IntN(5)}
	p.Key, p.Scope = fmt.Sprintf("http://%s.example/%d", h.scope, h.named), h.scope
	p.Fingerprint, p.Shingles = fingerprint.Fingerprint(y.r.Uint64()), fingerprint.ShingleSignature{y.r.Uint64(), y.r.Uint64(), y.r.Uint64(), y.r.Uint64()}
	if len(h.pages) > 0 && y.r.IntN(10) == 0 {
		of := h.pages[y.r.IntN(len(h.pages))]
		p.Fingerprint, p.Shingles = of.Fingerprint^1<<y.r.IntN(64), of.Shingles
	}
	h.pages = append(h.pages, p)
}

// crawl checks the pages of a host that are due. Some have changed, and some are gone for good, others in their place.
func (y *year) crawl(h *host, today int) {
	var docs []index.Document
	for i, p := range h.pages {
		if p.due > today {
			continue
		}
		switch y.r.IntN(20) {
		case 0:
			h.pages[i] = h.pages[len(h.pages)-1]
			h.pages = h.pages[:len(h.pages)-1]
			y.open(h, today+1)
			continue
		case 1, 2:
			p.Fingerprint ^= 1 << y.r.IntN(64)
		case 3:
			p.Fingerprint, p.Shingles = fingerprint.Fingerprint(y.r.Uint64()), fingerprint.ShingleSignature{y.r.Uint64(), y.r.Uint64(), y.r.Uint64(), y.r.Uint64()}
		}
		p.due = today + 1 + y.r.IntN(5)
		docs = append(docs, p.Document)
	}
	verdicts, err := y.x.CheckAndAddBatch(y.t.Context(), docs)
	if err != nil {
		y.t.Fatal(err)
	}
	h.model.Now = y.clock()
	var want []index.Verdict
	for _, d := range docs {
		h.model.NextID = y.nextID
		want = append(want, h.model.CheckAndAdd(d))
		y.nextID = h.model.NextID
	}
	if diff := indextest.Difference(verdicts, want); diff != "" {
		y.t.Fatalf("seed %d, day %d: %s", y.seed, today, diff)
	}
}

// expire sees to it that what is over its bounds at the begin of a day is gone. What is too old the Watcher takes: nothing
// is within the last hundredth of MaxAge then.
func (y *year) expire() {
	left := 0
	for _, h := range y.hosts {
		if y.expiry.MaxAge > 0 {
			h.model.DeleteBefore(y.clock().Add(-y.expiry.MaxAge))
		}
		left += len(h.model.Docs)
	}
	if most := int(y.expiry.MaxDocuments); most > 0 && left > most {
		left = most - most/100
		var docs indextest.Documents
		for _, h := range y.hosts {
			docs = append(docs, h.model.Docs...)
		}
		earlier := func(a, b index.Document) int { return cmp.Or(a.Added.Compare(b.Added), cmp.Compare(a.ID, b.ID)) }
		slices.SortFunc(docs, earlier)
		first := docs[len(docs)-left]
		for _, h := range y.hosts {
			h.model.Docs = h.model.Docs.Without(func(d *index.Document) bool { return earlier(*d, first) < 0 })
		}
		if _, err := y.x.Expire(y.t.Context(), y.expiry); err != nil {
			y.t.Fatal(err)
		}
	}
	eventually(y.t, func() bool { return y.x.Stats().Documents == uint64(left) }, func() any { return y.w.Stats() })
}

func (y *year) sample() {
	s := y.x.Stats()
	m := &y.months[len(y.months)-1]
	m.documents, m.disk = max(m.documents, s.Documents), max(m.disk, s.DiskBytes)
	m.memory = max(m.memory, s.FilterBytes+s.DirectoryBytes+s.CachedBytes)
	if testenv.Long() {
		m.memory = max(m.memory, uint64(residentBytes()))
	}
}

// residentBytes returns what the process has in memory that is not of a file, where Linux says it, else 0.
func residentBytes() (bytes int64) {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "\nRssAnon:")
	fmt.Sscan(after, &bytes)
	return bytes << 10
}

// compare looks at all that the index has.
func (y *year) compare() {
	all := indextest.NewModel(y.hosts[0].model.Rule)
	all.NextID = y.nextID
	for _, h := range y.hosts {
		all.Docs = append(all.Docs, h.model.Docs...)
	}
	slices.SortFunc(all.Docs, func(a, b index.Document) int { return int(int64(a.ID - b.ID)) })
	if err := all.Compare(y.x); err != nil {
		y.t.Fatalf("seed %d, %v: %v", y.seed, y.clock(), err)
	}
	if err := indextest.Problems(y.x); err != nil {
		y.t.Fatal(err)
	}
}

// judge compares each month with the second and the third one: in the first the index fills.
func (y *year) judge() {
	settled := month{}
	for n, m := range y.months {
		y.t.Logf("month %d: at most %d documents, %d kB of disk, %d kB of memory", n+1, m.documents, m.disk>>10, m.memory>>10)
		if n == 1 || n == 2 {
			settled = month{max(settled.documents, m.documents), max(settled.disk, m.disk), max(settled.memory, m.memory)}
		}
	}
	grown := func(now, then, slack uint64) bool { return float64(now) > 1.2*float64(then)+float64(slack) }
	for n, m := range y.months[3:] {
		if grown(m.documents, settled.documents, 20) || grown(m.disk, settled.disk, 512<<10) || grown(m.memory, settled.memory, 16<<20) {
			y.t.Errorf("seed %d: month %d grew: %+v, after %+v", y.seed, n+4, m, settled)
		}
	}
	w := y.w.Stats()
	if expired := y.x.Stats().Expired; w.Runs < 5 || w.Failure != "" || expired < uint64(len(y.hosts)*hostPages) || y.expiry.MaxAge > 0 && w.Expired != expired {
		y.t.Errorf("%d documents expired, %+v", expired, w)
	}
	y.t.Logf("%d documents stored, %d expired, %d compactions", y.nextID-1, y.x.Stats().Expired, w.Runs)
}
