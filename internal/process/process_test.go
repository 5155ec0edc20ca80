package process

import "testing"

func TestHostFiles(t *testing.T) {
	for openFiles, want := range map[uint64]uint64{0: 8, 144: 8, 256: 64, 1024: 448,
		2128: 1000, 5224: 4096} {
		if got := HostFiles(openFiles); got != want {
			t.Errorf("of %d files: %d, want %d", openFiles, got, want)
		}
	}
}
