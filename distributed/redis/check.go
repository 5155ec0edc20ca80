package redis

import (
	"context"
	"time"

	"github.com/neardup/neardup/index"
)

// checked is a document on its way to its verdict.
type checked struct {
	place
	keyed   bool
	hash    [16]byte
	old     index.Document // the earlier self; ID 0: none
	oldSeq  string         // what the key map says
	near    []candidate    // within k bits, but for itself and its earlier self
	of      index.Match    // the nearest record that matches; ID 0: none
	blocked bool           // what comes before it in the batch decides first

	seq     uint64    // for the next attempt; 0: one is to be drawn
	id      id        // of this attempt
	since   time.Time // when it began to wait for smaller ones
	open    []candidate
	verdict index.Verdict
}

func (c *checked) done() bool { return c.verdict.Status != 0 }

// check comes to the verdicts as if the documents came one after the other. In each round those go
// side by side that do not depend on each other. Done are the verdicts before the first that is missing.
func (x *Index) check(ctx context.Context, docs []index.Document) (verdicts []index.Verdict, err error) {
	all := make([]*checked, len(docs))
	for i := range docs {
		c := &checked{place: x.placeOf(&docs[i])}
		if c.keyed = docs[i].Key != ""; c.keyed {
			c.hash = hashOf(docs[i].Key)
		}
		all[i] = c
	}
	for left := all; len(left) > 0 && err == nil; left = undone(left) {
		if err = ctx.Err(); err == nil {
			err = x.round(ctx, left)
		}
	}
	for _, c := range all {
		if !c.done() {
			break
		}
		verdicts = append(verdicts, c.verdict)
	}
	return verdicts, err
}

func undone(all []*checked) (left []*checked) {
	for _, c := range all {
		if !c.done() {
			left = append(left, c)
		}
	}
	return left
}

// round looks for what all match, and goes on with those that depend on no earlier one.
func (x *Index) round(ctx context.Context, left []*checked) error {
	if err := x.look(ctx, left); err != nil {
		return err
	}
	var recrawled, announced []*checked
	for i, c := range left {
		c.blocked = x.dependsOn(c, left[:i])
		switch {
		case c.blocked:
		case c.of.ID == 0:
			announced = append(announced, c)
		case c.oldSeq == "":
			c.duplicate()
		default:
			recrawled = append(recrawled, c)
		}
	}
	if err := x.dropEarlier(ctx, recrawled); err != nil || len(announced) == 0 {
		return err
	}
	if err := x.number(ctx, left); err != nil {
		return err
	}
	if err := x.announce(ctx, announced); err != nil {
		return err
	}
	return x.settle(ctx, announced)
}

func (c *checked) duplicate() {
	c.verdict = index.Verdict{Status: index.Duplicate, Document: c.doc, Of: c.of}
	c.verdict.Document.ID, c.verdict.Document.Added = 0, time.Time{}
}

// dependsOn reports whether what becomes of an earlier document of the batch may bear on c.
func (x *Index) dependsOn(c *checked, earlier []*checked) bool {
	for _, e := range earlier {
		if e.done() {
			continue // a duplicate that changes nothing
		}
		if c.keyed && e.hash == c.hash || x.rule.Matches(&e.doc, &c.doc) {
			return true
		}
		if e.old.ID != 0 && has(c.near, id(e.old.ID)) || c.old.ID != 0 && e.of.ID == c.old.ID {
			return true
		}
	}
	return false
}

