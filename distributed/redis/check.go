package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/neardup/neardup/index"
)

// checked is a document that is being checked.
type checked struct {
	place
	old  index.Document // the earlier version of its key; ID 0 means none
	near []candidate    // within k bits
	of   index.Match    // the nearest matching record; ID 0 means none

	seq     uint64      // for the next attempt; 0 means that none was drawn
	id      id          // of the current attempt
	since   time.Time   // the start of the wait for pending documents with smaller numbers
	open    []candidate // pending documents
	verdict index.Verdict
}

func (c *checked) done() bool { return c.verdict.Status != 0 }

// check returns the same verdicts as if the documents were checked one after another. Each round
// handles documents that do not depend on each other. After an error, check returns the verdicts
// up to the first document without a verdict.
func (x *Index) check(
	ctx context.Context, docs []index.Document,
) (verdicts []index.Verdict, err error) {
	all := make([]*checked, len(docs))
	for i := range docs {
		all[i] = &checked{place: x.placeOf(&docs[i])}
	}
	for left := slices.Clone(all); len(left) > 0 && err == nil; left = slices.DeleteFunc(left,
		(*checked).done) {
		err = x.round(ctx, left)
	}
	for _, c := range all {
		if !c.done() {
			break
		}
		verdicts = append(verdicts, c.verdict)
	}
	return verdicts, err
}

