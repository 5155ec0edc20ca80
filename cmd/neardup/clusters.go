package main

import "context"

var clustersCommand = command{
	name:    "clusters",
	args:    "[-k 3] [-star] [-keep first] [-output-format json|csv|removals|removal-ids] -index DIR | FINGERPRINTS...",
	summary: "print the clusters of near-duplicates in an index or in lists of fingerprints",
	more: `A cluster is what a chain of pairs connects: its ends may have little in common, and one
page that resembles two groups makes one cluster of both. With -star, every member is
within -k of the one that is kept, so it is safe to drop it for that one; a chain may then
give several clusters. With -output-format removals it prints what to delete so that one document of
each cluster remains, for "neardup delete -index DIR -": keys, and numbers of documents
without one, which -output-format removal-ids prints of all, for "neardup delete -index DIR -ids -".
With -compat simhash-cpp it takes the flags of simhash-find-clusters (-b -d -i -o) and
writes what that writes.`,
	run: runClusters,
}

func runClusters(ctx context.Context, c *call) error {
	c.in = readUntilDone(ctx, c.in)
	f := c.joinFlags()
	c.flags.StringVar(&f.keep, "keep", "first", "which document of a cluster is `kept`: first (added or listed), shortest-key, longest or score;\nthe last two take the larger number behind the key: lines of fingerprint TAB key TAB number")
	c.flags.BoolVar(&f.star, "star", false, "every member within -k of the one that is kept, instead of chains")
	if err := f.parse(); err != nil {
		return err
	}
	if err := f.checkKeep(); err != nil {
		return err
	}
	w := f.writer()
	write := map[string]func(*cluster) error{
		"json": w.clusterJSON, "csv": w.clusterCSV, "removals": w.removals, "removal-ids": w.removals, simhashCPP: w.clusterArray,
	}[f.as]
	if write == nil {
		return usagef("-output-format is %q, want json, csv, removals or removal-ids", f.as)
	}
	if f.as == "csv" {
		w.header = "cluster,kept,id,key,fingerprint,documents\n"
	}
	clusters, documents := 0, 0
	err := f.join(ctx, w, func(s joinSource) error {
		return s.clusters(ctx, func(found *cluster) error {
			clusters++
			documents += found.documents
			return write(found)
		})
	})
	if err != nil {
		return err
	}
	c.logf("%d clusters of %d documents", clusters, documents)
	if w.unnamed > 0 {
		c.logf("%d documents without a key were listed by number; \"neardup delete -ids\" takes numbers, and -output-format removal-ids prints nothing else", w.unnamed)
	}
	return nil
}

// checkKeep checks the value of -keep.
func (f *joinFlags) checkKeep() error {
	switch {
	case f.keep != "first" && f.keep != "shortest-key" && !f.numbered():
		return usagef("-keep is %q, want first, shortest-key, longest or score", f.keep)
	case f.numbered() && f.indexes.dir != "":
		return usagef("-keep %s needs lists of fingerprint TAB key TAB number: an index has no such number", f.keep)
	case f.memory > 0 && f.keep != "first":
		return usagef("-memory keeps the first document of a cluster, not -keep %s: its lists have fingerprints only", f.keep)
	}
	return nil
}
