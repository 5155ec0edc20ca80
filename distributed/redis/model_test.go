package redis

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"runtime"
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

// The model check runs the code of the protocol in two or three clients on a store in memory.
// Every command is a step, and the check tries every order of steps. If a scenario has deaths, a
// client can die between any two steps. If it has leases, a lease can end although its owner
// is alive. Clocks are equal, all documents share one bucket, and the store loses nothing. The
// tests on clusters cover failovers.
//
// The next step of a client is a function of the replies that it received. The client runs once for
// each list of replies, and the results are kept in tables. Two states are equal if the replies
// that affect the next steps are equal.

// fake is a store that does the same as Redis with the scripts. TestFakeIsRedis compares them.
type fake struct {
	keys map[string]string
	time uint64 // of the server, in ticks
}

// write executes a command without the final read.
func (f *fake) write(c *command) {
	arg := func(i int) string { return fmt.Sprint(c.args[i]) }
	value := f.keys[c.key]
	switch c.verb {
	case get:
		return
	case say:
		value += arg(0)
	case amend:
		if rest, begins := strings.CutPrefix(value, arg(0)); begins {
			value = arg(1) + rest + arg(2)
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
	if f.keys[c.key] = value; value == "" {
		delete(f.keys, c.key)
	}
}

func (f *fake) do(c *command) string {
	f.write(c)
	return f.keys[c.key]
}

// run is a runner for commands before and after the interleaving.
func (f *fake) run(_ context.Context, _ bool, commands []*command) error {
	for _, c := range commands {
		c.value = f.do(c)
	}
	return nil
}

var (
	errDied  = errors.New("died")
	hashSeed = maphash.MakeSeed()
)

// step is atomic. It is a command, or half of a say command. A client without a command waits for
// others.
type step struct {
	*command
	write, read bool
}

// expired is the reply to a client that waited until its lease ended.
const expired = "expired"

// local is the knowledge of a client: its replies. They determine its next step.
type local struct {
	replies []string
	exact   uint64 // hash of the replies that affect its next steps
	key     uint64 // the same, without irrelevant differences

	next     step
	returned bool
	verdict  index.Verdict
	err      error

	after map[string]*local // by the reply to next
}

// retold is a runner that repeats the known replies to a client, and then ends it.
type retold struct {
	*local
	client int
	left   []string // remaining replies
	clock  time.Time
	x      *Index
	check  *checked
}

// client is the program of a client.
type client func(r *retold) error

// forget records that only still, and no earlier reply, affects the next steps.
func (r *retold) forget(still ...any) {
	r.exact = maphash.String(hashSeed, fmt.Sprint(r.client, r.clock.Unix(),
		r.x.sequence.next, still))
	r.key = r.exact
}

// reply returns the reply to a step. If there is none yet, it returns errDied.
func (r *retold) reply(s step) (reply string, err error) {
	if len(r.left) == 0 {
		r.next = s
		return "", errDied
	}
	reply, r.left = r.left[0], r.left[1:]
	means := maphash.String(hashSeed, reply)
	r.exact = r.exact*31 + means
	if s.read {
		means = meaning(s.key, reply)
	}
	r.key = r.key*31 + means
	return reply, nil
}

// where returns the names of the methods of Index on the stack, beginning after round.
func where() string {
	pcs := make([]uintptr, 32)
	frames, path := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]), ""
	for {
		f, more := frames.Next()
		_, name, _ := strings.Cut(f.Function, "(*Index).")
		if name == "round" || !more {
			return path
		}
		path = name + " " + path
	}
}

// stepsOfOne lists the stacks at which only the document and the commands affect the next steps.
var stepsOfOne = []string{"announce ", "settle readLogs ", "settle ", "settle commit ",
	"settle takeBack ", "settle takeBack remove ", "settle takeBack remove rewrite "}

func (r *retold) run(_ context.Context, _ bool, commands []*command) error {
	if c := r.check; c != nil && len(commands) > 0 {
		if at := where(); slices.Contains(stepsOfOne, at) &&
			(at != "settle commit " || commands[0].verb == say) {
			still := []any{at, c.id, c.seq, c.old.ID, c.open, c.of.ID, c.verdict.Status,
				r.clock.Sub(c.since)}
			for _, cmd := range commands {
				still = append(still, cmd.verb, cmd.key, cmd.args)
			}
			r.forget(still...)
		}
	}
	for _, c := range commands {
		steps := []step{{c, true, true}}
		switch {
		case c.verb == get:
			steps[0].write = false
		case c.verb == say:
			steps = []step{{c, true, false}, {c, false, true}}
		}
		for _, s := range steps {
			reply, err := r.reply(s)
			if err != nil {
				return err
			}
			if s.read {
				c.value = reply
			}
		}
	}
	return nil
}

