package surgeon

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/fault"
)

// wrongByte finds the byte of some data that makes its checksum wrong, and what to XOR it with; at is
// negative where it is in the checksum itself, -4 to -1. An error of one byte leaves in the CRC what a register
// holds that the byte and then zeros were shifted through; it is shifted back until a
// single byte is left.
func wrongByte(sum uint32, data []byte) (at int, change byte, found bool) {
	right := checksum(data)
	for i := range 4 {
		if differs := right ^ sum; differs&^(0xff<<(8*i)) == 0 && differs != 0 {
			return i - 4, byte(differs >> (8 * i)), true
		}
	}
	unmask := func(sum uint32) uint32 {
		sum -= crcMask
		return sum<<15 | sum>>17
	}
	register := unmask(right) ^ unmask(sum)
	for i := len(data) - 1; i >= 0; i-- {
		index := crcIndex[register>>24]
		register = (register^castagnoli[index])<<8 | uint32(index)
		if register > 0 && register < 256 {
			return i, byte(register), true
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

// fixBitFlips puts right each chunk in which one byte is wrong, and returns how many those were, and where
// what can be read ends.
func (l logFile) fixBitFlips() (fixed, end int) {
	for {
		end = l.read(func([]byte) bool { return true })
		if end == len(l.data) || !l.fixChunk(l.block(end)) {
			return fixed, end
		}
		fixed++
	}
}

// fixChunk puts right the one wrong byte of the chunk that the rest of a block begins with. The odds
// that there is such a byte by chance, in what a crash cut off, are some hundred to one: what
// comes of it must be the batch that was missing.
func (l logFile) fixChunk(rest []byte) bool {
	at, right, found := l.wrongByteOf(rest)
	if !found {
		return false
	}
	before := l.batches()
	wrong := rest[at]
	rest[at] = right
	if l.number > 0 && l.batches() <= before {
		rest[at] = wrong
		return false
	}
	return true
}

func (l logFile) wrongByteOf(rest []byte) (at int, right byte, found bool) {
	if len(rest) < 7 {
		return 0, 0, false
	}
	try := bytes.Clone(rest)
	for at := 4; at <= 6; at++ { // the length and the type tell how far the checksum reaches
		for right := range 256 {
			if try[at] = byte(right); l.chunkLen(try) > 0 {
				return at, byte(right), true
			}
		}
		try[at] = rest[at]
	}
	n := l.claimedLen(rest)
	if n == 0 || n > len(rest) {
		return 0, 0, false
	}
	at, change, found := wrongByte(binary.LittleEndian.Uint32(rest), rest[6:n])
	if !found {
		return 0, 0, false
	}
	if at += 6; at < 6 { // the checksum stands 2 bytes before
		at -= 2
	}
	try[at] ^= change
	return at, try[at], l.chunkLen(try) == n
}

// fixBlock puts right the one wrong byte of a block of a table, if there is one. Behind the block are
// the kind of its compression (1 B), which the checksum covers, and the checksum (4 B).
func fixBlock(file []byte, b block.Handle) bool {
	end := b.Offset + b.Length + 5
	if b.Length == 0 || end > uint64(len(file)) || end < b.Offset {
		return false
	}
	covered, sum := file[b.Offset:end-4], file[end-4:end]
	if checksum(covered) == binary.LittleEndian.Uint32(sum) {
		return false
	}
	at, change, found := wrongByte(binary.LittleEndian.Uint32(sum), covered)
	switch {
	case !found:
		return false
	case at < 0:
		sum[4+at] ^= change
	default:
		covered[at] ^= change
	}
	return checksum(covered) == binary.LittleEndian.Uint32(sum)
}

// fixTable puts right each block of a table in which one byte is wrong, and returns how many those were. What
// else is wrong stays.
func fixTable(ctx context.Context, path string, o *pebble.Options, fsys vfs.FS) (fixed int, err error) {
	blocks, err := blocksOf(ctx, path, o)
	if fault.Denied(err) {
		return 0, err
	}
	if err != nil {
		return 0, nil // without the list of its blocks, nothing can be done
	}
	data, err := ReadFile(path, fsys)
	if err != nil {
		return 0, err
	}
	for _, b := range blocks {
		if fixBlock(data, b) {
			fixed++
		}
	}
	if fixed == 0 {
		return 0, nil
	}
	if err := fsys.Remove(path); err != nil { // it is a link
		return 0, err
	}
	return fixed, writeFile(path, data, false, fsys)
}

func blocksOf(ctx context.Context, path string, o *pebble.Options) (blocks []block.Handle, err error) {
	r, err := openTable(ctx, path, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	l, err := r.Layout()
	if err != nil {
		return nil, err
	}
	for _, d := range l.Data {
		blocks = append(blocks, d.Handle)
	}
	for _, f := range l.Filter {
		blocks = append(blocks, f.Handle)
	}
	return append(blocks, l.RangeDel), nil
}
