package corpus

import (
	"bytes"
	"fmt"
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
	if a.distrustsLengths() {
		declared = -1
	}
	if n, ok := a.w.remaining(); ok && declared > n {
		declared = -1
	}
	a.content = a.content[:0]
	if declared >= 0 {
		b.size = a.copyBytes(declared)
		if b.size == declared && a.endsHere() {
			b.content = a.content
			return b
		}
		if start := findRecordStart(a.content); start > 0 {
			a.reread += int64(len(a.content) - start)
			a.w.unread(a.content[start:])
			a.content, b.size = a.content[:start], int64(start)
		} else {
			b.size += a.toRecordStart(bytes.HasSuffix(a.content, []byte{'\n'}))
		}
	} else {
		b.size = a.toRecordStart(true)
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

// distrustsLengths is true once so many lengths were too large that going
// back behind each would make reading slow: from then on records end only
// where others begin.
func (a *archive) distrustsLengths() bool {
	return a.reread > 8*int64(a.limit)+a.w.pos
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
		if a.atMemberRecord() || lineStart && recordStart(a.w.peek(recordStartBytes)) {
			return size
		}
		c := a.w.chunk()
		if len(c) == 0 {
			return size
		}
		end := bytes.IndexByte(c, '\n')
		if lineStart = end >= 0; lineStart {
			c = c[:end+1]
		}
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
	return ok && recordStart(a.w.peek(recordStartBytes))
}

// endsHere says whether a record can end here: what follows, but for blank
// lines, is a record, the gzip member's end or the end of the file; or there
// are the two empty lines that end a record, whatever follows them.
func (a *archive) endsHere() bool {
	next := a.w.peek(4 << 10)
	if _, ok := a.w.atMember(); ok || len(next) == 0 {
		return a.w.damage() == nil || ok
	}
	rest := bytes.TrimLeft(next, "\r\n")
	blank := len(next) - len(rest)
	switch {
	case bytes.HasPrefix(next, []byte("\r\n\r\n")), bytes.HasPrefix(next, []byte("\n\n")):
		return true
	case len(rest) == 0, recordStart(rest):
		return true
	}
	for _, m := range a.w.members {
		if at := a.w.pos + int64(blank); m.pos >= at {
			return m.pos == at
		}
	}
	return false
}

// trimRecordEnd cuts the two empty lines that end a record.
func trimRecordEnd(b []byte) []byte {
	return trimLineEnd(trimLineEnd(b))
}
