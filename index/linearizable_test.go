package index_test

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
	"github.com/neardup/neardup/internal/testing/indextest"
)

// call is a call and its answer, or its effect on one site. Each document of a batch is a
// separate call, since CheckAndAddBatch must do the same as CheckAndAdd for each document.
type call struct {
	site       int
	start, end int64
	said       []any // the call and its answer, for messages

	// apply returns the documents after the call. It reports whether the answer is right if the
	// call found docs.
	apply func(docs indextest.Documents) (indextest.Documents, bool)

	ids []uint64 // IDs of the documents that the call stored
	// IDs that the call certainly assigned; other IDs may be kept from earlier versions
	gave  []uint64
	reads bool   // the call changes nothing and does not depend on durable data
	batch int64  // equal for the documents of a batch
	of    uint64 // the original of a duplicate in a batch
}

// The state after a crash is read until afterAll. Calls that may not have happened before the
// crash end later.
const (
	never    = math.MaxInt64
	afterAll = never - 1
)

// found returns a call that found exactly these documents.
func found(site int, start, end int64, docs indextest.Documents) *call {
	return &call{site: site, start: start, end: end, said: []any{"Documents", docs}, reads: true,
		apply: func(there indextest.Documents) (indextest.Documents, bool) {
			return there, slices.Equal(there, docs)
		}}
}

// state is the state of a site between two calls.
type state struct {
	docs  indextest.Documents
	given int     // number of IDs assigned so far
	over  bool    // later calls did not happen before the crash
	turns []uint8 // number of duplicates of each batch so far
}

// operation is a call to be ordered.
type operation struct {
	*call
	slot int // index of its batch in turns, or negative
	turn uint8
}

// history is the sequence of calls on one site.
type history struct {
	ids   []uint64 // IDs that the calls assigned, ascending, in the order of their commits
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
	after, right := s, false
	if c.slot >= 0 {
		if s.turns[c.slot] != c.turn {
			return false, s
		}
		after.turns = slices.Clone(s.turns)
		after.turns[c.slot]++
	}
	if after.docs, right = c.apply(s.docs); !right {
		return false, s
	}
	for _, id := range c.ids {
		switch {
		case s.docs.Has(id): // the ID of an earlier version
		case after.given == len(h.ids) || h.ids[after.given] != id:
			return false, s
		default:
			after.given++
		}
	}
	after.over = c.end == afterAll
	return true, after
}

// mostSteps bounds the search for an order of the calls. If an order exists, the search usually
// finds it within some thousand steps. Proving that none exists may take forever.
const mostSteps = 10_000_000

// explain returns an error unless some order of the calls, starting from the documents first,
// explains their answers.
func explain(first indextest.Documents, calls []*call) error {
	h := &history{}
	operations := make([]porcupine.Operation, 0, len(calls))
	type chain struct {
		batch  int64
		within bool // for duplicates of documents of the same batch
	}
	slots, turns, givenBy := make(map[chain]int), []uint8(nil), make(map[uint64]int64)
	for _, c := range calls {
		o := operation{call: c, slot: -1}
		for _, id := range c.ids {
			if !first.Has(id) {
				h.ids = append(h.ids, id)
			}
		}
		if len(c.gave) > 0 {
			givenBy[c.gave[0]] = c.batch
		} else if c.batch != 0 && len(c.ids) == 0 {
			// CheckAndAddBatch decides the documents of a batch in order. But it may find a
			// duplicate of an earlier stored document before it stores the other documents of the
			// commit. The IDs of stored documents give their order.
			in := chain{c.batch, givenBy[c.of] == c.batch}
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
	h.ids = slices.Compact(h.ids)
	seed := maphash.MakeSeed()
	model := porcupine.Model{
		Init: func() any { return state{docs: first, turns: make([]uint8, len(turns))} },
		Step: func(s, c, _ any) (bool, any) { return h.step(s.(state), c.(operation)) },
		Equal: func(a, b any) bool {
			s, o := a.(state), b.(state)
			return s.given == o.given && s.over == o.over && slices.Equal(s.docs, o.docs)
		},
		Hash: func(s any) uint64 {
			var hash maphash.Hash
			hash.SetSeed(seed)
			for _, d := range s.(state).docs {
				maphash.WriteComparable(&hash, d.ID)
				maphash.WriteComparable(&hash, d.Added.Unix())
				maphash.WriteComparable(&hash, d.Tokens)
				maphash.WriteComparable(&hash, d.Digest)
			}
			return hash.Sum64()
		},
	}
	if porcupine.CheckOperations(model, operations) {
		return nil
	}
	return h.unexplained(model, operations)
}

// unexplained reports how many calls an order can explain.
func (h *history) unexplained(model porcupine.Model, operations []porcupine.Operation) error {
	tried := h.steps
	h.steps = mostSteps - 10_000 // allow some more steps
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
	fmt.Fprintf(&text, "no order of %d calls explains their answers, after %d steps; the longest "+
		"found has %d, and leads to\n", len(operations), tried, len(longest))
	for _, d := range s.docs {
		fmt.Fprintf(&text, "    %+v\n", d)
	}
	fmt.Fprintln(&text, "Of the others, these come next:")
	operations = slices.DeleteFunc(operations, func(o porcupine.Operation) bool {
		return done[o.Input]
	})
	slices.SortFunc(operations, func(a, b porcupine.Operation) int {
		return cmp.Compare(a.Return, b.Return)
	})
	for _, o := range operations[:min(len(operations), 2*workerCount)] {
		c := o.Input.(operation)
		fmt.Fprintf(&text, "    [%d, %d] %+v\n", c.start, c.end, c.said)
	}
	return errors.New(text.String())
}
