package documents

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/summary"
	"github.com/neardup/neardup/internal/check"
)

// readLines reads JSON lines as dedup --emit does, and keeps the original records.
func readLines(t *testing.T, in io.Reader) *Reader {
	t.Helper()
	lines, err := corpus.New([]string{"-"}, corpus.Options{Stdin: in, Format: corpus.JSONL,
		Originals: true})
	if err != nil {
		t.Fatal(err)
	}
	return &Reader{Reader: lines, Analyzer: &Analyzer{Signer: check.DefaultSigner()},
		Summary: summary.New()}
}

// TestBatchesAreBoundedByBytes tests that a batch of queries with long keys takes at most the
// specified memory and one more key.
func TestBatchesAreBoundedByBytes(t *testing.T) {
	const key, records = 50_000, 100
	docs := readLines(t,
		strings.NewReader(strings.Repeat(
			`{"key":"`+strings.Repeat("k", key)+`","text":"a few words"}`+"\n", records)))
	most, seen := Batching{Records: 1 << 18, Bytes: 10 * key, Wait: time.Second}, 0
	err := docs.ForEachBatch(t.Context(), most, func(batch []*Input) error {
		if seen += len(batch); len(batch) > 10 {
			t.Errorf("a batch of %d queries with keys of %d bytes, want at most %d bytes",
				len(batch), key, most.Bytes)
		}
		return nil
	})
	if err != nil || seen != records {
		t.Errorf("%d records: %v", seen, err)
	}
}

// TestRecordsWaitWithinBounds tests that records that wait for their verdicts take bounded
// memory. The reader must continue once they are released.
func TestRecordsWaitWithinBounds(t *testing.T) {
	const size, records = 1 << 20, 60
	line, lines := `{"text":"a few words","more":"`+strings.Repeat("x", size)+"\"}\n",
		make([]io.Reader, records)
	for n := range lines {
		// all lines share the memory of one line
		lines[n] = strings.NewReader(line)
	}
	docs := readLines(t, io.MultiReader(lines...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := 0
	err := docs.ForEachBatch(ctx, Batching{Records: 256, Bytes: 64 << 20},
		func(batch []*Input) error {
			if seen == 0 {
				time.Sleep(300 * time.Millisecond) // the reader reads ahead up to its limits
			}
			held := 0
			for _, i := range batch {
				held += len(i.Record.Original.Body)
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
