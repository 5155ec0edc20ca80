package indextest

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/neardup/neardup/index"
)

// kind says which call a call was.
type kind string

const (
	checkAndAdd kind = "CheckAndAdd"
	add         kind = "Add"
	remove      kind = "Delete"
	removeIDs   kind = "DeleteIDs"
	expire      kind = "DeleteBefore"
	get         kind = "Get"
	query       kind = "Query"
	documents   kind = "Documents"
)

// call is a call and its answer, or what it means for one site. Of a batch, each document
// is a call of its own, as CheckAndAddBatch is promised to do what CheckAndAdd would do
// for each.
type call struct {
	kind       kind
	site       int
	start, end int64
	batch      int64 // documents of a batch have the same

	doc     index.Document   // that was checked
	verdict index.Verdict    // of doc
	docs    []index.Document // as stored by Add, or found by Get and Documents
	asked   []index.Document // what documents by Query and QueryBatch are like
	matches [][]index.Match  // of asked
	within  Rule             // of Query
	limit   int              // of Query
	keys    []string         // that were deleted or asked for
	ids     []uint64         // that were deleted
	n       int              // how many were deleted
	before  time.Time        // of DeleteBefore, which takes those with a record
	bare    bool             // and those without apart
}

// What a crash left is looked at until afterAll, and calls that may not have happened
// before it end later.
const (
	never    = math.MaxInt64
	afterAll = never - 1
)

