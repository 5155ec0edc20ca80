package redis

import (
	"cmp"
	"context"
	"maps"
	"math/bits"
	"slices"

	"github.com/neardup/neardup/index"
)

// place is where a document is found.
type place struct {
	doc     index.Document
	group   uint32
	stored  uint64
	buckets []string // of each table
}

func (x *Index) placeOf(d *index.Document) place {
	p := place{doc: *d, group: x.groupOf(d), stored: storedOf(d)}
	for t := range x.plan.Tables {
		p.buckets = append(p.buckets, x.name.bucket(t, &x.plan.Tables[t], p.stored))
	}
	return p
}

// candidate is a document of whose fingerprint it is known that it is within k bits.
type candidate struct {
	id       id
	distance int
}

func has(near []candidate, of id) bool {
	return slices.ContainsFunc(near, func(n candidate) bool { return n.id == of })
}

// lookup reads the buckets of places.
func (x *Index) lookup(places []*place) (reads []*command) {
	for _, p := range places {
		for _, bucket := range p.buckets {
			reads = append(reads, &command{verb: get, key: bucket})
		}
	}
	return reads
}

// candidates finds in buckets that were read what is near to each place.
func (x *Index) candidates(places []*place, reads []*command) ([][]candidate, error) {
	found := make([][]candidate, len(places))
	for i, p := range places {
		for t := range x.plan.Tables {
			table := &x.plan.Tables[t]
			permuted := table.Permute(p.stored)
			prefix, _ := table.PrefixRange(permuted)
			err := entries(table, prefix, reads[i*len(p.buckets)+t].value, func(_ string, other uint64, of id) {
				if d := bits.OnesCount64(other ^ permuted); d <= x.plan.MaxDistance && !has(found[i], of) {
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

// logs reads the logs of groups, each once.
type logs struct {
	x     *Index
	reads map[uint32]*command
	state map[uint32]*groupLog
}

func (x *Index) newLogs() *logs {
	return &logs{x, make(map[uint32]*command), make(map[uint32]*groupLog)}
}

// want has a group read, and returns the command for it.
func (l *logs) want(group uint32) *command {
	if l.reads[group] == nil {
		l.reads[group] = &command{verb: get, key: l.x.name.group(group)}
	}
	return l.reads[group]
}

func (l *logs) read(ctx context.Context, durable bool, more ...*command) error {
	for _, group := range sortedKeys(l.reads) {
		more = append(more, l.reads[group])
	}
	if err := l.x.run.run(ctx, durable, more); err != nil {
		return err
	}
	for group, read := range l.reads {
		var err error
		if l.state[group], err = read.log(); err != nil {
			return err
		}
	}
	return nil
}

func (l *logs) pending(of id) bool { return l.state[of.group].state(of.seq) == nil }

// record is nil for a document that is pending, or dead.
func (l *logs) record(of id) *index.Document { return l.state[of.group].record(of.seq) }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// remove takes entries out of buckets: of each, a table's bucket and an ID. Where others change a bucket meanwhile, its
// entries are left for a sweep.
func (x *Index) remove(ctx context.Context, gone []posting) error {
	if len(gone) == 0 {
		return nil
	}
	ids, reads := make(map[string][]id), []*command(nil)
	for _, g := range gone {
		for _, bucket := range g.buckets {
			if ids[bucket] == nil {
				reads = append(reads, &command{verb: get, key: bucket})
			}
			ids[bucket] = append(ids[bucket], g.id)
		}
	}
	if err := x.run.run(ctx, false, reads); err != nil {
		return err
	}
	return x.rewrite(ctx, reads, func(bucket string, of id) bool { return slices.Contains(ids[bucket], of) })
}

// posting is what a document has in buckets.
type posting struct {
	buckets []string
	id      id
}

func (x *Index) postingOf(d *index.Document) posting {
	p := x.placeOf(d)
	return posting{p.buckets, x.idOf(d)}
}

// rewrite writes buckets that were read anew: without what is gone, and without what is there twice.
func (x *Index) rewrite(ctx context.Context, reads []*command, gone func(bucket string, of id) bool) error {
	var amends []*command
	for _, r := range reads {
		table, prefix, err := x.name.parseBucket(x.plan, r.key)
		if err != nil {
			return err
		}
		kept, seen := make([]byte, 0, len(r.value)), make(map[id]bool)
		err = entries(table, prefix, r.value, func(entry string, _ uint64, of id) {
			if !seen[of] && !gone(r.key, of) {
				seen[of], kept = true, append(kept, entry...)
			}
		})
		if err != nil {
			return err
		}
		amends = append(amends, &command{verb: amend, key: r.key, args: []any{r.value, string(kept), ""}})
	}
	return x.run.run(ctx, false, amends)
}

// drop makes records dead, and reports which of them this call has.
func (x *Index) drop(ctx context.Context, ids []id) ([]bool, error) {
	drops, tokens := make([]*command, len(ids)), make([]string, len(ids))
	for i, of := range ids {
		tokens[i] = x.token()
		drops[i] = &command{verb: amend, key: x.name.group(of.group), args: []any{"", "", dropEntry(of.seq, tokens[i])}}
	}
	if err := x.run.run(ctx, true, drops); err != nil {
		return nil, err
	}
	did := make([]bool, len(ids))
	for i, of := range ids {
		l, err := drops[i].log()
		if err != nil {
			return nil, err
		}
		s := l.state(of.seq)
		did[i] = s != nil && s.token == tokens[i]
	}
	return did, nil
}

func (x *Index) kill(of id) *command {
	return &command{verb: amend, key: x.name.group(of.group), args: []any{"", "", killEntry(of.seq)}}
}
