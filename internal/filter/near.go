package filter

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/neardup/neardup/internal/prefetch"
)

// balls has, for a distance and a 6-bit number, the set of 6-bit numbers within the distance.
var balls = func() (balls [GroupBits + 1][64]uint64) {
	for d := range balls {
		for at := range uint(64) {
			for other := range uint(64) {
				if bits.OnesCount(at^other) <= d {
					balls[d][at] |= 1 << other
				}
			}
		}
	}
	return balls
}()

// AppendCandidates appends the prefixes that may have been added and that differ in at most radius
// bits from the prefix of a permuted fingerprint. Each result is a mask of flipped bits:
// permuted ^ mask begins with the prefix. The mask of the fingerprint's own prefix is 0. The order
// is not specified.
//
// With radius 0 or 1, all cache lines are prefetched before the first one is used, so that the
// cache misses overlap.
func (f *Prefix) AppendCandidates(dst []uint64, permuted uint64, radius int) []uint64 {
	radius = min(max(radius, 0), f.prefix)
	group, low := f.split(permuted)
	return f.appendNear(dst, group, 0, 0, low, radius)
}

// AppendAll is like AppendCandidates without a filter. It appends all prefixes within
// radius bits.
func AppendAll(dst []uint64, prefix, radius int) []uint64 {
	return appendBall(dst, prefix, 0, 0, min(max(radius, 0), prefix))
}

// appendBall appends all masks with the given flips and at most radius further flips, of the bits
// of the prefix from bit from on.
func appendBall(dst []uint64, prefix int, flips uint64, from, radius int) []uint64 {
	dst = append(dst, flips)
	if radius > 0 {
		for bit := from; bit < prefix; bit++ {
			dst = appendBall(dst, prefix, flips|1<<(63-bit), bit+1, radius-1)
		}
	}
	return dst
}

// appendNear appends the prefixes that may have been added within left further flips of a group.
// The bits in flips are flipped already. It flips bits of the group from bit from on.
func (f *Prefix) appendNear(dst []uint64, group, flips uint64, from, low, left int) []uint64 {
	if left == 1 {
		return f.appendStar(dst, group, flips, from, low)
	}
	dst = f.appendMembers(dst, f.members(group^flips, balls[min(left, GroupBits)][low]), flips, low)
	if left == 0 {
		return dst
	}
	for bit := from; bit < f.prefix-GroupBits; bit++ {
		dst = f.appendNear(dst, group, flips|1<<bit, bit+1, low, left-1)
	}
	return dst
}

// appendStar is appendNear for one flip, of one of the low bits or of one bit of the group.
func (f *Prefix) appendStar(dst []uint64, group, flips uint64, from, low int) []uint64 {
	if f.form == filterBits {
		return f.appendStarBits(dst, group, flips, from, low)
	}
	group ^= flips
	n := max(f.prefix-GroupBits-from, 0)
	lines, chooser := f.lines, f.chooser
	var at [64]uint64
	for i := range n {
		l := chooser.lineOf(group ^ 1<<((from+i)&63))
		at[i&63] = l
		prefetch.Bytes(unsafe.Pointer(&lines[l]), lineBytes)
	}
	dst = f.appendMembers(dst, f.members(group, balls[1][low&63]), flips, low)
	for i, l := range at[:n] {
		flip := uint64(1) << ((from + i) & 63)
		if found := lines[l].members(rotations(group^flip), 1<<(low&63)); found != 0 {
			dst = f.appendMembers(dst, found, flips|flip, low)
		}
	}
	runtime.KeepAlive(f)
	return dst
}

// appendStarBits is appendStar for a bit array.
func (f *Prefix) appendStarBits(dst []uint64, group, flips uint64, from, low int) []uint64 {
	group ^= flips
	found := uint64(0) // bit i for a flip of bit i of the group
	for bit := from; bit < f.prefix-GroupBits; bit++ {
		g := group ^ 1<<(bit&63)
		found |= atomic.LoadUint64(&f.lines[g>>3][g&7]) >> (low & 63) & 1 << (bit & 63)
	}
	runtime.KeepAlive(f)
	dst = f.appendMembers(dst, f.members(group, balls[1][low]), flips, low)
	for ; found != 0; found &= found - 1 {
		dst = f.appendMembers(dst, 1<<(low&63), flips|found&-found, low)
	}
	return dst
}

// appendMembers appends the members of a group as masks of flipped bits.
func (f *Prefix) appendMembers(dst []uint64, members, flips uint64, low int) []uint64 {
	for ; members != 0; members &= members - 1 {
		at := bits.TrailingZeros64(members)
		dst = append(dst, (flips<<GroupBits|uint64(at^low))<<((64-f.prefix)&63))
	}
	return dst
}
