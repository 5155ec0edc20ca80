package beam

import (
	"encoding/binary"
	"fmt"

	"github.com/neardup/neardup/internal/selfjoin"
	"github.com/neardup/neardup/internal/store/block"
)

// appendBlob packs nodes of a set, in about 2 bits more each than what tells them apart:
// blocks of the index's format, each behind its length.
func appendBlob(dst []byte, set *selfjoin.Set, from, to selfjoin.Node) ([]byte, error) {
	numbers := make([]uint64, 0, min(to-from, block.MaxLen))
	for from < to {
		numbers = numbers[:0]
		for ; from < to && len(numbers) < block.MaxLen; from++ {
			numbers = append(numbers, uint64(set.Fingerprint(from)))
		}
		start := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		var err error
		if dst, err = block.Append(dst, numbers); err != nil {
			return nil, fmt.Errorf("beam: packing %d fingerprints: %w", len(numbers), err)
		}
		binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	}
	return dst, nil
}

// appendFingerprints unpacks a blob.
func appendFingerprints(dst []fp, blob []byte) ([]fp, error) {
	var numbers []uint64
	for at := 0; at < len(blob); {
		if len(blob)-at < 4 {
			return nil, fmt.Errorf("%w: blob ends at %d in a length", errData, len(blob))
		}
		length := int64(binary.LittleEndian.Uint32(blob[at:]))
		at += 4
		if length > int64(len(blob)-at) {
			return nil, fmt.Errorf("%w: blob ends at %d, a block of %d bytes begins at %d", errData, len(blob), length, at)
		}
		var b block.Block
		if err := b.Open(blob[at : at+int(length)]); err != nil {
			return nil, fmt.Errorf("%w: block at %d: %w", errData, at, err)
		}
		numbers = b.AppendTo(numbers[:0])
		for _, n := range numbers {
			dst = append(dst, fp(n))
		}
		at += int(length)
	}
	return dst, nil
}
