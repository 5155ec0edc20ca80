package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A byte of the OPTIONS file that is another one does no harm, or Open says that the file
// is damaged or not of an index.
func TestEveryFlippedByteOfTheOptions(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open("ix", Options{Create: &Header{}, FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	desc, err := pebble.Peek("ix", mem)
	if err != nil {
		t.Fatal(err)
	}
	text := string(bytesOf(t, mem, mem.PathBase(desc.OptionsFilename)))
	// Pebble compares the names in its first section, and looks at no others.
	names, harmless, refused := strings.Index(text, "[Level"), 0, 0
	if !strings.Contains(text[:names], "comparer=") || !strings.Contains(text[:names], "wal_dir=") {
		t.Fatalf("not in the first section of\n%s", text)
	}
	for at := range names {
		for _, change := range []byte{1, 0x88} {
			damaged := []byte(text)
			damaged[at] ^= change
			switch err := checkOptions("ix", string(damaged), desc.OptionsFilename); {
			case err == nil:
				harmless++
			case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotIndex) || errors.Is(err, ErrVersion):
				refused++
				continue
			default:
				t.Errorf("byte %d ^ %#02x: %v", at, change, err)
			}
			if err := s.options.CheckCompatibility("ix", string(damaged)); err != nil {
				t.Errorf("byte %d ^ %#02x passes, and Pebble says: %v", at, change, err)
			}
		}
	}
	t.Logf("%d harmless, %d refused", harmless, refused)
	if harmless == 0 || refused < 20 {
		t.Errorf("%d harmless, %d refused", harmless, refused)
	}
}
