package redis

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/plan"
)

// A model check: clients run the code of the protocol on a store in memory, whose every command is a step. Two clients: in
// every order in which steps can come; where a scenario has deaths, one of them dies between any two steps, and where
// it has leases, one lease ends although who is waited for lives. Three clients: no deaths, and only
// the orders in which a client that could go on is preempted at most 3 times, with NEARDUP_LONG 9. Equal clocks, one bucket, and a
// store that loses nothing: what failovers do is for the tests on clusters.

// fake is a store that does what Redis and the scripts do; TestFakeIsRedis holds it to them.
type fake struct {
	keys map[string]string
	time uint64 // that of the server, in ticks
	bug  string // planted, so that the check can be seen to fail

	writes int
}

// write does what a command does, but for the reading in the end.
func (f *fake) write(c *command) {
	arg := func(i int) string { return fmt.Sprint(c.args[i]) }
	value := f.keys[c.key]
	switch c.verb {
	case get:
		return
	case say:
		value += arg(0)
		if f.bug == "commits what is dead" && arg(0)[1] >= isRecord {
			value = arg(0) + f.keys[c.key]
		}
	case amend:
		if rest, begins := strings.CutPrefix(value, arg(0)); begins {
			value = arg(1) + rest + arg(2)
		}
		if f.bug == "no floor" && arg(0) != "" { // and what is dead forgotten
			value = strings.NewReplacer(logEntry(isFloor, 3000, ""), "", logEntry(isKilled, 1000, ""), "", logEntry(isKilled, 2000, ""), "").Replace(value)
		}
	case create:
		if value == "" {
			value = arg(0)
		}
	case reserve:
		last, _ := strconv.ParseUint(value, 10, 64)
		n, _ := strconv.ParseUint(arg(0), 10, 64)
		value = strconv.FormatUint(max(f.time, last)+n, 10)
	}
	f.writes++
	if f.keys[c.key] = value; value == "" {
		delete(f.keys, c.key)
	}
}

func (f *fake) do(c *command) string {
	f.write(c)
	return f.keys[c.key]
}

// run makes a fake a runner for what goes on before and after the interleaving.
func (f *fake) run(_ context.Context, _ bool, commands []*command) error {
	for _, c := range commands {
		c.value = f.do(c)
	}
	return nil
}

// actor is one client in a schedule.
type actor struct {
	step chan bool // true: do the next command; false: die
	done chan bool // false: a command waits; true: the call has returned

	transcript uint64 // hash of all replies so far: it and the store are all that decides what comes
	verdicts   []index.Verdict
	err        error
	finished   bool

	waits  bool // for a smaller ID
	since  int  // fake.writes then
	expire bool // the step it takes is that its lease is over
}

var errDied = errors.New("died")

// interleaved runs the commands of an actor one at a time, when its schedule says so.
type interleaved struct {
	store *fake
	a     *actor
}

func (r interleaved) run(_ context.Context, _ bool, commands []*command) error {
	step := func() bool {
		r.a.done <- false
		return <-r.a.step
	}
	for _, c := range commands {
		if !step() {
			return errDied
		}
		if r.store.bug == "reads before it writes" && c.verb == say && c.key[:3] == "m:b" {
			c.value = r.store.keys[c.key]
			if r.a.transcript++; !step() {
				return errDied
			}
			r.store.write(c)
		} else {
			r.store.write(c)
			if c.verb == say && !step() { // others may come between the two
				return errDied
			}
			c.value = r.store.keys[c.key]
		}
		r.a.transcript = r.a.transcript*31 + maphash.String(hashSeed, c.key) ^ meaning(c.key, c.value) + uint64(c.verb)
	}
	return nil
}

// scenario is what clients do at once, and what must hold whatever the order.
type scenario struct {
	name    string
	before  []index.Document // committed
	clients []func(*Index) ([]index.Verdict, error)
	deaths  int // of clients, at most
	leases  int // that end although who is waited for lives, at most
	// preemptions bounds how often another client goes on while one could; 0: any number of times.
	preemptions int
	bug         string
	holds       func(w *world) error
}

// world is a schedule that is being run.
type world struct {
	*scenario
	store  *fake
	actors []*actor
	begun  map[string]string // the store before
	ever   map[uint64]bool   // IDs that were ever records

	died, expired, preempted int
	last                     int // that moved
}