// look reads what is stored near to each, and its earlier self. Nothing is written.
func (x *Index) look(ctx context.Context, left []*checked) error {
	places, keys := make([]*place, len(left)), make([]*command, len(left))
	var more []*command
	for i, c := range left {
		places[i] = &c.place
		if c.keyed {
			keys[i] = &command{verb: get, keys: []string{x.name.key(c.hash)}}
			more = append(more, keys[i])
		}
	}
	found, err := x.candidates(ctx, false, places, more...)
	if err != nil {
		return err
	}
	cells := newCells(x)
	for i, c := range left {
		c.oldSeq = ""
		if c.keyed {
			c.oldSeq = keys[i].value
		}
		for _, n := range found[i] {
			cells.want(n.id)
		}
		if c.oldSeq != "" {
			cells.want(c.oldID())
		}
	}
	if err := cells.read(ctx, true); err != nil {
		return err
	}
	for i, c := range left {
		c.old, c.of, c.near = index.Document{}, index.Match{}, found[i]
		if c.oldSeq != "" {
			if d := cells.record(c.oldID()); d != nil && d.Key == c.doc.Key {
				c.old = *d
			}
		}
		for _, n := range c.near {
			x.consider(c, n, cells.record(n.id))
		}
	}
	return cells.err
}

func (c *checked) oldID() id { return idOfSeq(c.oldSeq, tagOf(&c.doc)) }

// consider takes a record as what c is a duplicate of, if it matches and is the nearest so far.
func (x *Index) consider(c *checked, n candidate, d *index.Document) {
	if d == nil || c.keyed && d.Key == c.doc.Key || d.Scope != c.doc.Scope || !x.rule.Allows(n.distance, d.Signature(), c.doc.Signature()) {
		return
	}
	if c.of.ID == 0 || n.distance < c.of.Distance || n.distance == c.of.Distance && d.ID < c.of.ID {
		c.of = index.Match{Document: *d, Distance: n.distance}
	}
}

// dropEarlier makes duplicates of recrawled documents: the earlier self goes, and then what they
// are duplicates of must still be there. Where it is not, or the key has another document by
// now, the document stays undone and is looked for again.
func (x *Index) dropEarlier(ctx context.Context, recrawled []*checked) error {
	if len(recrawled) == 0 {
		return nil
	}
	var drops []*command
	for _, c := range recrawled {
		drops = append(drops, x.drop(c.oldID(), c.doc.Key))
	}
	if err := x.run.run(ctx, true, drops); err != nil {
		return err
	}
	cells := newCells(x)
	var gone []*command
	for i, c := range recrawled {
		if drops[i].value == committed {
			gone = append(gone, x.removal(&c.old)...)
		}
		cells.want(id(c.of.ID))
	}
	if err := cells.read(ctx, true); err != nil {
		return err
	}
	for i, c := range recrawled {
		if drops[i].value == committed && cells.record(id(c.of.ID)) != nil {
			c.duplicate()
		}
	}
	return x.run.run(ctx, false, gone)
}

// number gives sequence numbers to those that have none, in the order of the batch, by which one of two
// documents that are equally near is taken.
func (x *Index) number(ctx context.Context, left []*checked) error {
	var without []*checked
	for _, c := range left {
		if !c.done() && c.seq == 0 {
			without = append(without, c)
		}
	}
	first, err := x.draw(ctx, uint64(len(without)))
	for i, c := range without {
		c.seq = first + uint64(i)
	}
	return err
}

// announce writes the entries of documents under new IDs, and then reads what else is there.
func (x *Index) announce(ctx context.Context, announced []*checked) error {
	var entries []*command
	places := make([]*place, len(announced))
	for i, c := range announced {
		c.id, c.seq, places[i] = idOf(c.seq, tagOf(&c.doc)), 0, &c.place
		for t, bucket := range c.buckets {
			entry := string(appendEntry(nil, &x.plan.Tables[t], c.stored, c.id))
			entries = append(entries, &command{verb: announce, keys: []string{bucket}, args: []any{entry}})
		}
	}
	if err := x.run.run(ctx, true, entries); err != nil {
		return err
	}
	found, err := x.candidates(ctx, true, places)
	if err != nil {
		return err
	}
	for i, c := range announced {
		c.open, c.since, c.of = nil, x.now(), index.Match{}
		for _, n := range found[i] {
			if n.id != c.id && (c.oldSeq == "" || n.id != c.oldID()) {
				c.open = append(c.open, n)
			}
		}
	}
	return nil
}

