//go:build !purego

package fingerprint

import "golang.org/x/sys/cpu"

var useAVX2 = cpu.X86.HasAVX2

// add counts the hashes of whole blocks.
func (l *lanes) add(hashes []uint64) {
	if useAVX2 {
		addAVX2(l, hashes)
	} else {
		l.addPortable(hashes)
	}
}

// addAVX2 needs a block at least.
//
//go:noescape
func addAVX2(l *lanes, hashes []uint64)
