package main

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/selfjoin"
)

// externalPairs writes the pairs of a list within -memory. Fingerprints are all that is
// known of it then.
func (f *joinFlags) externalPairs(ctx context.Context, list iter.Seq2[[]fingerprint.Fingerprint, error], k int, appendLine func(line []byte, p *selfjoin.Pair) []byte) error {
	out, err := f.open()
	if err != nil {
		return err
	}
	if f.as == "csv" && f.compat == "" {
		out.buffer.WriteString("first,second,distance\n")
	}
	defer f.limitMemory()()
	var mu sync.Mutex
	var line []byte
	pairs := 0
	o := selfjoin.ExternalOptions{Options: selfjoin.Options{MaxDistance: k}, MemoryBytes: int64(f.memory) << 20}
	err = selfjoin.External(ctx, list, o, func(_ int, found []selfjoin.Pair) error {
		mu.Lock()
		defer mu.Unlock()
		pairs += len(found)
		for i := range found {
			line = appendLine(line[:0], &found[i])
			if _, err := out.buffer.Write(line); err != nil {
				return err
			}
		}
		return nil
	})
	if err = out.close(err); err == nil {
		f.call.logf("%d pairs of distinct fingerprints", pairs)
	}
	return err
}

// limitMemory has what is garbage collected before it adds to -memory, until the function
// that it returns is called.
func (f *joinFlags) limitMemory() (restore func()) {
	const others = 32 << 20 // buffers and the like
	before := debug.SetMemoryLimit(int64(f.memory)<<20 + others)
	return func() { debug.SetMemoryLimit(before) }
}

// externalList is what -memory takes: lists of nothing but fingerprints.
func (f *joinFlags) externalList(ctx context.Context) (iter.Seq2[[]fingerprint.Fingerprint, error], error) {
	if f.indexes.dir != "" {
		return nil, usagef("-memory goes with lists of fingerprints")
	}
	switch format := corpus.Format(f.inputs.format); {
	case format == corpus.Decimal, format == corpus.U64LE, format == corpus.Detect && areWords(f.lists):
		return f.bareList(ctx), nil
	}
	return nil, usagef("-memory reads u64le and decimal, which have no keys; give -format")
}

// bareList yields the fingerprints of lists, without their keys.
func (f *joinFlags) bareList(ctx context.Context) iter.Seq2[[]fingerprint.Fingerprint, error] {
	return func(yield func([]fingerprint.Fingerprint, error) bool) {
		for chunk, err := range f.chunks(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(chunk.Fingerprints, nil) {
				return
			}
		}
	}
}

// pairsOutOfMemory is pairs with -memory.
func (f *joinFlags) pairsOutOfMemory(ctx context.Context) error {
	if f.equal {
		return usagef("-memory lists pairs of distinct fingerprints, not with -equal")
	}
	list, err := f.externalList(ctx)
	if err != nil {
		return err
	}
	appendLine := func(line []byte, p *selfjoin.Pair) []byte {
		return fmt.Appendf(line, "{\"first\":{\"fingerprint\":\"%v\"},\"second\":{\"fingerprint\":\"%v\"},\"distance\":%d}\n", p.First, p.Second, p.Distance)
	}
	if f.as == "csv" {
		appendLine = func(line []byte, p *selfjoin.Pair) []byte {
			line, _ = p.First.AppendText(line)
			line, _ = p.Second.AppendText(append(line, ','))
			return append(strconv.AppendInt(append(line, ','), int64(p.Distance), 10), '\n')
		}
	}
	return f.externalPairs(ctx, list, f.k, appendLine)
}
