package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

var fingerprintCommand = command{
	name:    "fingerprint",
	args:    "INPUT...",
	summary: "print the fingerprint of each document: 16 hex digits, a tab, the key",
	more:    quotedKeys + `"neardup import" reads it back.`,
	run:     runFingerprint,
}

func runFingerprint(ctx context.Context, c *call) error {
	inputs := c.inputFlags().analyzerFlags()
	if err := c.parse(); err != nil {
		return err
	}
	a, err := inputs.analyzer()
	if err != nil {
		return err
	}
	reader, err := inputs.reader()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.out, 64<<10)
	return c.eachBatch(ctx, reader, a, func(batch []*input) error {
		for _, i := range batch {
			if line, skip := skipLine(i); skip {
				c.logf("%s: skipped: %s (%s)", line.Key, line.Reason, line.At)
			} else if i.skipped() == "" {
				fmt.Fprintf(out, "%s\t%s\n", i.signature.Fingerprint, corpus.QuoteKey(i.key()))
			}
		}
		return out.Flush()
	})
}
