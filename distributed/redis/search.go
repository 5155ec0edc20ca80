package redis

import (
	"cmp"
	"context"
	"maps"
	"math/bits"
	"slices"

	"github.com/neardup/neardup/index"
)

// place has a document, and the keys under which it is stored.
type place struct {
	doc     index.Document
	group   uint32
	stored  uint64
	buckets []string // one per table
}

func (x *Index) placeOf(d *index.Document) place {
	p := place{doc: *d, group: x.groupOf(d), stored: storedOf(d)}
	for t := range x.plan.Tables {
		p.buckets = append(p.buckets, x.name.bucket(t, &x.plan.Tables[t], p.stored))
	}
	return p
}

// candidate is a document whose fingerprint is within k bits.
type candidate struct {
	id       id
	distance int
}

func has(near []candidate, of id) bool {
	return slices.ContainsFunc(near, func(n candidate) bool { return n.id == of })
}

func groupsOf(near []candidate) (groups []uint32) {
	for _, n := range near {
		groups = append(groups, n.id.group)
	}
	return groups
}

func gets(keys []string) (reads []*command) {
	for _, key := range keys {
		reads = append(reads, newCommand(get, key))
	}
	return reads
}

// candidates returns the documents near each place. reads are the commands that have read its
// buckets.
func (x *Index) candidates(places []*place, reads []*command) ([][]candidate, error) {
	found, seen := make([][]candidate, len(places)), make(map[id]bool)
	for i, p := range places {
		clear(seen)
		for t := range x.plan.Tables {
			table := &x.plan.Tables[t]
			permuted := table.Permute(p.stored)
			err := x.entries(reads[i*len(p.buckets)+t], func(_ string, other uint64, of id) {
				if d := bits.OnesCount64(other ^ permuted); d <= x.plan.MaxDistance && !seen[of] {
					seen[of] = true
					found[i] = append(found[i], candidate{of, d})
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// search returns the documents within k bits of each place, and their logs. In the same round trip
// as the buckets, it also reads the logs of the given groups.
func (x *Index) search(
	ctx context.Context, durable bool, places []*place, groups []uint32,
) (found [][]candidate, near, own logs, err error) {
	var reads []*command
	for _, p := range places {
		reads = append(reads, gets(p.buckets)...)
	}
	if own, err = x.readLogs(ctx, false, groups, reads...); err != nil {
		return nil, nil, nil, err
	}
	if found, err = x.candidates(places, reads); err != nil {
		return nil, nil, nil, err
	}
	near, err = x.readLogs(ctx, durable, groupsOf(slices.Concat(found...)))
	return found, near, own, err
}

// logs maps groups to their logs.
type logs map[uint32]*groupLog

// readLogs reads the logs of groups, each once, and runs the commands in more in the same round
// trip.
func (x *Index) readLogs(
	ctx context.Context, durable bool, groups []uint32, more ...*command,
) (logs, error) {
	groups = slices.Compact(slices.Sorted(slices.Values(groups)))
	for _, group := range groups {
		more = append(more, newCommand(get, x.name.group(group)))
	}
	if err := x.run(ctx, durable, more); err != nil {
		return nil, err
	}
	l := make(logs, len(groups))
	for i, group := range groups {
		var err error
		if l[group], err = more[len(more)-len(groups)+i].log(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l logs) pending(of id) bool { return l[of.group].state(of.seq) == nil }

// record returns the record of a document, or nil if the document is pending or dead.
func (l logs) record(of id) *index.Document { return l[of.group].record(of.seq) }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// strays maps dead documents to the buckets that may have entries of them.
type strays map[id][]string

func (x *Index) strays(docs []index.Document) strays {
	gone := make(strays, len(docs))
	for i := range docs {
		p := x.placeOf(&docs[i])
		gone[id{docs[i].ID, p.group}] = p.buckets
	}
	return gone
}

// remove removes the entries of documents from buckets. If another process changes a bucket at the
// same time, its entries remain until Sweep.
func (x *Index) remove(ctx context.Context, gone strays) error {
	buckets := slices.Concat(slices.Collect(maps.Values(gone))...)
	reads := gets(slices.Compact(slices.Sorted(slices.Values(buckets))))
	if err := x.run(ctx, false, reads); err != nil {
		return err
	}
	return x.rewrite(ctx, reads, gone)
}

// rewrite writes buckets again, without the entries of dead documents and without repeated entries.
func (x *Index) rewrite(ctx context.Context, reads []*command, gone strays) error {
	var amends []*command
	for _, r := range reads {
		kept, seen := make([]byte, 0, len(r.value)), make(map[id]bool)
		err := x.entries(r, func(entry string, _ uint64, of id) {
			if _, dead := gone[of]; !dead && !seen[of] {
				seen[of], kept = true, append(kept, entry...)
			}
		})
		if err != nil {
			return err
		}
		amends = append(amends, newCommand(amend, r.key, r.value, string(kept), ""))
	}
	return x.run(ctx, false, amends)
}

// drop marks records as dead and removes their entries. It returns the IDs of the records that this
// call, and no other, marked.
func (x *Index) drop(ctx context.Context, docs []index.Document) (map[uint64]bool, error) {
	drops, tokens := make([]*command, len(docs)), make([]string, len(docs))
	for i := range docs {
		tokens[i] = x.token()
		drops[i] = newCommand(amend, x.name.group(x.groupOf(&docs[i])), "", "",
			logEntry(isDropped, docs[i].ID, tokens[i]))
	}
	if err := x.run(ctx, true, drops); err != nil {
		return nil, err
	}
	var gone []index.Document
	dropped := make(map[uint64]bool)
	for i, d := range docs {
		l, err := drops[i].log()
		if err != nil {
			return nil, err
		}
		if s := l.state(d.ID); s.token == tokens[i] {
			dropped[d.ID], gone = true, append(gone, d)
		}
	}
	return dropped, x.remove(ctx, x.strays(gone))
}

func (x *Index) kill(of id) *command {
	return newCommand(amend, x.name.group(of.group), "", "", logEntry(isKilled, of.seq, ""))
}
