package main

import "context"

var pairsCommand = command{
	name:    "pairs",
	args:    "[-k 3] [-output-format json|csv] -index DIR | FINGERPRINTS...",
	summary: "print every pair of near-duplicates in an index or in lists of fingerprints, once",
	more: `Equal fingerprints are one, with a count; -equal lists all pairs of documents instead.
With -compat simhash-cpp it takes the flags of simhash-find-all (-b -d -i -o) and writes
what that writes.`,
	run: runPairs,
}

func runPairs(ctx context.Context, c *call) error {
	c.in = readUntilDone(ctx, c.in)
	f := c.joinFlags()
	if err := f.parse(); err != nil {
		return err
	}
	if f.memory > 0 && f.equal {
		return usagef("-memory lists pairs of distinct fingerprints, not with -equal")
	}
	w := f.writer()
	write := map[string]func(a, b *member, distance int) error{"json": w.pairJSON, "csv": w.pairCSV, simhashCPP: w.pairArray}[f.as]
	if write == nil {
		return usagef("-output-format is %q, want json or csv", f.as)
	}
	p := &pairing{equal: f.equal, write: write}
	if f.as == "csv" {
		w.header = "first,second,distance\n"
	}
	if err := f.join(ctx, w, func(s joinSource) error { return s.pairs(ctx, p.pair) }); err != nil {
		return err
	}
	p.account(c)
	return nil
}

// pairing takes pairs of members and writes them as asked.
type pairing struct {
	equal bool // list pairs of documents
	write func(a, b *member, distance int) error

	written, equals uint64
}

// pair writes a pair; a member with itself stands for the pairs of its documents.
func (p *pairing) pair(a, b *member, distance int) error {
	same := distance == 0 && a.ID == b.ID
	if !p.equal {
		if same {
			p.equals += uint64(a.Documents) * uint64(a.Documents-1) / 2
			return nil
		}
		p.written++
		return p.write(a, b, distance)
	}
	for first, err := range a.all() {
		if err != nil {
			return err
		}
		for second, err := range b.all() {
			if err != nil {
				return err
			}
			if same && second.ID <= first.ID {
				continue
			}
			p.written++
			if err := p.write(&first, &second, distance); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pairing) account(c *call) {
	switch {
	case p.equal:
		c.logf("%d pairs of documents", p.written)
	case p.equals > 0:
		c.logf("%d pairs of distinct fingerprints; %d pairs of documents with equal ones are not listed (-equal lists them)", p.written, p.equals)
	default:
		c.logf("%d pairs of distinct fingerprints", p.written)
	}
}