func (r *retold) pause(context.Context) error {
	if c := r.check; c != nil {
		r.forget("waits", c.id, c.seq, c.old.ID, c.open, r.clock.Sub(c.since))
	}
	reply, err := r.reply(step{})
	if reply == expired {
		r.clock = r.clock.Add(r.x.lease)
	}
	return err
}

// oneTable is the plan of the model. The model check relies only on one property: two matching
// documents share a bucket.
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
	x.plan, x.rule = oneTable(), match.Rule{MaxDistance: 0, MaxShingleDistance: -1,
		MaxLengthRatio: -1}
	clock := time.Unix(1_800_000_000, 0)
	x.now = func() time.Time { return clock }
	x.pause = func(context.Context) error { clock = clock.Add(x.lease); return nil }
	x.token = func() string { return "token" }
	x.grace, x.longLog = 0, 0
	return x
}

// scenario is a set of concurrent clients, with the conditions that must hold in any order of
// their steps.
type scenario struct {
	name    string
	before  []index.Document // committed
	clients []client
	deaths  int // maximal number of clients that die
	leases  int // maximal number of leases that end although another client can continue
	// preemptions bounds the number of changes to another client while the current one can
	// continue. 0: no bound.
	preemptions int
	content     bool // a document must be stored at the end if any client received a verdict

	known map[uint64]*local // by exact
}

// local runs a client with the replies that it received.
func (s *scenario) local(n int, replies []string) *local {
	l := &local{replies: replies, after: make(map[string]*local)}
	r := &retold{local: l, client: n, left: replies, clock: time.Unix(1_800_000_000, 0)}
	x := testIndex(r.run)
	r.x, x.pause = x, r.pause
	x.now = func() time.Time { return r.clock }
	x.token = func() string { return fmt.Sprint("token", n) }
	// the clients have the first numbers in their order, and the store assigns later ones
	x.sequence = sequence{next: uint64(1000 * (n + 1)), last: uint64(1000 * (n + 1)),
		until: x.now().Add(math.MaxInt64)}
	r.forget()
	if l.err = s.clients[n](r); !errors.Is(l.err, errDied) {
		l.returned = true
		r.forget("returned", l.verdict.Status, l.verdict.Of.ID, l.verdict.Document.ID, l.err)
		r.key = maphash.String(hashSeed, fmt.Sprint(n, "returned", l.verdict.Status != 0))
	}
	if same := s.known[l.exact]; same != nil {
		if a, b := same.next.String(), l.next.String(); a != b {
			panic(fmt.Sprintf("a forgotten reply affects the next step: %s or %s", a, b))
		}
		return same
	}
	s.known[l.exact] = l
	return l
}

func (s step) String() string {
	if s.command == nil {
		return "waits"
	}
	return fmt.Sprintf("%d %s %q %t %t", s.verb, s.command.key, s.args, s.write, s.read)
}

// world is the state of all clients and of the store.
type world struct {
	*scenario
	clients       []*local // nil if the client died
	store         map[string]string
	stored        uint64 // hash of the meaning of the store
	docs          []index.Document
	ever          []uint64 // IDs of all documents that were ever stored
	died, expired int
	preempted     int

	from   *world // the previous world, and the step that led here
	client int
	did    step
	dies   bool
}

func (s *scenario) start() *world {
	s.known = make(map[uint64]*local)
	f := &fake{keys: map[string]string{}, time: 10_000}
	if _, err := testIndex(f.run).check(context.Background(), s.before); err != nil {
		panic(err)
	}
	w := &world{scenario: s, store: map[string]string{}}
	for key, value := range f.keys {
		w.set(key, value)
	}
	for n := range s.clients {
		w.clients = append(w.clients, s.local(n, nil))
	}
	return w
}

// set writes a key. No other world may share the store.
func (w *world) set(key, value string) {
	w.stored += maphash.String(hashSeed, key) * (meaning(key, value) - meaning(key, w.store[key]))
	if w.store[key] = value; !strings.HasPrefix(key, "m:g") {
		return
	}
	w.docs = nil
	for _, key := range sortedKeys(w.store) {
		if !strings.HasPrefix(key, "m:g") {
			continue
		}
		l, err := replay(key, w.store[key])
		if err != nil {
			panic(err)
		}
		for _, s := range l.states {
			if !s.dead {
				w.docs = append(w.docs, s.doc)
			}
		}
	}
	for _, d := range w.docs {
		if !slices.Contains(w.ever, d.ID) {
			w.ever = slices.Sorted(slices.Values(append(slices.Clone(w.ever), d.ID)))
		}
	}
}

