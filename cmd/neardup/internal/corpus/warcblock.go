package corpus

import (
	"bytes"
	"fmt"
	"slices"
)

// recordBlock is the content of a record.
type recordBlock struct {
	content   []byte // scratch of the archive; the first a.limit bytes at most
	size      int64  // of all of it
	declared  int64
	repaired  string
	truncated bool
	damage    *damage
}

// readBlock reads the content of a record whose header was read, and decides
// where it ends.
func (a *archive) readBlock(declared int64) recordBlock {
	b := recordBlock{declared: declared}
	a.content = a.content[:0]
	if !a.isCredible(declared) {
		b.size = a.toRecordStart(true)
	} else if a.readDeclared(&b) {
		b.content = a.content
		return b
	}
	b.damage = a.damageHere()
	b.truncated = b.declared > b.size && a.w.ended() && !a.alone
	if whole := b.size == int64(len(a.content)); whole {
		a.content = trimRecordEnd(a.content)
		b.size = int64(len(a.content))
	}
	b.content = a.content
	if b.declared != b.size {
		b.repaired = fmt.Sprintf("the record has %d bytes, its Content-Length says %s", b.size, lengthText(b.declared))
	}
	return b
}

func lengthText(n int64) string {
	if n < 0 {
		return "nothing"
	}
	return fmt.Sprint(n)
}

// isCredible says whether to try a Content-Length. None is, once so many were
// too large that going back behind each would make reading slow: from then on
// records end only where others begin.
func (a *archive) isCredible(length int64) bool {
	rest, known := a.w.remaining()
	return length >= 0 && (!known || length <= rest) && a.reread <= 8*int64(a.limit)+a.w.pos
}

// readDeclared reads as far as the Content-Length says. It is false where that
// lies: then the record ends at the next one.
func (a *archive) readDeclared(b *recordBlock) bool {
	b.size = a.copyBytes(b.declared)
	end := notHere
	if b.size == b.declared {
		end = a.endsHere()
	}
	if end == certain {
		return true
	}
	if start, ok := a.recordInside(b.size); ok {
		a.reread += b.size - int64(start)
		a.w.unread(a.content[start:])
		a.content, b.size = a.content[:start], int64(start)
		return false
	}
	if end == perhaps {
		return true
	}
	b.size += a.toRecordStart(bytes.HasSuffix(a.content, []byte{'\n'}))
	return false
}

// recordInside finds the next record in the block of size bytes that was just
// read, where all of it is held; its first line may end behind the block.
func (a *archive) recordInside(size int64) (start int, ok bool) {
	if size != int64(len(a.content)) {
		return 0, false
	}
	end := len(a.content)
	start = findRecordStart(append(a.content, a.w.peek(startBytes)...))
	return start, start > 0 && start < end
}

// damageHere is the damage that reading has come up to.
func (a *archive) damageHere() *damage {
	if len(a.w.peek(1)) > 0 {
		return nil
	}
	return a.w.damage()
}

// copyBytes reads n bytes, less where a gzip member begins with a record, at
// the end and at damage.
func (a *archive) copyBytes(n int64) (size int64) {
	a.content = slices.Grow(a.content, int(min(n, int64(a.limit)))+startBytes)
	for size < n {
		if a.atMemberRecord() {
			break
		}
		c := a.w.chunk()
		if len(c) == 0 {
			break
		}
		c = c[:min(int64(len(c)), n-size)]
		size += int64(len(c))
		a.keep(c)
	}
	return size
}

// toRecordStart reads up to where a record begins, or to the end or damage.
func (a *archive) toRecordStart(lineStart bool) (size int64) {
	for {
		start := a.w.peek(startBytes)
		if lineStart && recordStart(start) || recordStartAnywhere(start) || a.atMemberRecord() {
			return size
		}
		c := a.w.chunk()
		if len(c) == 0 {
			return size
		}
		if next := bytes.Index(c[1:], []byte("WARC/")); next >= 0 {
			c = c[:next+1]
		} else {
			c = c[:max(1, len(c)-len("WARC"))] // it may begin at the end of the chunk
		}
		lineStart = c[len(c)-1] == '\n'
		size += int64(len(c))
		a.keep(c)
	}
}

// keep takes bytes from the window, and holds on to what is within the limit.
func (a *archive) keep(c []byte) {
	a.content = append(a.content, c[:min(len(c), max(0, a.limit-len(a.content)))]...)
	a.w.advance(len(c))
}

func (a *archive) atMemberRecord() bool {
	_, ok := a.w.atMember()
	return ok && recordStart(a.w.peek(startBytes))
}

// ending is how sure it is that a record ends here.
type ending uint8

const (
	notHere ending = iota
	perhaps        // the two empty lines that end a record follow, but no record
	certain        // but for empty lines, a record, the gzip member's end or the end of the file follows
)

func (a *archive) endsHere() ending {
	if recordStart(bytes.TrimLeft(a.w.peek(startBytes), "\r\n")) {
		return certain // without waiting for more: the input may be slow
	}
	next := a.w.peek(4 << 10)
	rest := bytes.TrimLeft(next, "\r\n")
	end := a.w.pos + int64(len(next)-len(rest))
	if recordStart(rest) {
		return certain
	}
	for _, m := range a.w.members {
		if m.pos >= end {
			if m.pos == end {
				return certain
			}
			break
		}
	}
	switch d := a.w.damage(); {
	case len(rest) == 0 && (d == nil || d.between): // a member whose checksum is wrong is wrong from its start
		return certain
	case len(rest) > 0 && (bytes.HasPrefix(next, []byte("\r\n\r\n")) || bytes.HasPrefix(next, []byte("\n\n"))):
		return perhaps
	}
	return notHere
}

// trimRecordEnd cuts the two empty lines that end a record.
func trimRecordEnd(b []byte) []byte {
	return trimLineEnd(trimLineEnd(b))
}