// round finds the matches of all documents, and decides the documents that do not depend on an
// earlier one.
func (x *Index) round(ctx context.Context, left []*checked) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := x.look(ctx, left); err != nil {
		return err
	}
	var found, announced []*checked
	for i, c := range left {
		switch {
		case x.dependsOn(c, left[:i]):
		case c.of.ID != 0 && c.old.ID == 0:
			c.duplicate() // now, so that later copies of the document need not wait
		case c.of.ID != 0:
			found = append(found, c)
		default:
			announced = append(announced, c)
		}
	}
	if err := x.duplicates(ctx, found); err != nil || len(announced) == 0 {
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

// dependsOn reports whether the verdict of an earlier document of the batch may affect c.
func (x *Index) dependsOn(c *checked, earlier []*checked) bool {
	for _, e := range earlier {
		if e.done() {
			continue // a duplicate, which changes nothing
		}
		if c.doc.Key != "" && e.doc.Key == c.doc.Key || x.rule.Matches(&e.doc, &c.doc) {
			return true
		}
		if e.old.ID != 0 && has(c.near, x.idOf(&e.old)) || c.old.ID != 0 &&
			has(e.near, x.idOf(&c.old)) {
			return true
		}
	}
	return false
}

// look reads the stored documents near each document, and the logs of their keys. It writes
// nothing.
func (x *Index) look(ctx context.Context, left []*checked) error {
	places, groups := make([]*place, len(left)), make([]uint32, len(left))
	for i, c := range left {
		places[i], groups[i] = &c.place, c.group
	}
	found, near, own, err := x.search(ctx, true, places, groups)
	if err != nil {
		return err
	}
	for i, c := range left {
		c.old, c.of, c.near = index.Document{}, index.Match{}, found[i]
		if s := own[c.group].byKey[c.doc.Key]; s != nil {
			c.old = ownCopy(&s.doc)
		}
		for _, n := range c.near {
			x.consider(c, n, near.record(n.id))
		}
	}
	return nil
}

// consider sets c.of to a record if the record matches and is the nearest one so far.
func (x *Index) consider(c *checked, n candidate, d *index.Document) {
	if d == nil || d.Key != "" && d.Key == c.doc.Key || d.Scope != c.doc.Scope ||
		!x.rule.Allows(n.distance, d.Signature(), c.doc.Signature()) {
		return
	}
	if c.of.ID == 0 || n.distance < c.of.Distance || n.distance == c.of.Distance && d.ID < c.of.ID {
		c.of = index.Match{Document: ownCopy(d), Distance: n.distance}
	}
}

// ownCopy copies the strings of a document. They are parts of a log, which would stay in memory.
func ownCopy(d *index.Document) index.Document {
	own := *d
	own.Key, own.Scope = strings.Clone(d.Key), strings.Clone(d.Scope)
	return own
}

// duplicates decides documents that match a record. If a page was crawled before, duplicates
// removes its earlier version. The matching record must still exist after that. If it does not, or
// if the key has another document by then, the document remains undecided for the next round.
func (x *Index) duplicates(ctx context.Context, found []*checked) error {
	var olds []index.Document
	var groups []uint32
	for _, c := range found {
		if c.old.ID != 0 {
			olds, groups = append(olds, c.old), append(groups, x.groupOf(&c.of.Document))
		}
	}
	dropped, err := x.drop(ctx, olds)
	if err != nil {
		return err
	}
	of, err := x.readLogs(ctx, true, groups)
	if err != nil {
		return err
	}
	for _, c := range found {
		if c.old.ID == 0 || dropped[c.old.ID] && of.record(x.idOf(&c.of.Document)) != nil {
			c.duplicate()
		}
	}
	return nil
}

func (c *checked) duplicate() {
	c.verdict = index.Verdict{Status: index.Duplicate, Document: c.doc, Of: c.of,
		Removed: c.old.ID != 0}
	c.verdict.Document.ID, c.verdict.Document.Added = 0, time.Time{}
}

// number draws sequence numbers for the documents without one, in the order of the batch. The
// smaller number decides between two documents at equal distance.
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

// announce writes the entries of documents under new IDs, and then reads the buckets. It ignores
// the entries of the other documents in announced, since dependsOn has excluded a match.
func (x *Index) announce(ctx context.Context, announced []*checked) error {
	var says []*command
	places, together := make([]*place, len(announced)), make(map[id]bool, len(announced))
	for i, c := range announced {
		c.id, c.seq, places[i] = id{c.seq, c.group}, 0, &c.place
		together[c.id] = true
		for t, bucket := range c.buckets {
			says = append(says, newCommand(say, bucket, entryOf(&x.plan.Tables[t], c.stored, c.id)))
		}
	}
	if err := x.run(ctx, true, says); err != nil {
		return err
	}
	found, err := x.candidates(places, says)
	if err != nil {
		return err
	}
	for i, c := range announced {
		c.open, c.since, c.of = nil, x.now(), index.Match{}
		for _, n := range found[i] {
			if !together[n.id] && (c.old.ID == 0 || n.id != x.idOf(&c.old)) {
				c.open = append(c.open, n)
			}
		}
	}
	return nil
}

// settle commits each announced document after all its candidates are settled. A document that
// matches a record is a duplicate. A document that another process killed remains undecided.
func (x *Index) settle(ctx context.Context, announced []*checked) error {
	for waiting := announced; len(waiting) > 0; {
		var open []candidate
		for _, c := range waiting {
			open = append(open, c.open...)
		}
		near, err := x.readLogs(ctx, true, groupsOf(open))
		if err != nil {
			return err
		}
		var ready, lost, still []*checked
		var kills []*command
		for _, c := range waiting {
			kills = append(kills, x.sift(c, near)...)
			switch {
			case c.of.ID != 0:
				lost = append(lost, c)
			case len(c.open) == 0:
				ready = append(ready, c)
			default:
				still = append(still, c)
			}
		}
		if err := x.run(ctx, true, kills); err != nil {
			return err
		}
		if err := x.duplicates(ctx, lost); err != nil {
			return err
		}
		if err := x.takeBack(ctx, lost, strays{}); err != nil {
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

// sift removes the settled candidates from c.open, and considers their records. It returns commands
// that kill the pending candidates for which c does not wait.
func (x *Index) sift(c *checked, near logs) (kills []*command) {
	var open []candidate
	for _, n := range c.open {
		if !near.pending(n.id) {
			x.consider(c, n, near.record(n.id))
			continue
		}
		open = append(open, n)
		if n.id.seq > c.id.seq || x.now().Sub(c.since) >= x.lease {
			kills = append(kills, x.kill(n.id))
		}
	}
	if c.open = open; c.of.ID != 0 {
		return nil
	}
	return kills
}

// takeBack kills the announced documents in lost. It removes their entries, and the entries of the
// dead documents in gone.
func (x *Index) takeBack(ctx context.Context, lost []*checked, gone strays) error {
	var kills []*command
	for _, c := range lost {
		kills, gone[c.id] = append(kills, x.kill(c.id)), c.buckets
	}
	if err := x.run(ctx, false, kills); err != nil {
		return err
	}
	return x.remove(ctx, gone)
}

// commit writes the records of documents. A document that was killed remains undecided, and so does
// a document whose key has another earlier version by then.
func (x *Index) commit(ctx context.Context, ready []*checked) error {
	commits := make([]*command, len(ready))
	for i, c := range ready {
		c.doc.ID, c.doc.Added = c.id.seq, x.now().UTC().Truncate(time.Second)
		commits[i] = newCommand(say, x.name.group(c.group), commitEntry(&c.doc, c.old.ID))
	}
	if err := x.run(ctx, true, commits); err != nil {
		return err
	}
	var again []*checked
	var olds []index.Document
	var rewrites []*command
	ahead := uint64(0) // the largest floor that refused a commit
	for i, c := range ready {
		log, err := commits[i].log()
		if err != nil {
			return err
		}
		if s := log.state(c.id.seq); s == nil || !s.committed {
			if again = append(again, c); c.id.seq <= log.floor {
				ahead = max(ahead, log.floor)
			}
			continue
		}
		c.verdict = index.Verdict{Status: index.New, Document: c.doc}
		if c.old.ID != 0 {
			c.verdict.Status = index.Known
			c.verdict.Of = index.Match{Document: c.old,
				Distance: c.old.Fingerprint.Distance(c.doc.Fingerprint)}
			olds = append(olds, c.old)
		}
		floor := max(x.floorAt(c.id.seq), log.floor)
		// a log that is not rewritten here is rewritten by the next commit
		if len(log.value) > x.longLog && 2*len(log.rewritten(floor)) < len(log.value) {
			rewrites = append(rewrites, log.rewrite(floor))
		}
	}
	if err := x.run(ctx, false, rewrites); err != nil {
		return err
	}
	if err := x.takeBack(ctx, again, x.strays(olds)); err != nil || ahead == 0 {
		return err
	}
	if last, err := x.reserve(ctx, 0); err != nil || ahead <= last {
		return err
	}
	return fmt.Errorf("%w: a log has floor %d, which is above the last sequence number: key %q "+
		"was lost; restore it from a backup", index.ErrCorrupt, ahead, x.name.sequence())
}

// floorAt returns the floor at the time at which seq is drawn. The commit of a document up to the
// floor is refused. The floor must not refuse a repeated commit that succeeded the first time:
// its process would find no record, and no process would report the document as New.
func (x *Index) floorAt(seq uint64) uint64 {
	return seq - min(seq, uint64(x.grace.Seconds()*ticksSecond))
}