// settle commits those of whose candidates every one is settled. Who loses to a record is a
// duplicate; who was killed stays undone.
func (x *Index) settle(ctx context.Context, announced []*checked) error {
	for waiting := announced; len(waiting) > 0; {
		cells := newCells(x)
		for _, c := range waiting {
			for _, n := range c.open {
				cells.want(n.id)
			}
		}
		if err := cells.read(ctx, true); err != nil {
			return err
		}
		var ready, lost, still []*checked
		var kills []*command
		for _, c := range waiting {
			kills = append(kills, x.sift(c, cells)...)
			switch {
			case c.of.ID != 0:
				lost = append(lost, c)
			case len(c.open) == 0:
				ready = append(ready, c)
			default:
				still = append(still, c)
			}
		}
		if cells.err != nil {
			return cells.err
		}
		if err := x.run.run(ctx, true, kills); err != nil {
			return err
		}
		if err := x.lose(ctx, lost); err != nil {
			return err
		}
		if err := x.commit(ctx, ready); err != nil {
			return err
		}
		if waiting = still; len(still) > 0 && len(kills) == 0 {
			if err := x.pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// sift leaves open what is pending, and returns what kills of these those that are not waited for.
func (x *Index) sift(c *checked, cells *cells) (kills []*command) {
	var open []candidate
	for _, n := range c.open {
		if !cells.pending(n.id) {
			x.consider(c, n, cells.record(n.id))
			continue
		}
		open = append(open, n)
		if n.id > c.id || x.now().Sub(c.since) >= x.lease {
			kills = append(kills, x.kill(n.id))
		}
	}
	if c.open = open; c.of.ID != 0 {
		return nil
	}
	return kills
}

// lose takes back what documents announced that turned out to be duplicates.
func (x *Index) lose(ctx context.Context, lost []*checked) error {
	var recrawled []*checked
	for _, c := range lost {
		if c.oldSeq == "" {
			c.duplicate()
		} else {
			recrawled = append(recrawled, c)
		}
	}
	if err := x.dropEarlier(ctx, recrawled); err != nil {
		return err
	}
	return x.takeBack(ctx, lost)
}

func (x *Index) takeBack(ctx context.Context, lost []*checked) error {
	var kills, gone []*command
	for _, c := range lost {
		kills = append(kills, x.kill(c.id))
		gone = append(gone, x.removeEntries(&c.place, c.id)...)
	}
	if err := x.run.run(ctx, false, kills); err != nil {
		return err
	}
	return x.run.run(ctx, false, gone)
}

// commit makes documents records, unless they were killed.
func (x *Index) commit(ctx context.Context, ready []*checked) error {
	commits := make([]*command, len(ready))
	for i, c := range ready {
		c.doc.ID, c.doc.Added = uint64(c.id), x.now().UTC().Truncate(time.Second)
		commits[i] = x.commitOf(c)
	}
	if err := x.run.run(ctx, true, commits); err != nil {
		return err
	}
	var again []*checked
	var gone []*command
	for i, c := range ready {
		if commits[i].value != committed {
			again = append(again, c)
			continue
		}
		c.verdict = index.Verdict{Status: index.New, Document: c.doc}
		if c.old.ID != 0 {
			c.verdict.Status = index.Known
			c.verdict.Of = index.Match{Document: c.old, Distance: c.old.Fingerprint.Distance(c.doc.Fingerprint)}
			gone = append(gone, x.removal(&c.old)...)
		}
	}
	if err := x.run.run(ctx, false, gone); err != nil {
		return err
	}
	return x.takeBack(ctx, again)
}

func (x *Index) commitOf(c *checked) *command {
	tag := tagOf(&c.doc)
	cmd := &command{verb: commit, keys: []string{x.name.cell(c.id), x.name.floor(tag)}, args: []any{c.id.seq(), c.id.seqBytes(), record(&c.doc)}}
	if c.keyed {
		earlier := x.name.cell(c.id)
		if c.oldSeq != "" {
			earlier = x.name.cell(c.oldID())
		}
		cmd.keys, cmd.args = append(cmd.keys, x.name.key(c.hash), earlier), append(cmd.args, c.oldSeq)
	}
	return cmd
}