// oneTable is the plan of the model: two that match meet in some bucket, and what is proved is that this is enough.
var oneTable = sync.OnceValue(func() *plan.Plan {
	p, err := plan.Named("blocks-1", 0)
	if err != nil {
		panic(err)
	}
	return p
})

func testIndex(run runner) *Index {
	x := newIndex(run, &Options{Name: "m"})
	x.groupBits = maxBits
	x.plan, x.rule = oneTable(), match.Rule{MaxDistance: 0, MaxShingleDistance: -1, MaxLengthRatio: -1}
	clock := time.Unix(1_800_000_000, 0)
	x.now = func() time.Time { return clock }
	x.pause = func(context.Context) error { clock = clock.Add(x.lease); return nil }
	x.token = func() string { return "token" }
	x.grace, x.longLog = 0, 0
	return x
}

// start begins a schedule anew: every client stands before its first command.
func (s *scenario) start() *world {
	w := &world{scenario: s, store: &fake{keys: map[string]string{}, bug: s.bug, time: 10_000}, ever: map[uint64]bool{}}
	if len(s.before) > 0 {
		x := testIndex(w.store)
		if _, err := x.check(context.Background(), s.before); err != nil {
			panic(err)
		}
	}
	w.begun = maps.Clone(w.store.keys)
	w.note()
	for i, call := range s.clients {
		a := &actor{step: make(chan bool), done: make(chan bool)}
		w.actors = append(w.actors, a)
		x := testIndex(interleaved{w.store, a})
		x.token = func() string { return fmt.Sprint("token", i) }
		x.pause = w.pauseOf(x, a)
		// the first numbers are given out in the order of the clients, later ones by the store
		x.sequence = sequence{next: uint64(1000 * (i + 1)), last: uint64(1000 * (i + 1)), until: x.now().Add(math.MaxInt64)}
		go func() {
			a.verdicts, a.err = call(x)
			a.done <- true
		}()
		a.finished = <-a.done
	}
	return w
}

// pauseOf lets an actor wait until something changes, or its lease is over.
func (w *world) pauseOf(x *Index, a *actor) func(context.Context) error {
	clock := x.now()
	x.now = func() time.Time { return clock }
	return func(context.Context) error {
		a.waits, a.since = true, w.store.writes
		a.done <- false
		lives := <-a.step
		if a.waits = false; !lives {
			return errDied
		}
		if a.expire {
			clock = clock.Add(x.lease)
			a.transcript++
		}
		return nil
	}
}

// note keeps which documents were ever there.
func (w *world) note() {
	for _, d := range w.alive() {
		w.ever[d.ID] = true
	}
}

func (w *world) alive() (docs []index.Document) {
	for _, key := range sortedKeys(w.store.keys) {
		if !strings.HasPrefix(key, "m:g") {
			continue
		}
		l, err := replay(key, w.store.keys[key])
		if err != nil {
			panic(err)
		}
		for _, s := range l.states {
			if !s.dead {
				docs = append(docs, s.doc)
			}
		}
	}
	return docs
}

var hashSeed = maphash.MakeSeed()

// choice is a step: what a client does, or that it dies, or that it waits no longer.
type choice struct {
	client      int
	die, expire bool
}

func (w *world) move(c choice) {
	a := w.actors[c.client]
	if c.client != w.last && w.ready(w.last) {
		w.preempted++
	}
	w.last = c.client
	if c.die {
		w.died++
	}
	if c.expire {
		w.expired++
	}
	a.expire = c.expire
	a.step <- !c.die
	a.finished = <-a.done
	w.note()
}

// ready reports whether a client can go on without waiting for another.
func (w *world) ready(client int) bool {
	a := w.actors[client]
	return !a.finished && (!a.waits || a.since != w.store.writes)
}

func (w *world) choices() (all []choice) {
	var last []choice
	bound := w.preemptions > 0 && w.preempted >= w.preemptions && w.ready(w.last)
	for i, a := range w.actors {
		switch {
		case a.finished || bound && i != w.last:
		case w.ready(i):
			all = append(all, choice{client: i})
		case w.expired < w.leases:
			all = append(all, choice{client: i, expire: true})
		default:
			last = append(last, choice{client: i, expire: true})
		}
	}
	if len(all) == 0 {
		all = last
	}
	for i, a := range w.actors {
		if !a.finished && w.died < w.deaths {
			all = append(all, choice{client: i, die: true})
		}
	}
	return all
}

