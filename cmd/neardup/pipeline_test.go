package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

// TestAccountAddsUpAfterFailure: what was read ahead of the work that failed is told
// apart, so that the counts add up.
func TestAccountAddsUpAfterFailure(t *testing.T) {
	var diagnostics bytes.Buffer
	c := newCall(dedupCommand, []string{"-"}, &streams{strings.NewReader(""), io.Discard, &diagnostics})
	flags := c.inputFlags().analyzerFlags()
	if err := c.parse(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Repeat(`{"text":"a few words"}`+"\n", 5000)
	flags.format, c.in = corpus.JSONL, strings.NewReader(lines)
	docs, err := flags.openInputs()
	if err != nil {
		t.Fatal(err)
	}
	failure, done := errors.New("no more"), int64(0)
	err = docs.forEachBatch(context.Background(), maxBatch, 0, func(batch []*input) error {
		if done > 300 {
			return failure
		}
		done += int64(len(batch))
		return nil
	})
	if !errors.Is(err, failure) {
		t.Fatal(err)
	}
	var records, ahead int64
	if _, err := fmt.Sscanf(diagnostics.String(), "-: %d records", &records); err != nil {
		t.Fatalf("%v in %s", err, &diagnostics)
	}
	_, after, _ := strings.Cut(diagnostics.String(), "up to ")
	if _, err := fmt.Sscanf(after, "%d of these", &ahead); err != nil {
		t.Fatalf("%v in %s", err, &diagnostics)
	}
	if records-ahead != done || ahead < 1 {
		t.Errorf("%d records were done, and it says\n%s", done, &diagnostics)
	}
}
