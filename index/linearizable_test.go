package index_test

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/neardup/neardup/internal/testing/indextest"
)

// call is a call on one site, with its answer. Each document of a batch is a separate call, since
// CheckAndAddBatch must do the same as CheckAndAdd for each document.
type call struct {
	site       int
	start, end int64
	said       []any // the call and its answer, for messages

	// apply returns the documents after the call, and whether the answer is right, if the documents
	// before the call are docs.
	apply func(docs indextest.Documents) (indextest.Documents, bool)

	ids []uint64 // IDs of the documents that the call stored
	// IDs that the call assigned for certain; the other ids may be kept from earlier versions
	gave  []uint64
	reads bool   // the call changes nothing and does not depend on durable data
	holds bool   // the answer is right even if the call returned an error
	batch int64  // equal for the documents of a batch
	of    uint64 // the original of a duplicate in a batch

	chain int // chain of duplicates of a batch: see the function chain; negative: none
	turn  int // position in the chain
}

// Times after all others. The documents after a crash are those at afterAll. Calls that may not
// have happened before the crash end at never.
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
	given int   // number of IDs assigned so far
	over  bool  // later calls did not happen before the crash
	turns []int // number of calls of each chain so far
}

// step returns the state after a call, if the call's answer is right. ids has the IDs that all
// calls assign, ascending, in the order of their commits.
func (s state) step(c *call, ids []uint64) (bool, state) {
	if s.over {
		return true, s
	}
	if c.chain >= 0 && s.turns[c.chain] != c.turn {
		return false, s
	}
	docs, right := c.apply(s.docs)
	after := state{docs, s.given, c.end == afterAll, s.turns}
	if c.chain >= 0 {
		after.turns = slices.Clone(s.turns)
		after.turns[c.chain]++
	}
	for _, id := range c.ids {
		if s.docs.Has(id) { // the ID of an earlier version
			continue
		}
		right = right && after.given < len(ids) && ids[after.given] == id
		after.given++
	}
	return right, after
}

// chain puts the duplicates of each batch into chains, and returns a zero for each chain. The calls
// of a chain happen in order, since CheckAndAddBatch decides the documents of a batch in order. The
// duplicates of documents of other batches have their own chain, since CheckAndAddBatch may find
// them before it stores the other documents of the commit. The IDs of stored documents determine
// the order of these. Without chains, the search for an order may take forever.
func chain(calls []*call) (turns []int) {
	type key struct {
		batch  int64
		within bool // the originals are of the same batch
	}
	chains, givenBy := make(map[key]int), make(map[uint64]int64)
	for _, c := range calls {
		c.chain = -1
		if len(c.gave) > 0 {
			givenBy[c.gave[0]] = c.batch
		} else if c.batch != 0 && len(c.ids) == 0 {
			k := key{c.batch, givenBy[c.of] == c.batch}
			n, begun := chains[k]
			if !begun {
				n, turns = len(turns), append(turns, 0)
				chains[k] = n
			}
			c.chain, c.turn = n, turns[n]
			turns[n]++
		}
	}
	return make([]int, len(turns))
}

// patience bounds the search for an order of the calls. If an order exists, the search usually
// finds it at once. Proving that none exists may take forever.
const patience = 2 * time.Minute

// explain returns an error unless some order of the calls, starting from the documents first,
// explains their answers.
func explain(first indextest.Documents, calls []*call) error {
	var ids []uint64
	operations := make([]porcupine.Operation, len(calls))
	for i, c := range calls {
		operations[i] = porcupine.Operation{Input: c, Call: c.start, Return: c.end}
		for _, id := range c.ids {
			if !first.Has(id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	start := state{docs: first, turns: chain(calls)}
	seed := maphash.MakeSeed()
	model := porcupine.Model{
		Init: func() any { return start },
		Step: func(s, c, _ any) (bool, any) { return s.(state).step(c.(*call), ids) },
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
	if porcupine.CheckOperationsTimeout(model, operations, patience) == porcupine.Ok {
		return nil
	}
	_, info := porcupine.CheckOperationsVerbose(model, operations, patience/10)
	longest := slices.MaxFunc(info.PartialLinearizationsOperations()[0],
		func(a, b []porcupine.Operation) int { return cmp.Compare(len(a), len(b)) })
	s := start
	for _, o := range longest {
		_, s = s.step(o.Input.(*call), ids)
		calls = slices.DeleteFunc(calls, func(c *call) bool { return c == o.Input })
	}
	var text strings.Builder
	fmt.Fprintf(&text, "no order of %d calls explains their answers; the longest that was found "+
		"has %d, and leads to\n", len(operations), len(longest))
	for _, d := range s.docs {
		fmt.Fprintf(&text, "    %+v\n", d)
	}
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.end, b.end) })
	for _, c := range calls[:min(len(calls), 2*workerCount)] {
		fmt.Fprintf(&text, "not explained: [%d, %d] %+v\n", c.start, c.end, c.said)
	}
	return fmt.Errorf("%s", text.String())
}
