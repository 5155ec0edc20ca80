package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is as Pebble writes it.
func checksum(data []byte) uint32 { return mask(crc32.Checksum(data, castagnoli)) }

const crcMask = 0xa282ead8

func mask(crc uint32) uint32 { return (crc>>15 | crc<<17) + crcMask }

func unmask(sum uint32) uint32 {
	sum -= crcMask
	return sum<<15 | sum>>17
}

// wrongBit finds the byte of a chunk, from its checksum on, that makes the checksum wrong,
// and what to XOR it with. An error of one byte leaves in the checksum what a register
// holds that the byte and then zeros were shifted through; it is shifted back until a
// single byte is left.
func wrongBit(sum uint32, data []byte) (at int, change byte, found bool) {
	right := checksum(data)
	for i := range 4 {
		if differs := right ^ sum; differs&^(0xff<<(8*i)) == 0 && differs != 0 {
			return i, byte(differs >> (8 * i)), true
		}
	}
	register := unmask(right) ^ unmask(sum)
	for i := len(data) - 1; i >= 0; i-- {
		index := crcIndex[register>>24]
		register = (register^castagnoli[index])<<8 | uint32(index)
		if register > 0 && register < 256 {
			return 6 + i, byte(register), true
		}
	}
	return 0, 0, false
}

// crcIndex finds an entry of the CRC table by its highest byte.
var crcIndex = func() (index [256]byte) {
	for i, entry := range castagnoli {
		index[entry>>24] = byte(i)
	}
	return index
}()

// logData is what a log or MANIFEST holds.
type logData struct {
	data   []byte
	number uint64 // of the log; 0: a MANIFEST
}

// chunkLen returns the length of the chunk with which the rest of a block begins; 0 if that is none.
func (l logData) chunkLen(rest []byte) int {
	n := l.claimedLen(rest)
	if n == 0 || n > len(rest) || checksum(rest[6:n]) != binary.LittleEndian.Uint32(rest) ||
		l.number > 0 && binary.LittleEndian.Uint32(rest[7:]) != uint32(l.number) {
		return 0
	}
	return n
}

// claimedLen returns how long a chunk would be by its type and length; 0 if there is no such type.
func (l logData) claimedLen(rest []byte) int {
	if len(rest) < 7 || rest[6] < 1 || rest[6] > 12 || (rest[6] > 4) != (l.number > 0) {
		return 0
	}
	return chunkHeaders[(rest[6]-1)/4] + int(binary.LittleEndian.Uint16(rest[4:]))
}

// mend puts right each chunk in which one byte is wrong, and returns how many those were, and where
// what can be read ends.
func (l logData) mend() (mended, end int) {
	for at := 0; at < len(l.data); {
		rest := l.data[at:min(at/logBlockLen*logBlockLen+logBlockLen, len(l.data))]
		if n := l.chunkLen(rest); n > 0 {
			at += n
			continue
		}
		if l.isPadding(rest, at) {
			at += len(rest)
			continue
		}
		if !l.mendChunk(rest) {
			return mended, at
		}
		mended++
	}
	return mended, len(l.data)
}

// mendChunk puts right the one wrong byte of the chunk that the rest of a block begins with. The odds
// that there is such a byte by chance, in what a crash cut off, are some hundred to one: what
// comes of it must be the batch that was missing.
func (l logData) mendChunk(rest []byte) bool {
	at, was, found := l.wrongByte(rest)
	if !found {
		return false
	}
	before := l.batches()
	rest[at], was = was, rest[at]
	if l.number > 0 && l.batches() <= before {
		rest[at] = was
		return false
	}
	return true
}

