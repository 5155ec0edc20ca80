package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/selfjoin"
)

// clustersOutOfMemory is clusters with -memory. What it writes is what clusters writes
// of the same list.
func (f *joinFlags) clustersOutOfMemory(ctx context.Context) error {
	list, err := f.externalList(ctx)
	if err != nil {
		return err
	}
	if f.keep != "first" {
		return usagef("-memory keeps the first document of a cluster, not -keep %s: its lists have fingerprints only", f.keep)
	}
	w := &externalClustering{}
	write := map[string]func(*selfjoin.ExternalCluster) error{"json": w.json, "csv": w.csv, "removals": w.removals, "removal-ids": w.removals}[f.as]
	if write == nil {
		return f.unknownForm()
	}
	out, err := f.open()
	if err != nil {
		return err
	}
	if w.buffer = out.buffer; f.as == "csv" {
		w.buffer.WriteString("cluster,kept,id,key,fingerprint,documents\n")
	}
	err = f.externalClusters(ctx, list, f.k, f.equal || f.as == "removals" || f.as == "removal-ids", func(c *selfjoin.ExternalCluster) error {
		w.clusters++
		w.documents += c.Copies
		return write(c)
	})
	if err = out.close(err); err == nil {
		f.call.logf("%d clusters of %d documents", w.clusters, w.documents)
	}
	return err
}

func (f *joinFlags) externalClusters(ctx context.Context, list iter.Seq2[[]fingerprint.Fingerprint, error], k int, copies bool, found func(*selfjoin.ExternalCluster) error) error {
	defer f.limitMemory()()
	o := selfjoin.ExternalClusterOptions{Stars: f.star, Copies: copies}
	o.MaxDistance, o.MemoryBytes = k, int64(f.memory)<<20
	return selfjoin.ExternalClusters(ctx, list, o, found)
}

// compatExternalClusters is compatClusters with -memory; the numbers of a cluster come
// in the order of the input.
func (f *joinFlags) compatExternalClusters(ctx context.Context) error {
	out, err := f.open()
	if err != nil {
		return err
	}
	var number []byte
	err = f.externalClusters(ctx, f.bareList(ctx), f.distance, false, func(c *selfjoin.ExternalCluster) error {
		if c.Distinct < 2 {
			return nil
		}
		before := "["
		for m, err := range c.Members() {
			if err != nil {
				return err
			}
			number = strconv.AppendUint(append(number[:0], before...), uint64(m.Fingerprint), 10)
			out.buffer.Write(number)
			before = ", "
		}
		_, err := out.buffer.WriteString("]\n")
		return err
	})
	return out.close(err)
}

// externalClustering writes clusters without holding one in memory.
type externalClustering struct {
	buffer *bufio.Writer // whose errors stick
	line   []byte

	clusters, documents int64
}

func (w *externalClustering) json(c *selfjoin.ExternalCluster) error {
	w.line = fmt.Appendf(w.line[:0], `{"documents":%d,"kept":`, c.Copies)
	number := 0
	for m, err := range c.Members() {
		if err != nil {
			return err
		}
		if number > 1 {
			w.line = append(w.line, ',')
		}
		w.line = fmt.Appendf(w.line, `{"id":%d,"fingerprint":"%v","documents":%d}`, m.Place+1, m.Fingerprint, m.Copies)
		if number == 0 {
			w.line = append(w.line, `,"others":[`...)
		}
		number++
		if _, err := w.buffer.Write(w.line); err != nil {
			return err
		}
		w.line = w.line[:0]
	}
	_, err := w.buffer.WriteString("]}\n")
	return err
}

func (w *externalClustering) csv(c *selfjoin.ExternalCluster) error {
	kept := true
	for m, err := range c.Members() {
		if err != nil {
			return err
		}
		w.line = fmt.Appendf(w.line[:0], "%d,%v,%d,,%v,%d\n", w.clusters, kept, m.Place+1, m.Fingerprint, m.Copies)
		if _, err := w.buffer.Write(w.line); err != nil {
			return err
		}
		kept = false
	}
	return nil
}

func (w *externalClustering) removals(c *selfjoin.ExternalCluster) error {
	kept := true
	for m, err := range c.Members() {
		if err != nil {
			return err
		}
		if kept {
			kept = false
			continue
		}
		w.line = append(strconv.AppendInt(w.line[:0], m.Place+1, 10), '\n')
		if _, err := w.buffer.Write(w.line); err != nil {
			return err
		}
	}
	return nil
}