// meanings caches meaningOf.
var meanings = map[[2]string]uint64{}

func meaning(key, value string) uint64 {
	h, met := meanings[[2]string{key, value}]
	if !met {
		h = meaningOf(key, value)
		meanings[[2]string{key, value}] = h
	}
	return h
}

// meaningOf returns a hash of a value that ignores differences in the order of entries without an
// effect. Removed entries are never written again, so the order does not affect an amend.
func meaningOf(key, value string) (h uint64) {
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

// hash returns a hash of everything that affects the next steps.
func (w *world) hash() uint64 {
	h := maphash.Comparable(hashSeed, [3]int{w.died, w.expired, w.preempted}) ^ w.stored
	if w.preemptions > 0 {
		h = h*31 + uint64(w.client)
	}
	for _, of := range w.ever {
		h = h*31 + of
	}
	for _, l := range w.clients {
		if h *= 0x9e3779b97f4a7c15; l != nil {
			h ^= l.key
		}
	}
	return h
}

// without returns the world without a client that died or whose state is about to change.
func (w *world) without(n int) *world {
	next := *w
	next.from, next.client, next.did, next.dies = w, n, w.clients[n].next, false
	next.clients = slices.Clone(w.clients)
	next.clients[n] = nil
	return &next
}

// goesOn returns the world after a step of client n. If the client waits, its reply is waited.
func (w *world) goesOn(n int, waited string) *world {
	l := w.clients[n]
	next := w.without(n)
	reply, s := waited, l.next
	if s.write {
		f := fake{keys: map[string]string{s.key: w.store[s.key]}, time: 10_000}
		f.write(s.command)
		next.store = maps.Clone(w.store)
		next.set(s.key, f.keys[s.key])
	}
	if s.read {
		reply = next.store[s.key]
	}
	if len(l.replies) > 300 {
		panic("a client never returns, after\n" + w.path())
	}
	if l.after[reply] == nil {
		l.after[reply] = w.local(n, append(l.replies[:len(l.replies):len(l.replies)], reply))
	}
	next.clients[n] = l.after[reply]
	return next
}

// successors returns the worlds after every possible next step.
func (w *world) successors() (all []*world) {
	stuck := true // all remaining clients wait
	for _, l := range w.clients {
		stuck = stuck && (l == nil || l.returned || l.next.command == nil)
	}
	last := w.clients[w.client]
	// the client of the last step can continue
	goesOn := last != nil && !last.returned && last.next.command != nil
	for n, l := range w.clients {
		preempts := w.preemptions > 0 && goesOn && n != w.client
		if l == nil || l.returned || preempts && w.preempted == w.preemptions {
			continue
		}
		all = append(all, w.goesOn(n, ""))
		if preempts {
			all[len(all)-1].preempted++
		}
		if l.next.command == nil && (stuck || w.expired < w.leases) {
			next := w.goesOn(n, expired)
			if !stuck {
				next.expired++
			}
			all = append(all, next)
		}
		if w.died < w.deaths {
			next := w.without(n)
			next.died, next.dies = w.died+1, true
			all = append(all, next)
		}
	}
	return all
}

// maxStates ends an endless search.
const maxStates = 3_000_000

// explore visits all worlds and returns their number.
func (s *scenario) explore() (states int, err error) {
	seen := make(map[uint64]struct{})
	for left := []*world{s.start()}; len(left) > 0; {
		w := left[len(left)-1]
		left = left[:len(left)-1]
		h := w.hash()
		if _, known := seen[h]; known {
			continue
		}
		if seen[h] = struct{}{}; len(seen) > maxStates {
			return 0, fmt.Errorf("more than %d states, as after\n%s", maxStates, w.path())
		}
		successors := w.successors()
		if err := w.verify(len(successors) == 0); err != nil {
			return len(seen), fmt.Errorf("%w, after\n%s", err, w.path())
		}
		left = append(left, successors...)
	}
	return len(seen), nil
}

func (w *world) path() string {
	if w.from == nil {
		return ""
	}
	return w.from.path() + fmt.Sprintf("client %d: %s, dies %t\n", w.client, w.did, w.dies)
}

// verify returns an error if a condition does not hold, now or at the end.
func (w *world) verify(end bool) error {
	for i, d := range w.docs {
		for _, e := range w.docs[:i] {
			if d.Fingerprint == e.Fingerprint || d.Key != "" && d.Key == e.Key {
				return fmt.Errorf("two are stored: %+v and %+v", d, e)
			}
		}
	}
	told := false
	for n, l := range w.clients {
		if l == nil || !l.returned {
			continue
		}
		if l.err != nil {
			return fmt.Errorf("client %d: %w", n, l.err)
		}
		v := &l.verdict
		rests := v.Document.ID
		if v.Status == index.Duplicate {
			rests = v.Of.ID
		}
		if v.Status != 0 && !slices.Contains(w.ever, rests) {
			return fmt.Errorf("client %d: %v, but %d was never stored", n, v.Status, rests)
		}
		told = told || v.Status != 0
	}
	if end && told && w.content && len(w.docs) == 0 {
		return errors.New("no document is stored")
	}
	return nil
}

// checks returns a client that checks a document.
func checks(d index.Document) client {
	return func(r *retold) error {
		c := &checked{place: r.x.placeOf(&d)}
		for r.check = c; !c.done(); {
			r.forget("begins", c.seq)
			if err := r.x.round(context.Background(), []*checked{c}); err != nil {
				return err
			}
			if c.seq == 0 {
				// without a grace period, a floor may be above the sequence
				r.x.sequence = sequence{}
			}
		}
		r.verdict = c.verdict
		return nil
	}
}

// sweeps returns a client that sweeps a bucket and its log until the entries for dead documents
// are dropped.
func sweeps(d index.Document) client {
	return func(r *retold) error {
		ctx, s, p := context.Background(), &sweep{Index: r.x, floor: 3000}, r.x.placeOf(&d)
		logs := func() error {
			of, err := r.x.readLogs(ctx, true, []uint32{p.group})
			if err != nil {
				return err
			}
			return s.logs(ctx, []*groupLog{of[p.group]})
		}
		buckets := func() error { return s.buckets(ctx, p.buckets) }
		for pass, do := range []func() error{logs, buckets, logs, logs} {
			r.forget("sweeps", pass, s.alive)
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}
}

func removes(key string) client {
	return func(r *retold) error {
		n, err := r.x.deleteKeys(context.Background(), []string{key})
		if err == nil && n == 0 {
			err = errors.New("nothing was deleted, but a document was always stored")
		}
		return err
	}
}

func scenarios() []*scenario {
	x, y, z := index.Document{Fingerprint: 7}, index.Document{Fingerprint: 9},
		index.Document{Fingerprint: 11}
	long := strings.Repeat("long", 20) // the third record with this key causes a rewrite of the log
	at := func(key string, d index.Document) index.Document { d.Key = key; return d }
	type docs = []index.Document
	type calls = []client
	return []*scenario{
		{name: "two of one content", clients: calls{checks(x), checks(x)}, deaths: 1, leases: 1,
			content: true},
		{name: "three of one content", clients: calls{checks(x), checks(x), checks(x)}, deaths: 1,
			content: true},
		{name: "three of one content, and a lease ends",
			clients: calls{checks(x), checks(x), checks(x)}, leases: 1, preemptions: rounds(2, 3),
			content: true},
		{name: "two of one key", clients: calls{checks(at("a", x)), checks(at("a", y))}, deaths: 1,
			leases: 1, content: true},
		{name: "three of one key", clients: calls{checks(at("a", x)), checks(at("a", y)),
			checks(at("a", z))}, deaths: 1, leases: 1, content: true},
		{name: "one page twice", clients: calls{checks(at("a", x)), checks(at("a", x))}, deaths: 1,
			leases: 1, content: true},
		{name: "a recrawl and a copy", before: docs{at("a", y)},
			clients: calls{checks(at("a", x)), checks(at("b", x))}, deaths: 1, leases: 1,
			content: true},
		{name: "two pages swap", before: docs{at("a", x), at("b", y)},
			clients: calls{checks(at("a", y)), checks(at("b", x))}, leases: 1, content: true},
		{name: "one dies of two that swap", before: docs{at("a", x), at("b", y)},
			clients: calls{checks(at("a", y)), checks(at("b", x))}, deaths: 1, leases: 1},
		{name: "a deletion and a copy", before: docs{at("a", x)},
			clients: calls{removes("a"), checks(at("b", x))}, deaths: 1},
		{name: "a deletion and a recrawl", before: docs{at("a", x)},
			clients: calls{removes("a"), checks(at("a", y))}, deaths: 1},
		{name: "two recrawls that rewrite", before: docs{at(long, x), at(long, y)},
			clients: calls{checks(at(long, z)), checks(at(long, x))}, deaths: 1, leases: 1,
			content: true},
		{name: "a recrawl that rewrites and a deletion", before: docs{at(long, x), at(long, y)},
			clients: calls{checks(at(long, z)), removes(long)}, deaths: 1},
		{name: "two and a sweep", clients: calls{checks(x), checks(x), sweeps(x)},
			preemptions: rounds(3, 9), content: true},
	}
}

func TestEveryInterleaving(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			states, err := s.explore()
			must(t, err)
			t.Logf("%d states", states)
		})
	}
}