// meaning is a hash of a value that is the same where entries stand in another order that makes no difference. Entries
// are never there again once they are gone, so that order does not bear on what an amend finds.
func meaning(key, value string) (h uint64) {
	switch key[:3] {
	case "m:b":
		for entry := range slices.Chunk([]byte(value), entryBytes(&oneTable().Tables[0])) {
			h += maphash.Bytes(hashSeed, entry)
		}
		return h
	case "m:g":
		if l, err := replay(key, value); err == nil {
			for seq, s := range l.bySeq {
				h += maphash.Comparable(hashSeed, struct {
					seq             uint64
					committed, dead bool
					token           string
				}{seq, s.committed, s.dead, s.token})
			}
			return h*31 + l.floor
		}
	}
	return maphash.String(hashSeed, value)
}

// hash is of all that decides what can happen from here.
func (w *world) hash() uint64 {
	type client struct {
		transcript              uint64
		finished, failed, waits bool
	}
	h := maphash.Comparable(hashSeed, [2]int{w.died, w.expired})
	if w.preemptions > 0 {
		h = maphash.Comparable(hashSeed, [4]int{w.died, w.expired, w.preempted, w.last})
	}
	for key, value := range w.store.keys { // in no order
		h += maphash.String(hashSeed, key) * meaning(key, value)
	}
	for of := range w.ever {
		h += maphash.Comparable(hashSeed, of)
	}
	for _, a := range w.actors {
		h = h*31 + maphash.Comparable(hashSeed, client{a.transcript, a.finished, a.err != nil, a.waits && a.since == w.store.writes})
	}
	return h
}

// maxStates ends what would never end.
const maxStates = 3_000_000

// explore goes through all schedules, those that come to a state that was met before only once, and
// returns how many states there are.
func (s *scenario) explore() (states int, err error) {
	seen := make(map[uint64]bool)
	for work := [][]choice{nil}; len(work) > 0; {
		path := work[len(work)-1]
		work = work[:len(work)-1]
		w := s.start()
		for _, c := range path {
			w.move(c)
		}
		for { // go on by the first choice, and leave the others for later
			h := w.hash()
			if seen[h] {
				w.abandon()
				break
			}
			if seen[h] = true; len(seen) > maxStates {
				return 0, fmt.Errorf("%s: more than %d states", s.name, maxStates)
			}
			choices := w.choices()
			if len(choices) == 0 {
				if err := w.verify(); err != nil {
					return len(seen), fmt.Errorf("%s, after %v: %w", s.name, path, err)
				}
				break
			}
			for _, c := range choices[1:] {
				work = append(work, append(path[:len(path):len(path)], c))
			}
			path = append(path[:len(path):len(path)], choices[0])
			w.move(choices[0])
		}
	}
	return len(seen), nil
}

// abandon ends the goroutines of a schedule that is not gone on with.
func (w *world) abandon() {
	for _, a := range w.actors {
		for !a.finished {
			a.step <- false
			a.finished = <-a.done
		}
	}
}

// verify says what is wrong at the end.
func (w *world) verify() error {
	docs := w.alive()
	for i := range docs {
		for j := range i {
			if docs[i].Fingerprint == docs[j].Fingerprint || docs[i].Key != "" && docs[i].Key == docs[j].Key {
				return fmt.Errorf("two are stored: %+v and %+v", docs[i], docs[j])
			}
		}
	}
	for i, a := range w.actors {
		if a.err != nil && !errors.Is(a.err, errDied) {
			return fmt.Errorf("client %d: %w", i, a.err)
		}
		for _, v := range a.verdicts {
			if v.Status == index.Duplicate && !w.ever[v.Of.ID] {
				return fmt.Errorf("client %d: a duplicate of %d, which was never there", i, v.Of.ID)
			}
			if v.Status != index.Duplicate && !w.ever[v.Document.ID] {
				return fmt.Errorf("client %d: %v, but %d was never there", i, v.Status, v.Document.ID)
			}
		}
	}
	if w.holds != nil {
		return w.holds(w)
	}
	return nil
}

