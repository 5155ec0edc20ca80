package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"github.com/neardup/neardup/cmd/neardup/corpus"
	"github.com/neardup/neardup/fingerprint"
)

// readWords yields what is in files of fingerprints of 8 bytes, little-endian, some
// thousands at a time, each good until the next.
func readWords(ctx context.Context, names []string, stdin io.Reader) iter.Seq2[[]fingerprint.Fingerprint, error] {
	return eachFile(openWords, names, stdin, func(name string, in io.Reader, yield func([]fingerprint.Fingerprint) bool) error {
		buffer, fps := make([]byte, 1<<20), []fingerprint.Fingerprint{}
		for {
			n, err := io.ReadFull(in, buffer)
			fps = fps[:0]
			for b := buffer[:n]; len(b) >= 8; b = b[8:] {
				fps = append(fps, fingerprint.Fingerprint(binary.LittleEndian.Uint64(b)))
			}
			ended := err == io.EOF || err == io.ErrUnexpectedEOF
			switch {
			case !yield(fps):
				return errStopped
			case ended && n%8 != 0:
				return fmt.Errorf("%s: %d bytes at the end, want 8 for each fingerprint", name, n%8)
			case ended:
				return nil
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			case ctx.Err() != nil:
				return ctx.Err()
			}
		}
	})
}

// openWords opens a file of such fingerprints. Numbers may begin with any bytes, also with
// those of a compressed file: the name of a file decides which it is.
func openWords(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" || strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst") {
		return corpus.Open(name, stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// readDecimals yields what is in files of decimal numbers, one a line; empty lines do
// not count.
func readDecimals(ctx context.Context, names []string, stdin io.Reader) iter.Seq2[[]fingerprint.Fingerprint, error] {
	return decimals(ctx, names, stdin, func(line []byte) []byte { return line })
}

// readFirstDecimals takes the number at the beginning of each line, behind which may be
// columns that do not count.
func readFirstDecimals(ctx context.Context, names []string, stdin io.Reader) iter.Seq2[[]fingerprint.Fingerprint, error] {
	return decimals(ctx, names, stdin, func(line []byte) []byte {
		if end := bytes.IndexAny(line, " \t"); end > 0 {
			return line[:end]
		}
		return line
	})
}

// decimals yields the numbers that cut takes out of lines.
func decimals(ctx context.Context, names []string, stdin io.Reader, cut func(line []byte) []byte) iter.Seq2[[]fingerprint.Fingerprint, error] {
	return eachFile(corpus.Open, names, stdin, func(name string, in io.Reader, yield func([]fingerprint.Fingerprint) bool) error {
		const atOnce = 8 << 10
		lines := bufio.NewScanner(in)
		lines.Buffer(make([]byte, 64<<10), 1<<20)
		fps := make([]fingerprint.Fingerprint, 0, atOnce)
		number := 0
		for lines.Scan() {
			number++
			text := cut(bytes.TrimSpace(lines.Bytes()))
			if len(text) == 0 {
				continue
			}
			f, err := strconv.ParseUint(string(text), 10, 64)
			if err != nil {
				return fmt.Errorf("%s line %d: %.40q is no decimal number below 2^64", name, number, text)
			}
			if fps = append(fps, fingerprint.Fingerprint(f)); len(fps) == atOnce {
				if !yield(fps) {
					return errStopped
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				fps = fps[:0]
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("%s line %d: %w", name, number+1, err)
		}
		if !yield(fps) {
			return errStopped
		}
		return nil
	})
}

var errStopped = errors.New("stopped by the loop")

type opener func(name string, stdin io.Reader) (io.ReadCloser, error)

// eachFile opens one file after the other, and yields what read does of each.
func eachFile(open opener, names []string, stdin io.Reader, read func(name string, in io.Reader, yield func([]fingerprint.Fingerprint) bool) error) iter.Seq2[[]fingerprint.Fingerprint, error] {
	return func(yield func([]fingerprint.Fingerprint, error) bool) {
		for _, name := range names {
			in, err := open(name, stdin)
			if err == nil {
				err = read(name, in, func(fps []fingerprint.Fingerprint) bool { return yield(fps, nil) })
				err = errors.Join(err, in.Close())
			}
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// inMemory reads all of a list.
func inMemory(list iter.Seq2[[]fingerprint.Fingerprint, error]) (all []fingerprint.Fingerprint, err error) {
	for fps, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, fps...)
	}
	return all, nil
}
