package redis

import (
	"context"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"

	"github.com/neardup/neardup/index"
)

// place is where a document is found.
type place struct {
	doc     index.Document
	stored  uint64
	buckets []string // of each table
}

func (x *Index) placeOf(d *index.Document) place {
	p := place{doc: *d, stored: storedOf(d.Fingerprint, d.Scope)}
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

// candidates reads the buckets of places, and does what else goes with it.
func (x *Index) candidates(ctx context.Context, durable bool, places []*place, more ...*command) ([][]candidate, error) {
	reads := make([]*command, 0, len(places)*len(x.plan.Tables)+len(more))
	for _, p := range places {
		for _, bucket := range p.buckets {
			reads = append(reads, &command{verb: get, keys: []string{bucket}})
		}
	}
	if err := x.run.run(ctx, durable, append(reads, more...)); err != nil {
		return nil, err
	}
	found := make([][]candidate, len(places))
	for i, p := range places {
		for t := range x.plan.Tables {
			table := &x.plan.Tables[t]
			permuted := table.Permute(p.stored)
			prefix, _ := table.PrefixRange(permuted)
			err := entries(table, prefix, reads[i*len(p.buckets)+t].value, func(other uint64, of id) {
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

// cells reads the cells of documents, each once.
type cells struct {
	index *Index
	reads map[id]*command
	err   error // the first record that cannot be read
}

func newCells(x *Index) *cells { return &cells{index: x, reads: make(map[id]*command)} }

func (c *cells) want(of id) {
	if c.reads[of] == nil {
		c.reads[of] = &command{verb: get, keys: []string{c.index.name.cell(of)}}
	}
}

func (c *cells) read(ctx context.Context, durable bool) error {
	reads := make([]*command, 0, len(c.reads))
	for _, of := range slices.Sorted(maps.Keys(c.reads)) {
		reads = append(reads, c.reads[of])
	}
	return c.index.run.run(ctx, durable, reads)
}

func (c *cells) pending(of id) bool { return c.reads[of].value == "" }

// record is nil for a document that is pending, or dead.
func (c *cells) record(of id) *index.Document {
	cell := c.reads[of].value
	if cell == "" || isDead(cell) {
		return nil
	}
	d, err := parseRecord(of, cell)
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		return nil
	}
	return &d
}

func isDead(cell string) bool { return cell != "" && cell[0] == dead[0] }

func idOfSeq(seq string, tag uint16) id {
	var b [8]byte
	copy(b[:], seq)
	binary.BigEndian.PutUint16(b[seqBytes:], tag)
	return id(binary.BigEndian.Uint64(b[:]))
}

func (x *Index) kill(of id) *command {
	return &command{verb: kill, keys: []string{x.name.cell(of)}}
}

// drop is what makes a record dead, with its key.
func (x *Index) drop(of id, key string) *command {
	cmd := &command{verb: drop, keys: []string{x.name.cell(of)}, args: []any{of.seqBytes(), x.token()}}
	if key != "" {
		cmd.keys = append(cmd.keys, x.name.key(hashOf(key)))
	}
	return cmd
}

// removal is what takes the entries of a document out of its buckets, if there is one.
func (x *Index) removal(d *index.Document) []*command {
	if d.ID == 0 {
		return nil
	}
	p := x.placeOf(d)
	return x.removeEntries(&p, id(d.ID))
}

func (x *Index) removeEntries(p *place, of id) (gone []*command) {
	raw := string(binary.BigEndian.AppendUint64(nil, uint64(of)))
	for t, bucket := range p.buckets {
		gone = append(gone, &command{verb: remove, keys: []string{bucket}, args: []any{entryBytes(&x.plan.Tables[t]), raw}})
	}
	return gone
}
