//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris

package offheap

import (
	"github.com/neardup/neardup/internal/hugepages"
	"golang.org/x/sys/unix"
)

func mapped(bytes int) (memory []byte, free func()) {
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil
	}
	hugepages.Prefer(memory)
	return memory, func() { _ = unix.Munmap(memory) }
}
