package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

var clustersCommand = command{
	name:    "clusters",
	args:    "[-k 3] [-star] [-keep first] [-as json|csv|removals|removal-ids] -index DIR | FINGERPRINTS...",
	summary: "print the clusters of near-duplicates in an index or in lists of fingerprints",
	more: `A cluster is what a chain of pairs connects: its ends may have little in common, and one
page that resembles two groups makes one cluster of both. With -star, every member is
within -k of the one that is kept, so it is safe to drop it for that one; a chain may then
give several clusters. With -as removals it prints what to delete so that one document of
each cluster remains, for "neardup delete -index DIR -": keys, and numbers of documents
without one, which -as removal-ids prints of all, for "neardup delete -index DIR -ids -".
With -compat simhash-cpp it takes the flags of simhash-find-clusters (-b -d -i -o) and
writes what that writes.`,
	run: runClusters,
}

func runClusters(ctx context.Context, c *call) error {
	c.in = readUntilDone(ctx, c.in)
	f := c.joinFlags()
	keep := c.flags.String("keep", "first", "which document of a cluster is `kept`: first (added or listed), shortest-key, longest or score;\nthe last two take the larger number behind the key: lines of fingerprint TAB key TAB number")
	c.flags.BoolVar(&f.star, "star", false, "every member within -k of the one that is kept, instead of chains")
	if err := f.parse(); err != nil {
		return err
	}
	if err := f.setKeep(*keep); err != nil {
		return err
	}
	if f.compat != "" {
		return f.compatClusters(ctx)
	}
	if f.memory > 0 {
		return f.clustersOutOfMemory(ctx)
	}
	w := &clustering{equal: f.equal, ids: f.as == "removal-ids"}
	write := map[string]func([]member) error{"json": w.json, "csv": w.csv, "removals": w.removals, "removal-ids": w.removals}[f.as]
	if write == nil {
		return f.unknownForm()
	}
	out, err := f.open()
	if err != nil {
		return err
	}
	w.out = out
	if f.as == "csv" {
		out.csv("cluster", "kept", "id", "key", "fingerprint", "documents")
	}
	source, err := f.source(ctx)
	if err != nil {
		return out.close(err)
	}
	err = source.clusters(ctx, func(members []member) error {
		w.clusters++
		for i := range members {
			w.documents += members[i].Documents
		}
		return write(members)
	})
	if err = out.close(errors.Join(err, source.close())); err == nil {
		c.logf("%d clusters of %d documents", w.clusters, w.documents)
		w.accountRemovals(c)
	}
	return err
}

func (f *joinFlags) unknownForm() error {
	return usagef("-as is %q, want json, csv, removals or removal-ids", f.as)
}

// accountRemovals says what a list of keys does not tell.
func (w *clustering) accountRemovals(c *call) {
	if w.unnamed > 0 {
		c.logf("%d documents without a key were listed by number; \"neardup delete -ids\" takes numbers, and -as removal-ids prints nothing else", w.unnamed)
	}
}

// clusterLine is a cluster in the output.
type clusterLine struct {
	Documents int          `json:"documents"`
	Kept      memberLine   `json:"kept"`
	Others    []memberLine `json:"others"`
}

// clustering writes clusters; the first member of each is kept.
type clustering struct {
	out   *joinOutput
	equal bool // list every document
	ids   bool // removals have no keys

	clusters, documents int
	unnamed             int // of what removals lists: without a key
}

func (w *clustering) json(members []member) error {
	line := clusterLine{Others: []memberLine{}, Kept: members[0].line()}
	for i := range members {
		m := &members[i]
		line.Documents += m.Documents
		if !w.equal {
			if i > 0 {
				line.Others = append(line.Others, m.line())
			}
			continue
		}
		for d, err := range m.all() {
			if err != nil {
				return err
			}
			if d.ID != members[0].ID {
				line.Others = append(line.Others, d.line())
			}
		}
	}
	if w.equal {
		line.Kept.Documents = 1
	}
	w.out.lines.write(line)
	return w.out.lines.err
}

// csv writes a line for each member, or document.
func (w *clustering) csv(members []member) error {
	for i := range members {
		m := &members[i]
		if !w.equal {
			if err := w.csvLine(m, i == 0); err != nil {
				return err
			}
			continue
		}
		for d, err := range m.all() {
			if err == nil {
				err = w.csvLine(&d, d.ID == members[0].ID)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *clustering) csvLine(m *member, kept bool) error {
	return w.out.csv(strconv.Itoa(w.clusters), strconv.FormatBool(kept), fmt.Sprint(m.ID), corpus.QuoteKey(m.Key), m.Fingerprint.String(), strconv.Itoa(m.Documents))
}

// removals writes a line for each document but the one that is kept.
func (w *clustering) removals(members []member) error {
	for i := range members {
		for d, err := range members[i].all() {
			if err != nil {
				return err
			}
			if d.ID == members[0].ID {
				continue
			}
			name := corpus.QuoteKey(d.Key)
			switch {
			case w.ids:
				name = strconv.FormatUint(d.ID, 10)
			case name == "":
				w.unnamed++
				name = strconv.FormatUint(d.ID, 10)
			}
			if err := w.out.line(name); err != nil {
				return err
			}
		}
	}
	return nil
}
