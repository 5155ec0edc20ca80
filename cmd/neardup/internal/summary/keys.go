package summary

import "github.com/cespare/xxhash/v2"

// keyFiles remembers the file that each key came from last. Its memory is fixed, so it forgets a key
// if a later one takes its slot.
type keyFiles struct{ slots []keySlot }

type keySlot struct{ tag, file uint32 }

// keySlots is the number of slots: 8 MiB in all.
const keySlots = 1 << 20

// put notes that a key came from a file, which has a number from 1. It reports whether the key came
// from another file before.
func (k *keyFiles) put(key string, file int) bool {
	if k.slots == nil {
		k.slots = make([]keySlot, keySlots)
	}
	hash := xxhash.Sum64String(key)
	slot := &k.slots[hash%keySlots]
	now := keySlot{tag: uint32(hash >> 32), file: uint32(file)}
	other := slot.file != 0 && slot.tag == now.tag && slot.file != now.file
	*slot = now
	return other
}
