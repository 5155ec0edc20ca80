package corpus

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// largeBlock is from when on a block is handed over and not copied.
const largeBlock = 1 << 20

// httpSlack is how much larger than a document the record around it may be.
const httpSlack = 1 << 20

// archive reads a WARC file. What follows from real archives:
//
// A record ends where its Content-Length says, if a record, the gzip member's
// end or the file's end follows there. If not, the length lies, and the record
// ends where the next one begins: with a version ("WARC/1.0") at a gzip member
// or a line, or with a version and a field anywhere. So one wrong, negative or missing length costs
// nothing, and its record is marked as repaired. Where no record begins and
// none is expected, what is passed over is one skip.
type archive struct {
	*source
	limit   int     // of a record
	header  []byte  // scratch
	content []byte  // scratch
	alone   bool    // the record began a gzip member
	reread  int64   // bytes put back into the window
	told    *damage // the damage that was reported last
}

func newArchive(s *source) *archive {
	return &archive{source: s, limit: int(s.opts.MaxDocument) + httpSlack}
}

func (a *archive) read() {
	for first := true; ; first = false {
		a.skipBlankLines()
		if len(a.w.peek(1)) > 0 {
			if !a.record() {
				return
			}
			continue
		}
		d := a.w.damage()
		if d == nil && first {
			a.skip(0, "", Skip{Reason: "empty", Document: true})
		}
		if d == nil || d == a.told || !a.lost(d.at, recordHeader{}, d) {
			return
		}
	}
}

// record reads one record, or what stands in place of one.
func (a *archive) record() bool {
	offset := a.w.offset()
	_, a.alone = a.w.atMember()
	if !recordStart(a.w.peek(startBytes)) {
		a.content = a.content[:0]
		n := a.toRecordStart(true)
		return a.skip(offset, "", Skip{Reason: "no WARC record", Detail: fmt.Sprintf("%d bytes passed over", n), Document: true})
	}
	if ok, more := a.readHeader(offset); !ok {
		return more
	}
	h := parseRecordHeader(a.header)
	b := a.readBlock(h.length)
	if b.damage != nil {
		return a.lost(offset, h, b.damage)
	}
	u := a.interpret(h, b)
	u.record.Offset, u.record.Key = offset, h.uri
	return a.sendUnparsed(u)
}

// lost reports a record that damage to the file ended, and goes on behind it
// if it can.
func (a *archive) lost(offset int64, h recordHeader, d *damage) bool {
	a.told = d
	detail := "; nothing could be read behind it"
	if a.w.resync("WARC/") {
		detail = fmt.Sprintf("; went on at byte %d", a.w.src.in.offset())
	}
	skip := d.skip(detail)
	skip.Document = !passedBy(h.kind)
	return a.skip(offset, h.uri, *skip)
}

// readHeader reads up to the empty line into a.header. It is false where the
// header is none; then that was reported, and more says whether to go on.
func (a *archive) readHeader(offset int64) (ok, more bool) {
	a.header = a.header[:0]
	start := a.w.pos
	truncated := func() (ok, more bool) {
		return false, a.skip(offset, "", Skip{Reason: "truncated record header", Document: true, Broken: a.w.ended()})
	}
	for {
		if a.w.pos > start && recordStart(a.w.peek(startBytes)) {
			return truncated()
		}
		line := len(a.header)
		var whole bool
		a.header, _, whole = a.w.line(a.header, maxRecordHeader)
		if d := a.w.damage(); !whole && d != nil {
			return false, a.lost(offset, recordHeader{}, d)
		}
		if !whole {
			return truncated()
		}
		if len(a.header) == maxRecordHeader {
			a.content = a.content[:0]
			n := maxRecordHeader + a.toRecordStart(true)
			return false, a.skip(offset, "", Skip{Reason: "record header too large", Detail: fmt.Sprintf("some %d bytes passed over", n), Document: true})
		}
		if len(trimLineEnd(a.header[line:])) == 0 {
			return true, true
		}
	}
}

