package fingerprint

import "encoding/binary"

// In Cyrillic, Greek, Arabic and Hebrew text nearly all characters take two bytes, and
// the others are ASCII. Where a word ends cannot be predicted, so here four
// characters are taken at a time, whichever they are.

// twoByteRun is fastPath for such text. It stops where a character needs more than the tables, or none
// of two bytes is near.
func (t *tokenizer) twoByteRun(out []byte, o, i, end int) (nextI, nextO int) {
	text, letters := t.text, &t.tables.twoByte
	for i < end && i+16 <= len(text) {
		b := (*[16]byte)(text[i:])
		x := binary.LittleEndian.Uint64(b[:])
		high := x & highBits
		lead := high & (x << 1)
		if lead == 0 || lead&(x<<2) != 0 || high&^lead != lead<<8 {
			break
		}
		at := &startPlaces[(highBits&^(high&^lead))>>7*0x0102040810204080>>56]
		at1, at2, at3 := at[0]&7, at[1]&7, at[2]&7
		v0, v1 := letters[pairIndex(b[0], b[1])], letters[pairIndex(b[at1], b[at1+1])]
		v2, v3 := letters[pairIndex(b[at2], b[at2+1])], letters[pairIndex(b[at3], b[at3+1])]
		if (v0|v1|v2|v3)&slowTwoByte != 0 {
			break
		}
		room := (*[16]byte)(out[o:])
		n1 := v0 >> 16
		n2 := n1 + v1>>16
		n3 := n2 + v2>>16
		binary.LittleEndian.PutUint16(room[:], uint16(v0))
		binary.LittleEndian.PutUint16(room[n1&7:], uint16(v1))
		binary.LittleEndian.PutUint16(room[n2&7:], uint16(v2))
		binary.LittleEndian.PutUint16(room[n3&7:], uint16(v3))
		o += int(n3 + v3>>16)
		i += int(at[3])
	}
	return i, o
}

// startPlaces gives, by the bytes of eight that begin a character of one or two, where the
// second to fifth of them are; 8 for none.
var startPlaces = func() (places [256][4]uint8) {
	for starts := range places {
		places[starts] = [4]uint8{8, 8, 8, 8}
		for n, at := 0, 1; at < 8 && n < 4; at++ {
			if starts>>at&1 != 0 {
				places[starts][n] = uint8(at)
				n++
			}
		}
	}
	return places
}()

// pairIndex is the place in tables.twoByte of a character that begins with b0, and may go on
// with b1.
func pairIndex(b0, b1 byte) uint {
	i := pairIndexes[b0]
	return uint(i>>8) + uint(b1&byte(i))
}

// pairIndexes has, by first byte, where such characters begin in tables.twoByte, and in its
// low 8 bits those of the second byte that count.
var pairIndexes = func() (indexes [256]uint32) {
	for b := range indexes {
		switch {
		case b < 0x80:
			indexes[b] = uint32(asciiTwoByte+b) << 8
		case b >= 0xC0:
			indexes[b] = uint32(b&0x1f<<6)<<8 | 0x3f
		}
	}
	return indexes
}()