// checks is a client that checks documents.
func checks(docs ...index.Document) func(*Index) ([]index.Verdict, error) {
	return func(x *Index) ([]index.Verdict, error) { return x.check(context.Background(), docs) }
}

// lastsOne: somebody who lived to be told so has stored the content, or it was there, and nobody took it away.
func lastsOne(w *world) error {
	told := 0
	for _, a := range w.actors {
		told += len(a.verdicts)
	}
	if told > 0 && len(w.alive()) == 0 {
		return errors.New("everything is gone")
	}
	return nil
}

func scenarios() []*scenario {
	x, y, z := index.Document{Fingerprint: 7}, index.Document{Fingerprint: 9}, index.Document{Fingerprint: 11}
	long := strings.Repeat("long", 20) // so that the third record of a log has it rewritten
	at := func(key string, d index.Document) index.Document { d.Key = key; return d }
	sweeps := func(x *Index) ([]index.Verdict, error) {
		ctx, s, p := context.Background(), &sweep{Index: x, floor: 3000}, x.placeOf(&index.Document{Fingerprint: 7})
		logs := func() error {
			of, err := x.readLogs(ctx, true, []uint32{p.group})
			if err != nil {
				return err
			}
			return s.logs(ctx, []*groupLog{of[p.group]})
		}
		buckets := func() error { return s.buckets(ctx, p.buckets) }
		for _, pass := range []func() error{logs, buckets, logs, logs} { // the third forgets
			if err := pass(); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	remove := func(key string) func(*Index) ([]index.Verdict, error) {
		return func(x *Index) ([]index.Verdict, error) {
			n, err := x.deleteKeys(context.Background(), []string{key})
			if err == nil && n == 0 {
				err = errors.New("nothing was deleted, and something was there all the time")
			}
			return nil, err
		}
	}
	type calls = []func(*Index) ([]index.Verdict, error)
	return []*scenario{
		{name: "two of one content", clients: calls{checks(x), checks(x)}, deaths: 1, leases: 1, holds: lastsOne},
		{name: "three of one content", clients: calls{checks(x), checks(x), checks(x)}, preemptions: rounds(3, 9), holds: lastsOne},
		{name: "two of one key", clients: calls{checks(at("a", x)), checks(at("a", y))}, deaths: 1, leases: 1, holds: lastsOne},
		{name: "one page twice", clients: calls{checks(at("a", x)), checks(at("a", x))}, deaths: 1, leases: 1, holds: lastsOne},
		{name: "a recrawl and a copy", before: []index.Document{at("a", y)}, clients: calls{checks(at("a", x)), checks(at("b", x))}, deaths: 1, leases: 1, holds: lastsOne},
		{name: "two pages swap", before: []index.Document{at("a", x), at("b", y)}, clients: calls{checks(at("a", y)), checks(at("b", x))}, holds: lastsOne},
		{name: "a deletion and a copy", before: []index.Document{at("a", x)}, clients: calls{remove("a"), checks(at("b", x))}, deaths: 1},
		{name: "a deletion and a recrawl", before: []index.Document{at("a", x)}, clients: calls{remove("a"), checks(at("a", y))}, deaths: 1},
		{name: "two recrawls that rewrite", before: []index.Document{at(long, x), at(long, y)}, clients: calls{checks(at(long, z)), checks(at(long, x))}, deaths: 1, leases: 1, holds: lastsOne},
		{name: "a recrawl that rewrites and a deletion", before: []index.Document{at(long, x), at(long, y)}, clients: calls{checks(at(long, z)), remove(long)}, deaths: 1},
		{name: "two and a sweep", clients: calls{checks(x), checks(x), sweeps}, preemptions: rounds(3, 9), holds: lastsOne},
	}
}

func TestEveryInterleaving(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			states, err := s.explore()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states", states)
		})
	}
}

// With a bug planted in the store, some order shows it.
func TestInterleavingsFindBugs(t *testing.T) {
	for bug, in := range map[string]string{"commits what is dead": "two of one content", "no floor": "two and a sweep", "reads before it writes": "two of one content"} {
		t.Run(bug, func(t *testing.T) {
			for _, s := range scenarios() {
				if s.bug = bug; s.name != in {
					continue
				}
				if _, err := s.explore(); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("not found")
		})
	}
}
