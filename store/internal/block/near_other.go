//go:build !amd64

package block

import "unsafe"

func (c *Comparison) passFar(eights unsafe.Pointer, n int) (passed int, near uint8) {
	return c.passFarWords(eights, n)
}
