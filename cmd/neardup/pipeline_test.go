package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/spf13/cobra"
)

// readLines reads JSON lines as dedup does, with the records as they stand.
func readLines(t *testing.T, in io.Reader) (docs *documentReader, diagnostics *bytes.Buffer) {
	t.Helper()
	diagnostics = new(bytes.Buffer)
	a := &app{streams: &streams{in, output{io.Discard}, diagnostics}}
	c := a.command(&cobra.Command{Use: "dedup"})
	flags := c.inputFlags(documentFormats...).analyzerFlags()
	flags.Format, flags.Originals = corpus.JSONL, []corpus.Format{corpus.JSONL}
	c.args = []string{"-"}
	docs, err := flags.openInputs()
	must(t, err)
	return docs, diagnostics
}

// TestBatchesAreBoundedByBytes: a batch of queries with long keys takes no more memory than the batching says,
// and the key that fills it.
func TestBatchesAreBoundedByBytes(t *testing.T) {
	const key, records = 50_000, 100
	docs, _ := readLines(t, strings.NewReader(strings.Repeat(`{"key":"`+strings.Repeat("k", key)+`","text":"a few words"}`+"\n", records)))
	most, seen := queryBatches, 0
	most.bytes = 10 * key
	err := docs.forEachBatch(t.Context(), most, func(batch []*input) error {
		if seen += len(batch); len(batch) > 10 {
			t.Errorf("a batch of %d queries with keys of %d bytes, want at most %d bytes", len(batch), key, most.bytes)
		}
		return nil
	})
	if err != nil || seen != records {
		t.Errorf("%d records: %v", seen, err)
	}
}

// TestRecordsWaitWithinBounds: records that are to be passed through wait for their verdicts in
// bounded memory, and the reader goes on once they have been given back.
func TestRecordsWaitWithinBounds(t *testing.T) {
	const size, records = 1 << 20, 60
	line, lines := `{"text":"a few words","more":"`+strings.Repeat("x", size)+"\"}\n", make([]io.Reader, records)
	for n := range lines {
		lines[n] = strings.NewReader(line) // not all in memory: it would count as that of processes that are begun later
	}
	docs, _ := readLines(t, io.MultiReader(lines...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := 0
	err := docs.forEachBatch(ctx, writeBatches, func(batch []*input) error {
		if seen == 0 {
			time.Sleep(300 * time.Millisecond) // the reader goes as far ahead as it may
		}
		held := 0
		for _, i := range batch {
			held += len(i.record.Original.Body)
		}
		if held > maxAheadBytes {
			t.Errorf("%d records of %d bytes wait", len(batch), held)
		}
		seen += len(batch)
		return nil
	})
	if err != nil || seen != records {
		t.Errorf("%d records: %v", seen, err)
	}
}
