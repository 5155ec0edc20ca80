package view

import (
	"fmt"

	"github.com/neardup/neardup/fingerprint"
)

// bits is a picture of two fingerprints, one above the other: their bits, and which differ.
type bits struct {
	Name  string
	Text  string // for who does not see it
	Cells []cell
}

type cell struct {
	X, Y   float64
	Colour string
	Mark   bool // of a bit that differs, below both
}

const bitWidth = 10.0

func newBits(name string, a, b fingerprint.Fingerprint) *bits {
	p := &bits{Name: name, Text: fmt.Sprintf("%s: %v and %v differ in %d of 64 bits", name, a, b, a.Distance(b))}
	for i := range 64 {
		bit := 63 - i
		x := bitWidth*float64(i) + float64(i/8)*4
		inA, inB := a>>bit&1, b>>bit&1
		for row, set := range []fingerprint.Fingerprint{inA, inB} {
			colour := "e"
			if set == 1 {
				colour = "d"
				if inA != inB {
					colour = "b"
				}
			}
			p.Cells = append(p.Cells, cell{X: x, Y: float64(row) * 13, Colour: colour})
		}
		if inA != inB {
			p.Cells = append(p.Cells, cell{X: x, Y: 27, Colour: "b", Mark: true})
		}
	}
	return p
}
