//go:build !purego

package fingerprint

func notZeros(masks []uint64, b []byte) {
	if useAVX2 {
		notZerosAVX2(masks, b)
	} else {
		notZerosPortable(masks, b)
	}
}

// notZerosAVX2 needs a mask at least.
//
//go:noescape
func notZerosAVX2(masks []uint64, b []byte)