// given returns the IDs that a call gave.
func (c *call) given() (ids []uint64) {
	switch {
	case c.kind == checkAndAdd && c.verdict.Document.ID != 0:
		ids = append(ids, c.verdict.Document.ID)
	case c.kind == add:
		for _, d := range c.docs {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// reads reports whether the call neither changes anything nor answers for something that
// must be durable.
func (c *call) reads() bool { return c.kind == get || c.kind == query || c.kind == documents }

// state is that of a site between two calls.
type state struct {
	docs  Documents
	given int     // IDs so far
	over  bool    // what comes now did not happen before the crash
	turns []uint8 // how many duplicates of each batch came so far
}

// operation is a call among those that are to be ordered.
type operation struct {
	*call
	slot int // of its batch in turns, below 0 for none
	turn uint8
}

// history is what happened to one site.
type history struct {
	rule  Rule
	first Documents // before all calls
	ids   []uint64  // that the calls gave, ascending: in the order of their commits
	steps int
}

// step returns the state after a call, if the call's answer is right.
func (h *history) step(s state, c operation) (bool, state) {
	if h.steps++; h.steps > mostSteps {
		return false, s
	}
	if s.over {
		return true, s
	}
	after := s
	if c.slot >= 0 {
		if s.turns[c.slot] != c.turn {
			return false, s
		}
		after.turns = slices.Clone(s.turns)
		after.turns[c.slot]++
	}
	switch c.kind {
	case checkAndAdd:
		var want index.Verdict
		want, after.docs = s.docs.CheckAndAdd(h.rule, c.doc, c.verdict.Document.ID, c.verdict.Document.Added)
		if want != c.verdict {
			return false, s
		}
		if want.Document.ID != 0 && !h.next(&after, want.Document.ID) {
			return false, s
		}
	case add:
		for _, d := range c.docs {
			if !h.next(&after, d.ID) {
				return false, s
			}
			after.docs = after.docs.With(d)
		}
	case remove:
		after.docs = s.docs.Without(func(d *index.Document) bool { return d.Key != "" && slices.Contains(c.keys, d.Key) })
		return len(s.docs)-len(after.docs) == c.n, after
	case removeIDs:
		after.docs = s.docs.Without(func(d *index.Document) bool { return slices.Contains(c.ids, d.ID) })
		return len(s.docs)-len(after.docs) == c.n, after
	case expire:
		after.docs = s.docs.Without(func(d *index.Document) bool { return isBare(d) == c.bare && d.Added.Before(c.before) })
	case get:
		d, found := s.docs.Key(c.keys[0])
		return found == (len(c.docs) == 1) && (!found || d == c.docs[0]), s
	case query:
		for i := range c.asked { // all are answered of one moment
			if !slices.Equal(s.docs.Near(c.within, &c.asked[i], c.limit), c.matches[i]) {
				return false, s
			}
		}
	case documents:
		after.over = c.end == afterAll
		return slices.Equal(s.docs, c.docs), after
	}
	return true, after
}

func isBare(d *index.Document) bool {
	return d.Key == "" && d.Scope == "" && d.Shingle == 0 && d.Tokens == 0
}

// next reports whether an ID is the next that is given.
func (h *history) next(s *state, id uint64) bool {
	if s.given == len(h.ids) || h.ids[s.given] != id {
		return false
	}
	s.given++
	return true
}

// mostSteps bounds the search for an order of the calls. One that there is is found within
// some thousands, as a rule; that there is none may take for ever to prove.
const mostSteps = 10_000_000

// explain returns an error unless some order of the calls explains their answers.
func explain(rule Rule, first Documents, calls []*call) error {
	h := &history{rule: rule, first: first}
	operations := make([]porcupine.Operation, 0, len(calls))
	type chain struct {
		batch  int64
		within bool // of duplicates of documents of the batch itself
	}
	slots, turns, givenBy := make(map[chain]int), []uint8(nil), make(map[uint64]int64)
	for _, c := range calls {
		o := operation{call: c, slot: -1}
		if ids := c.given(); len(ids) > 0 {
			h.ids = append(h.ids, ids...)
			givenBy[ids[0]] = c.batch
		} else if c.batch != 0 {
			// The documents of a batch are looked at in turn, but a duplicate of what was stored
			// before may be found a moment before the others of a commit are stored. These have
			// their IDs to tell their order.
			in := chain{c.batch, givenBy[c.verdict.Of.ID] == c.batch}
			slot, begun := slots[in]
			if !begun {
				slot, turns = len(turns), append(turns, 0)
				slots[in] = slot
			}
			o.slot, o.turn = slot, turns[slot]
			turns[slot]++
		}
		operations = append(operations, porcupine.Operation{Input: o, Call: c.start, Return: c.end})
	}
	slices.Sort(h.ids)
	seed := maphash.MakeSeed()
	model := porcupine.Model{
		Init: func() any { return state{docs: first, turns: make([]uint8, len(turns))} },
		Step: func(s, c, _ any) (bool, any) { return h.step(s.(state), c.(operation)) },
		Equal: func(a, b any) bool {
			s, o := a.(state), b.(state)
			return s.given == o.given && s.over == o.over && slices.EqualFunc(s.docs, o.docs, func(d, e index.Document) bool { return d.ID == e.ID })
		},
		Hash: func(s any) uint64 {
			var hash maphash.Hash
			hash.SetSeed(seed)
			for _, d := range s.(state).docs {
				maphash.WriteComparable(&hash, d.ID)
			}
			return hash.Sum64()
		},
	}
	if porcupine.CheckOperations(model, operations) {
		return nil
	}
	return h.unexplained(model, operations)
}

// unexplained tells how far an order can be found that explains the answers.
func (h *history) unexplained(model porcupine.Model, operations []porcupine.Operation) error {
	tried := h.steps
	h.steps = mostSteps - 10_000 // some more
	_, info := porcupine.CheckOperationsVerbose(model, operations, 0)
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	s, done := model.Init().(state), make(map[any]bool)
	h.steps = 0
	for _, o := range longest {
		_, s = h.step(s, o.Input.(operation))
		done[o.Input] = true
	}
	var text strings.Builder
	fmt.Fprintf(&text, "no order of %d calls explains their answers, after %d steps, with %+v; the longest found has %d, and leads to\n", len(operations), tried, h.rule, len(longest))
	for i := range s.docs {
		fmt.Fprintf(&text, "    %s\n", short(&s.docs[i]))
	}
	fmt.Fprintln(&text, "Of the others, these come next:")
	operations = slices.DeleteFunc(operations, func(o porcupine.Operation) bool { return done[o.Input] })
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, o := range operations[:min(len(operations), 2*Workers)] {
		fmt.Fprintf(&text, "    %v\n", o.Input)
	}
	return errors.New(text.String())
}

func short(d *index.Document) string {
	return fmt.Sprintf("%d %q %v %v %d %q", d.ID, shortKey(d.Key), d.Fingerprint, d.Shingle, d.Tokens, d.Scope)
}

func shortKey(key string) string {
	if len(key) <= 16 {
		return key
	}
	return fmt.Sprintf("%x..%x", key[:2], key[32:36])
}

func (c *call) String() string {
	text := fmt.Sprintf("[%d, %d] %s", c.start, c.end, c.kind)
	switch c.kind {
	case checkAndAdd:
		text += fmt.Sprintf(" %s: %v", short(&c.verdict.Document), c.verdict.Status)
		if c.verdict.Status == index.Duplicate {
			text += " of " + short(&c.verdict.Of.Document)
		}
	case query:
		text += fmt.Sprintf(" limit %d, by %+v:", c.limit, c.within)
		for i := range c.asked {
			text += fmt.Sprintf(" %s:", short(&c.asked[i]))
			for j := range c.matches[i] {
				text += fmt.Sprintf(" %d", c.matches[i][j].ID)
			}
		}
	case expire:
		text += fmt.Sprintf(" %v, bare: %v", c.before, c.bare)
	case remove, removeIDs:
		for _, key := range c.keys {
			text += fmt.Sprintf(" %q", shortKey(key))
		}
		text += fmt.Sprintf(" %v: %d", c.ids, c.n)
	default:
		for _, key := range c.keys {
			text += fmt.Sprintf(" %q:", shortKey(key))
		}
		for i := range c.docs {
			text += " " + short(&c.docs[i])
		}
	}
	return text
}
