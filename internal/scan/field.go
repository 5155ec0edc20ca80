package scan

// field is a range of the bits of a fingerprint: width bits, behind the first ones.
type field struct{ first, width int }

// mask has the bits of the field set.
func (f field) mask() uint64 { return ^uint64(0) >> (64 - f.width) << (64 - f.first - f.width) }

// of returns the field of a fingerprint, as a number.
func (f field) of(fp uint64) uint64 { return fp << (f.first & 63) >> ((64 - f.width) & 63) }

// radiusField is a field in which two fingerprints are to differ in so many bits at most.
type radiusField struct {
	field
	radius int
}

// divide splits a field into parts whose radii, one more for each part, come to sum, so
// that what differs in fewer bits than sum is near in some part. The parts with the
// larger radius come first, and are wider where bits are left over.
func divide(f field, parts, sum int) []radiusField {
	var out []radiusField
	first := f.first
	for i := range parts {
		width := f.width / parts
		if i < f.width%parts {
			width++
		}
		radius := sum/parts - 1
		if i < sum%parts {
			radius++
		}
		out = append(out, radiusField{field{first, width}, radius})
		first += width
	}
	return out
}

// flipsOf returns the numbers of so many bits of which at most radius are set.
func flipsOf(width, radius int) []uint64 { return appendFlips(nil, width, 0, 0, radius) }

func appendFlips(dst []uint64, width int, flips uint64, from, left int) []uint64 {
	dst = append(dst, flips)
	if left > 0 {
		for bit := from; bit < width; bit++ {
			dst = appendFlips(dst, width, flips|1<<(width-1-bit), bit+1, left-1)
		}
	}
	return dst
}

// hammingBallSize returns how many numbers of so many bits are within a radius of one.
func hammingBallSize(width, radius int) float64 {
	sum, choose := 0.0, 1.0
	for flips := 0; flips <= min(radius, width); flips++ {
		sum += choose
		choose *= float64(width-flips) / float64(flips+1)
	}
	return sum
}
