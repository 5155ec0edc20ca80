package store

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/store/block"
)

// postingMerger merges the operands of one posting: the IDs that any of them
// adds, less those that any removes. An ID is never given out twice, so it can
// not come back after its removal and the order of operands is of no account.
var postingMerger = &pebble.Merger{
	Name: "neardup.posting.1",
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		m := &postingValue{}
		return m, m.merge(value)
	},
}

type postingValue struct {
	added, removed block.IDsBuilder
}

func (m *postingValue) MergeNewer(value []byte) error { return m.merge(value) }
func (m *postingValue) MergeOlder(value []byte) error { return m.merge(value) }

func (m *postingValue) merge(operand []byte) error {
	added, removed, err := decodeChange(operand)
	if err != nil {
		return err
	}
	m.added.Add(added)
	m.removed.Add(removed)
	return nil
}

// Finish keeps what is removed, also where nothing older is left to merge: the packed
// posting may have it. It leaves an empty posting where all IDs are removed. Pebble's
// DeletableValueMerger would drop the key, but its compactions panic, or bring
// removed values back, when they do (cockroachdb/pebble#6168, v2.1.7); so Batch
// deletes a posting that it leaves empty, and a reader takes an empty one for none.
func (m *postingValue) Finish(bool) ([]byte, io.Closer, error) {
	added, removed := m.added.Build(), m.removed.Build()
	value, err := appendChange(nil, added.Without(removed), removed)
	return value, nil, err
}

// postingChange is the codec byte of a value that adds and removes, see docs/format.md.
const postingChange = 0x03

// readPosting applies the live posting of a fingerprint to its packed one.
func readPosting(live []byte, packed IDs) (IDs, error) {
	added, removed, err := decodeChange(live)
	if err != nil {
		return IDs{}, err
	}
	// An operand that nothing was merged with yet may remove what it adds itself.
	return packed.Union(added).Without(removed), nil
}

// appendChange writes a posting operand: the IDs to add and those to remove.
func appendChange(dst []byte, added, removed IDs) ([]byte, error) {
	if removed.Len() == 0 {
		return added.Append(dst)
	}
	encoded, err := added.Append(nil)
	if err != nil {
		return nil, err
	}
	dst = append(dst, postingChange)
	dst = binary.AppendUvarint(dst, uint64(len(encoded)))
	return removed.Append(append(dst, encoded...))
}

func decodeChange(src []byte) (added, removed IDs, err error) {
	if len(src) == 0 || src[0] != postingChange {
		added, err = block.DecodeIDs(src)
		return added, IDs{}, err
	}
	length, n := binary.Uvarint(src[1:])
	if n <= 0 || length > uint64(len(src)-1-n) {
		return IDs{}, IDs{}, fmt.Errorf("%w: posting change breaks off", ErrCorrupt)
	}
	rest := src[1+n:]
	if added, err = block.DecodeIDs(rest[:length]); err != nil {
		return IDs{}, IDs{}, err
	}
	removed, err = block.DecodeIDs(rest[length:])
	return added, removed, err
}
