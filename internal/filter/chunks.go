package filter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
)

// The stored form of a filter, which docs/format-filters.md specifies.
const (
	filterVersion     = 1
	filterHeaderBytes = 16
	filterChunkLines  = 1024 // 64 KiB
)

// ErrUnusable means that a stored filter cannot be used. The caller must build the filter again
// from its table.
var ErrUnusable = errors.New("unusable prefix filter")

// Chunks returns the number of chunks of the stored filter.
func (f *Prefix) Chunks() int {
	return (len(f.lines) + filterChunkLines - 1) / filterChunkLines
}

// AppendChunk appends chunk i of Chunks. A chunk has about 64 KiB; the last one may be smaller. It
// may lack fingerprints that are added during the call.
func (f *Prefix) AppendChunk(dst []byte, i int) []byte {
	dst = append(dst, f.header(i)...)
	lines := f.chunk(i)
	for l := range lines {
		for j := range lines[l] {
			dst = binary.BigEndian.AppendUint64(dst, atomic.LoadUint64(&lines[l][j]))
		}
	}
	runtime.KeepAlive(f)
	return dst
}

// chunk returns the lines of chunk i.
func (f *Prefix) chunk(i int) []line {
	return f.lines[i*filterChunkLines : min((i+1)*filterChunkLines, len(f.lines))]
}

func (f *Prefix) header(chunk int) []byte {
	h := []byte{filterVersion, byte(f.form), byte(f.prefix), byte(f.lineBits)}
	h = binary.BigEndian.AppendUint32(h, uint32(chunk))
	return binary.BigEndian.AppendUint64(h, uint64(len(f.lines)))
}

// LoadPrefix returns the filter with the given chunks, which must be complete and in order. The
// filter must be for prefixes of prefix bits and need at most budget bytes. Errors: ErrUnusable,
// and the errors of chunks.
func LoadPrefix(prefix int, budget int64, chunks iter.Seq2[[]byte, error]) (*Prefix, error) {
	var f *Prefix
	n := 0
	for data, err := range chunks {
		if err != nil {
			return nil, err
		}
		if f == nil {
			if f, err = parseHeader(prefix, budget, data); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
			}
		}
		if err := f.loadChunk(n, data); err != nil {
			return nil, fmt.Errorf("%w: chunk %d: %w", ErrUnusable, n, err)
		}
		n++
	}
	if f == nil {
		return nil, fmt.Errorf("%w: it has no chunks", ErrUnusable)
	}
	if n != f.Chunks() {
		return nil, fmt.Errorf("%w: %d chunks, want %d", ErrUnusable, n, f.Chunks())
	}
	return f, nil
}

// parseHeader returns an empty filter with the form and the size in the header of the first chunk.
func parseHeader(prefix int, budget int64, data []byte) (*Prefix, error) {
	if prefix < 1 || prefix > 64 {
		return nil, fmt.Errorf("prefix of %d bits, want 1 to 64", prefix)
	}
	if len(data) < filterHeaderBytes {
		return nil, fmt.Errorf("header of %d bytes, want %d", len(data), filterHeaderBytes)
	}
	if data[0] != filterVersion {
		return nil, fmt.Errorf("version %d, but this program supports version %d",
			data[0], filterVersion)
	}
	if int(data[2]) != prefix {
		return nil, fmt.Errorf("filter for prefixes of %d bits, want %d", data[2], prefix)
	}
	n := binary.BigEndian.Uint64(data[8:])
	if n == 0 || budget < 0 || n > uint64(budget)/lineBytes {
		return nil, fmt.Errorf("%d lines of %d bytes do not fit in %d bytes", n, lineBytes, budget)
	}
	form, lineBits := filterForm(data[1]), int(data[3])
	switch form {
	case filterBits:
		if want, ok := arrayLines(prefix); !ok || n != uint64(want) || lineBits != 0 {
			return nil, fmt.Errorf("bit array of %d lines and %d line bits, want %d and 0", n,
				lineBits, want)
		}
	case filterBlocked:
		if lineBits < GroupBits || lineBits >= prefix {
			return nil, fmt.Errorf("%d line bits for prefixes of %d bits, want %d or more, and "+
				"fewer than the prefix has", lineBits, prefix, GroupBits)
		}
	default:
		return nil, fmt.Errorf("unknown form %d", form)
	}
	return newFilter(prefix, form, lineBits, int64(n)), nil
}

// loadChunk sets the lines of chunk i.
func (f *Prefix) loadChunk(i int, data []byte) error {
	if i >= f.Chunks() {
		return fmt.Errorf("the filter has only %d chunks", f.Chunks())
	}
	lines := f.chunk(i)
	if want := filterHeaderBytes + len(lines)*lineBytes; len(data) != want {
		return fmt.Errorf("%d bytes, want %d", len(data), want)
	}
	if want := f.header(i); string(data[:filterHeaderBytes]) != string(want) {
		return fmt.Errorf("header %x, want %x", data[:filterHeaderBytes], want)
	}
	data = data[filterHeaderBytes:]
	for l := range lines {
		for j := range lines[l] {
			lines[l][j] = binary.BigEndian.Uint64(data)
			data = data[8:]
		}
	}
	runtime.KeepAlive(f)
	return nil
}