func (l logData) wrongByte(rest []byte) (at int, want byte, found bool) {
	if len(rest) < 7 {
		return 0, 0, false
	}
	try := bytes.Clone(rest)
	for at := 4; at <= 6; at++ { // the length and the type tell how far the checksum reaches
		for want := range 256 {
			if try[at] = byte(want); l.chunkLen(try) > 0 {
				return at, byte(want), true
			}
		}
		try[at] = rest[at]
	}
	n := l.claimedLen(rest)
	if n == 0 || n > len(rest) {
		return 0, 0, false
	}
	at, change, found := wrongBit(binary.LittleEndian.Uint32(rest), rest[6:n])
	if !found {
		return 0, 0, false
	}
	try[at] ^= change
	return at, try[at], l.chunkLen(try) == n
}

// records yields the records up to the first chunk that is none, or until yield returns false.
// Pebble's own reader looks for a flipped bit where a chunk is wrong, which takes it long.
func (l logData) records(yield func(record []byte) bool) {
	var record []byte
	for at := 0; at < len(l.data); {
		rest := l.data[at:min(at/logBlockLen*logBlockLen+logBlockLen, len(l.data))]
		n := l.chunkLen(rest)
		if n == 0 && !l.isPadding(rest, at) {
			return
		}
		if n == 0 {
			at += len(rest)
			continue
		}
		const whole, first, last = 0, 1, 3
		part := (rest[6] - 1) % 4
		if part == whole || part == first {
			record = record[:0]
		}
		record = append(record, rest[chunkHeaders[(rest[6]-1)/4]:n]...)
		if (part == whole || part == last) && !yield(record) {
			return
		}
		at += n
	}
}

// isPadding reports whether there is no room for another chunk in the rest of a block at a place.
func (l logData) isPadding(rest []byte, at int) bool {
	return len(rest) < chunkHeaders[2] && (at+len(rest))%logBlockLen == 0 && len(bytes.Trim(rest, "\x00")) == 0
}

// batches counts the batches that can be read.
func (l logData) batches() (n int) {
	for record := range l.records {
		if isBatch(record) {
			n++
		}
	}
	return n
}

// isWhole reports whether nothing tells Pebble's reader that there was more.
func (l logData) isWhole() bool {
	r := newLogReader(record.NewReader, bytes.NewReader(l.data), l.number)
	for {
		next, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, next)
		}
		if err != nil {
			return !errors.Is(err, record.ErrInvalidChunk) && !errors.Is(err, record.ErrZeroedChunk)
		}
	}
}

// newLogReader is record.NewReader. The type of a log's number has no name outside of Pebble.
func newLogReader[N ~uint64](newReader func(io.Reader, N) *record.Reader, r io.Reader, number uint64) *record.Reader {
	return newReader(r, N(number))
}

// isBatch reports whether a record has all the entries that it says. Pebble's reader may
// run over the end of what is none.
func isBatch(record []byte) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	header, ok := batchrepr.ReadHeader(record)
	if !ok {
		return false
	}
	count, batch := uint32(0), batchrepr.Read(record)
	for {
		kind, _, _, ok, err := batch.Next()
		if err != nil {
			return false
		}
		if !ok {
			return count == header.Count
		}
		if kind != logDataKind {
			count++
		}
	}
}

// logDataKind is that of an entry which is in the log only.
const logDataKind = 3

// mendBlock puts right the one wrong byte of a block, if there is one. Behind the block are
// the kind of its compression (1 B), which the checksum covers, and the checksum (4 B).
func mendBlock(file []byte, b block.Handle) bool {
	end := b.Offset + b.Length + 5
	if b.Length == 0 || end > uint64(len(file)) || end < b.Offset {
		return false
	}
	covered, sum := file[b.Offset:end-4], file[end-4:end]
	if checksum(covered) == binary.LittleEndian.Uint32(sum) {
		return false
	}
	at, change, found := wrongBit(binary.LittleEndian.Uint32(sum), covered)
	switch {
	case !found:
		return false
	case at < 4:
		sum[at] ^= change
	default:
		covered[at-6] ^= change // wrongBit counts as for a chunk, whose type is at 6
	}
	return checksum(covered) == binary.LittleEndian.Uint32(sum)
}
