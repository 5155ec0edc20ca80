package beam

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/neardup/neardup/internal/selfjoin"
)

// maxBlobChunk is the number of fingerprints that share a header in a blob.
const maxBlobChunk = 32_000

// appendBlob appends ascending fingerprints in chunks. A chunk consists of its length in bytes, the
// number of its fingerprints, a width, the first fingerprint, and the differences in Golomb-Rice
// code. A fingerprint needs about 2 bits more than the binary logarithm of the mean difference.
func appendBlob(dst []byte, set *selfjoin.Set, from, to selfjoin.Node) []byte {
	for from < to {
		end := min(from+maxBlobChunk, to)
		start := len(dst)
		before := uint64(set.Fingerprint(from))
		width := max(bits.Len64((uint64(set.Fingerprint(end-1))-before)/uint64(end-from))-1, 0)
		dst = append(dst, 0, 0, 0, 0)
		dst = append(binary.AppendUvarint(dst, uint64(end-from)), byte(width))
		dst = binary.LittleEndian.AppendUint64(dst, before)
		w := bitWriter{data: dst}
		for ; from < end; from++ {
			fingerprint := uint64(set.Fingerprint(from))
			difference := fingerprint - before
			before = fingerprint
			for range difference >> width {
				w.write(0, 1)
			}
			w.write(1, 1)
			w.write(difference, width)
		}
		dst = w.data
		binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	}
	return dst
}

// appendFingerprints decodes a blob.
func appendFingerprints(dst []fp, blob []byte) ([]fp, error) {
	for at := 0; at < len(blob); {
		if len(blob)-at < 4 {
			return nil, fmt.Errorf("%w: blob ends at %d in a length", errData, len(blob))
		}
		length := int64(binary.LittleEndian.Uint32(blob[at:]))
		at += 4
		if length > int64(len(blob)-at) {
			return nil, fmt.Errorf("%w: blob ends at %d, a chunk of %d bytes begins at %d", errData,
				len(blob), length, at)
		}
		var err error
		if dst, err = appendChunk(dst, blob[at:at+int(length)]); err != nil {
			return nil, fmt.Errorf("%w: chunk at %d: %w", errData, at, err)
		}
		at += int(length)
	}
	return dst, nil
}

func appendChunk(dst []fp, chunk []byte) ([]fp, error) {
	count, n := binary.Uvarint(chunk)
	if n <= 0 || len(chunk) < n+9 || count > maxBlobChunk || chunk[n] > 63 {
		return nil, fmt.Errorf("header %x", chunk[:min(len(chunk), binary.MaxVarintLen64)])
	}
	width := int(chunk[n])
	fingerprint := binary.LittleEndian.Uint64(chunk[n+1:])
	r := bitReader{data: chunk[n+9:]}
	for i := range count {
		quotient := uint64(0)
		one, ok := r.read(1)
		for ; ok && one == 0; one, ok = r.read(1) {
			quotient++
		}
		low, more := r.read(width)
		if !ok || !more {
			return nil, fmt.Errorf("it ends in fingerprint %d of %d", i, count)
		}
		fingerprint += quotient<<width | low
		dst = append(dst, fp(fingerprint))
	}
	return dst, nil
}

// A bitWriter appends bits, the lowest first, from a byte boundary on.
type bitWriter struct {
	data []byte
	used int // bits of the last byte that are used; 0 means all
}

func (w *bitWriter) write(value uint64, width int) {
	for width > 0 {
		if w.used == 0 {
			w.data = append(w.data, 0)
		}
		n := min(width, 8-w.used)
		w.data[len(w.data)-1] |= byte(value&(1<<n-1)) << w.used
		value >>= n
		width -= n
		w.used = (w.used + n) % 8
	}
}

// A bitReader reads the bits of a bitWriter.
type bitReader struct {
	data []byte
	at   int // in bits
}

func (r *bitReader) read(width int) (value uint64, ok bool) {
	if r.at+width > 8*len(r.data) {
		return 0, false
	}
	for got := 0; got < width; {
		n := min(width-got, 8-r.at%8)
		value |= uint64(r.data[r.at/8]>>(r.at%8)&(1<<n-1)) << got
		got += n
		r.at += n
	}
	return value, true
}
