//go:build amd64 || arm64

package selfjoin

import (
	"errors"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestSetsRefuseMoreThanTheyCanNumber tests the errors for more than maxLen fingerprints. Their
// memory is not readable, so reading one of them ends the test.
func TestSetsRefuseMoreThanTheyCanNumber(t *testing.T) {
	const bytes = 8 * (maxLen + 1)
	addresses, err := unix.Mmap(-1, 0, bytes, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Skipf("no %d bytes of addresses: %v", bytes, err)
	}
	defer func() {
		if err := unix.Munmap(addresses); err != nil {
			t.Error(err)
		}
	}()
	fps := unsafe.Slice((*fp)(unsafe.Pointer(unsafe.SliceData(addresses))), maxLen+1)
	if _, err := NewSet(fps); !errors.Is(err, errTooMany) {
		t.Errorf("NewSet of %d: %v", len(fps), err)
	}
	if _, _, err := NewSetWithPlaces(fps); !errors.Is(err, errTooMany) {
		t.Errorf("NewSetWithPlaces of %d: %v", len(fps), err)
	}
	if _, err := SortedSet(fps, nil); !errors.Is(err, errTooMany) {
		t.Errorf("SortedSet of %d: %v", len(fps), err)
	}
}
