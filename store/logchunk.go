package store

import (
	"encoding/binary"
	"hash/crc32"
)

// Pebble's logs and MANIFESTs are blocks of 32 KiB, which hold chunks: a checksum (4 B),
// the length of the payload (2 B) and the type (1 B), in a log also the log's number (4 B)
// and, but in the first log of a database, how far it was known to be synced (8 B), then
// the payload. All little-endian. The checksum is of everything from the type on.
const (
	logBlockLen       = 32 << 10
	manifestHeaderLen = 7
	firstLogHeaderLen = 11
	logHeaderLen      = 19
	logEndLen         = 11 // of what ends a log that was closed: no checksum, no payload, type 5, the number plus 1
)

// The types, from the first one of the format on.
const (
	chunkWhole = iota
	chunkFirst
	chunkMiddle
	chunkLast
)

// chunkFormat is what the chunks of a file look like.
type chunkFormat struct {
	header    int
	firstType byte // of four: a whole record, the first, a middle and the last part of one
	number    uint32
}

func manifestFormat() chunkFormat { return chunkFormat{manifestHeaderLen, 1, 0} }

func logFormat(number uint64) chunkFormat { return chunkFormat{logHeaderLen, 9, uint32(number)} }

func firstLogFormat(number uint64) chunkFormat {
	return chunkFormat{firstLogHeaderLen, 5, uint32(number)}
}

// isLog reports whether the chunks have a number.
func (f chunkFormat) isLog() bool { return f.header != manifestHeaderLen }

func (f chunkFormat) knows(kind byte) bool { return kind >= f.firstType && kind < f.firstType+4 }

// at returns the length of the chunk with which a block, or the rest of one, begins; 0 if
// that is none.
func (f chunkFormat) at(block []byte) int {
	if len(block) < f.header || !f.knows(block[6]) || !f.numbered(block) {
		return 0
	}
	n := f.header + int(binary.LittleEndian.Uint16(block[4:]))
	if n > len(block) || checksum(block[6:n]) != binary.LittleEndian.Uint32(block) {
		return 0
	}
	return n
}

func (f chunkFormat) numbered(block []byte) bool {
	return !f.isLog() || binary.LittleEndian.Uint32(block[7:]) == f.number
}

// shows reports whether a chunk shows that what is at a place before it had been synced.
func (f chunkFormat) shows(chunk []byte, place uint64) bool {
	switch f.header {
	case manifestHeaderLen: // synced one by one
		return true
	case logHeaderLen:
		return binary.LittleEndian.Uint64(chunk[11:]) > place
	}
	return false
}

// isEnd reports whether a block begins with what ends a log.
func (f chunkFormat) isEnd(block []byte) bool {
	return f.isLog() && len(block) >= logEndLen && string(block[:7]) == "\x00\x00\x00\x00\x00\x00\x05" &&
		binary.LittleEndian.Uint32(block[7:]) == f.number+1
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is as Pebble writes it.
func checksum(data []byte) uint32 { return mask(crc32.Update(0, castagnoli, data)) }

const crcMask = 0xa282ead8

func mask(crc uint32) uint32 { return (crc>>15 | crc<<17) + crcMask }

func unmask(sum uint32) uint32 {
	sum -= crcMask
	return sum<<15 | sum>>17
}

// wrongByte finds the one byte by which a block, or the rest of one, differs from one that
// begins with a chunk: where it is, and what it should be. That there is one by chance has
// odds of about one in 2^32 for each byte of the chunk and each value of a byte.
func (f chunkFormat) wrongByte(block []byte) (at int, want byte, found bool) {
	if len(block) < f.header {
		return 0, 0, false
	}
	sum := binary.LittleEndian.Uint32(block)
	length := binary.LittleEndian.Uint16(block[4:])
	if f.numbered(block) {
		for kind := f.firstType; kind < f.firstType+4; kind++ {
			if end := f.header + int(length); end <= len(block) && kind != block[6] && f.sumWith(block[6:end], kind) == sum {
				return 6, kind, true
			}
		}
	}
	if !f.knows(block[6]) {
		return 0, 0, false
	}
	if f.numbered(block) {
		if at, want, found = f.wrongLength(block, length, sum); found {
			return at, want, true
		}
	}
	end := f.header + int(length)
	if end > len(block) {
		return 0, 0, false
	}
	at, change, found := wrongBit(sum, block[6:end])
	if !found {
		return 0, 0, false
	}
	fixed := append([]byte(nil), block[:end]...)
	fixed[at] ^= change
	return at, fixed[at], f.at(fixed) == end
}

// sumWith is the checksum of a chunk as if its type were another one.
func (f chunkFormat) sumWith(data []byte, kind byte) uint32 {
	return mask(crc32.Update(crc32.Update(0, castagnoli, []byte{kind}), castagnoli, data[1:]))
}

// wrongLength looks for another length, different in one byte, with which the checksum is
// right.
func (f chunkFormat) wrongLength(block []byte, length uint16, sum uint32) (at int, want byte, found bool) {
	crc := crc32.Update(0, castagnoli, block[6:f.header])
	for n := 0; f.header+n <= len(block); n++ {
		if n > 0 {
			crc = crc32.Update(crc, castagnoli, block[f.header+n-1:f.header+n])
		}
		differs := length ^ uint16(n)
		if differs == 0 || differs>>8 != 0 && differs&0xff != 0 || mask(crc) != sum {
			continue
		}
		if differs>>8 != 0 {
			return 5, byte(n >> 8), true
		}
		return 4, byte(n), true
	}
	return 0, 0, false
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