func (a *archive) skipBlankLines() {
	for {
		b := a.w.chunk()
		n := 0
		for n < len(b) && (b[n] == '\r' || b[n] == '\n') {
			n++
		}
		a.w.advance(n)
		if n == 0 || n < len(b) {
			return
		}
	}
}

// passedBy says whether a type of record holds no document.
func passedBy(kind string) bool {
	switch kind {
	case "warcinfo", "request", "metadata", "revisit", "continuation":
		return true
	}
	return false
}

// interpret makes a record of a header and its block.
func (a *archive) interpret(h recordHeader, b recordBlock) *Unparsed {
	skip := func(s Skip) *Unparsed { return &Unparsed{record: Record{Skip: &s}} }
	switch {
	case b.truncated:
		detail := fmt.Sprintf("%d bytes of a Content-Length of %d", b.size, b.declared)
		return skip(Skip{Reason: "truncated record", Detail: detail, Document: !passedBy(h.kind), Broken: true})
	case passedBy(h.kind):
		return skip(Skip{Reason: h.kind})
	case h.kind == "":
		return skip(Skip{Reason: "no WARC-Type", Document: true})
	case h.kind != "response" && h.kind != "resource" && h.kind != "conversion":
		return skip(Skip{Reason: "unknown WARC-Type", Detail: fmt.Sprintf("%.40q", h.kind)})
	case h.segment != "":
		return skip(Skip{Reason: "segmented record", Detail: "a document in several records is not put together", Document: true})
	case mediaType(h.contentType) == "text/dns":
		return skip(Skip{Reason: "not text: text/dns"})
	}
	p := payload{contentType: h.contentType, body: b.content}
	if isHTTP(h, b.content) {
		var problem *Skip
		if p, problem = parseHTTP(b.content); problem != nil {
			return skip(*problem)
		}
		if !a.accepts(p.status) {
			return skip(Skip{Reason: fmt.Sprintf("status %d", p.status)})
		}
	}
	return a.document(p, b)
}

// document looks at what is known of a payload; what is left to do is to decode it
// and to tell what it is.
func (a *archive) document(p payload, b recordBlock) *Unparsed {
	skip := func(s Skip) *Unparsed { s.Document = true; return &Unparsed{record: Record{Skip: &s}} }
	if _, problem := classify(p.contentType, nil); problem != "" { // it need not be decoded
		return skip(Skip{Reason: problem})
	}
	if b.size > int64(len(b.content)) {
		return skip(tooLarge(b.size, a.opts.MaxDocument))
	}
	if len(b.content) < largeBlock {
		p.body = bytes.Clone(p.body)
	} else {
		a.content = nil // handed over: another copy of it would be the most memory that the record takes
	}
	limit := a.opts.MaxDocument
	return &Unparsed{record: Record{Repaired: b.repaired}, bytes: cap(p.body), parse: func(rec *Record) { rec.take(p, limit) }}
}

// take decodes the payload of a web archive's record and tells what it is.
func (r *Record) take(p payload, limit int64) {
	repaired := r.Repaired
	r.Repaired = ""
	d := bodyDecoders.Get().(*bodyDecoder)
	content, decoded, problem := d.decode(p, limit)
	bodyDecoders.Put(d)
	kind, reason := Kind(0), "empty"
	if problem == nil && len(content) > 0 {
		kind, reason = classify(p.contentType, content)
	}
	switch {
	case problem != nil:
		r.Skip = problem
	case reason != "":
		r.Skip = &Skip{Reason: reason}
	default:
		r.Kind, r.ContentType, r.Content, r.Repaired = kind, p.contentType, content, cmp.Or(repaired, decoded)
		return
	}
	r.Skip.Document = true
}

func (a *archive) accepts(status int) bool { return slices.Contains(a.opts.Statuses, status) }
