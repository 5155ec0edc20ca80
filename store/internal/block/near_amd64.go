package block

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasVectors reports whether the processor has the instructions of passFarVectors: AVX-512 with
// VPERMB and VPOPCNTQ, as in Intel's processors since Ice Lake and AMD's since Zen 4.
var hasVectors = cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VBMI &&
	cpu.X86.HasAVX512VPOPCNTDQ

func (c *Comparison) passFar(eights unsafe.Pointer, n int) (passed int, near uint8) {
	if hasVectors {
		return passFarVectors(c, eights, n)
	}
	return c.passFarWords(eights, n)
}

// passFarVectors is passFarWords with one vector per group.
//
//go:noescape
func passFarVectors(c *Comparison, eights unsafe.Pointer, n int) (passed int, near uint8)
