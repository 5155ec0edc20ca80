package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/index"
)

var exportCommand = command{
	name:    "export",
	args:    "-index DIR [-format u64le]",
	summary: "print every stored fingerprint: 16 hex digits and, after a tab, the key if there is one",
	more:    quotedKeys + `"neardup import" reads it back.`,
	run:     runExport,
}

func runExport(ctx context.Context, c *call) error {
	indexes := c.indexFlags()
	format := c.flags.String("format", "fingerprints", "`format`: fingerprints, or u64le, 8 bytes little-endian each")
	if err := c.parseFlags(); err != nil {
		return err
	}
	write := writeLine
	switch corpus.Format(*format) {
	case corpus.Fingerprints:
	case corpus.U64LE:
		write = writeBytes
	default:
		return usagef("-format is %q, want fingerprints or u64le", *format)
	}
	x, err := indexes.openReadOnly("")
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.out, 64<<10)
	for d, docErr := range x.Documents(ctx) {
		if err = docErr; err == nil {
			err = write(out, &d)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, out.Flush(), x.Close())
}

func writeLine(w *bufio.Writer, d *index.Document) (err error) {
	if d.Key == "" {
		_, err = fmt.Fprintf(w, "%s\n", d.Fingerprint)
	} else {
		_, err = fmt.Fprintf(w, "%s\t%s\n", d.Fingerprint, corpus.QuoteKey(d.Key))
	}
	return err
}

func writeBytes(w *bufio.Writer, d *index.Document) error {
	return binary.Write(w, binary.LittleEndian, uint64(d.Fingerprint))
}
