package corpus

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	document "github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/mediatype"
)

const (
	// largeBlock is from when on a block is handed over and not copied.
	largeBlock = 1 << 20
	// httpSlack is how much larger than a document the record around it may be.
	httpSlack = 1 << 20
	// maxRecordHeader bounds the header of a record: its URL may be a data URL.
	maxRecordHeader = 1 << 20
)

// archive reads a WARC file. A record ends where its Content-Length says. If no record, no end of a gzip
// member and no end of the file follows there, the record is a skip, and reading continues at the next
// line or gzip member that begins a record. Bytes between records are one skip.
type archive struct {
	*source
	limit   int    // of a record
	header  []byte // scratch
	content []byte // scratch: of the block, the first limit bytes at most
}

func (s *source) archive() {
	a := &archive{source: s, limit: int(s.opts.MaxDocument) + httpSlack}
	s.w.skipMark()
	for first, more := true, true; more; first = false {
		if _, is := a.w.skip("\r\n"); is {
			more = a.record()
			continue
		}
		c := a.w.corruption()
		if c == nil && first {
			a.skip(0, "", &Skip{Reason: "empty", Document: true})
		}
		if c != nil {
			a.lost(c.at, recordHeader{}, c)
		}
		more = false
	}
}

// record reads one record, or what stands in place of one. It is false when to stop.
func (a *archive) record() bool {
	offset := a.w.offset()
	if !a.atRecord() {
		n := a.toRecordStart()
		return a.skip(offset, "", &Skip{Reason: "no WARC record", Detail: fmt.Sprintf("%d bytes passed over", n), Document: true})
	}
	var h recordHeader
	var size int64
	problem := a.readHeader()
	if problem == nil {
		h = parseRecordHeader(a.header)
		size, problem = a.readBlock(h.length)
	}
	if problem != nil {
		if c := a.w.corruption(); c != nil {
			a.lost(offset, h, c)
			return false
		}
		problem.Document = problem.Document || !isNonDocument(h.kind)
		return a.skip(offset, h.uri, problem)
	}
	u := a.interpret(h, size)
	u.record.Offset, u.record.Key = offset, h.uri
	return a.sendRaw(u)
}

// lost sends the skip of a record that corruption of the file ended.
func (a *archive) lost(offset int64, h recordHeader, c *corruption) {
	skip := c.skip()
	skip.Document = !isNonDocument(h.kind)
	a.skip(offset, h.uri, skip)
}

// readHeader reads up to the empty line into a.header.
func (a *archive) readHeader() (problem *Skip) {
	a.header = a.header[:0]
	for first := true; first || !a.atRecord(); first = false {
		line, whole := len(a.header), false
		a.header, _, whole = a.w.line(a.header, maxRecordHeader)
		switch {
		case !whole:
			return &Skip{Reason: "truncated record header", Broken: a.w.ended()}
		case len(a.header) == maxRecordHeader:
			n := maxRecordHeader + a.toRecordStart()
			return &Skip{Reason: "record header too large", Detail: fmt.Sprintf("some %d bytes passed over", n)}
		case len(bytes.TrimRight(a.header[line:], "\r\n")) == 0:
			return nil
		}
	}
	return &Skip{Reason: "truncated record header"}
}

// readBlock reads the content of a record, and says how long it is, or that its
// Content-Length lies.
func (a *archive) readBlock(length int64) (size int64, problem *Skip) {
	a.content = a.content[:0]
	credible := length >= 0 && a.w.holds(length)
	if credible {
		if size = a.copyBytes(length); size == length && a.endsHere() {
			return size, nil
		}
	}
	cut := length > size && (!credible || a.w.ended()) // unless another record follows
	passed := a.toRecordStart()
	says := "nothing"
	if length >= 0 {
		says = strconv.FormatInt(length, 10)
	}
	if cut && a.w.ended() {
		return size, &Skip{Reason: "truncated record", Detail: fmt.Sprintf("%d bytes of a Content-Length of %s", size+passed, says), Broken: true}
	}
	return size, &Skip{
		Reason: "wrong Content-Length", Detail: fmt.Sprintf("it says %s, and no record follows there; went on %d bytes behind the header", says, size+passed),
		Document: size > 0, // the length may hide some
	}
}

// copyBytes reads n bytes, less where a gzip member begins with a record, at
// the end and at corruption.
func (a *archive) copyBytes(n int64) (size int64) {
	a.content = slices.Grow(a.content, int(min(n, int64(a.limit))))
	for size < n && !a.atMemberRecord() {
		c := a.w.chunk()
		if len(c) == 0 {
			break
		}
		c = c[:min(int64(len(c)), n-size)]
		size += int64(len(c))
		a.content = append(a.content, c[:min(len(c), max(0, a.limit-len(a.content)))]...)
		a.w.advance(len(c))
	}
	return size
}

// endsHere says whether a record ends here: but for empty lines, a record, the gzip
// member's end or the end of the file follows, or two empty lines at least.
func (a *archive) endsHere() bool {
	if recordStart(bytes.TrimLeft(a.w.peek(recordStartBytes), "\r\n")) {
		return true // without waiting for more: the input may be slow
	}
	next := a.w.peek(4 << 10)
	rest := bytes.TrimLeft(next, "\r\n")
	if len(rest) == 0 {
		c := a.w.src.corruption()
		return c == nil || c.between
	}
	at := a.w.pos + int64(len(next)-len(rest))
	return recordStart(rest) || slices.ContainsFunc(a.w.src.members, func(m member) bool { return m.pos == at }) ||
		bytes.HasPrefix(next, []byte("\r\n\r\n")) || bytes.HasPrefix(next, []byte("\n\n"))
}

// toRecordStart reads up to the next line or gzip member that begins a record, or to
// the end or corruption.
func (a *archive) toRecordStart() (size int64) {
	for lineStart := true; ; {
		if lineStart && a.atRecord() || a.atMemberRecord() {
			return size
		}
		c := a.w.chunk()
		if len(c) == 0 {
			return size
		}
		c = c[:nextRecordStart(c)]
		lineStart = c[len(c)-1] == '\n'
		size += int64(len(c))
		a.w.advance(len(c))
	}
}

func (a *archive) atRecord() bool { return recordStart(a.w.peek(recordStartBytes)) }

func (a *archive) atMemberRecord() bool {
	_, ok := a.w.atMember()
	return ok && a.atRecord()
}

// isNonDocument says whether a type of record holds no document.
func isNonDocument(kind string) bool {
	switch kind {
	case "warcinfo", "request", "metadata", "revisit", "continuation":
		return true
	}
	return false
}

// interpret makes a record of a header and the block that was read, of so many bytes.
func (a *archive) interpret(h recordHeader, size int64) *RawRecord {
	skip := func(s *Skip) *RawRecord { return &RawRecord{record: Record{Skip: s}} }
	switch {
	case h.kind == "warcinfo":
		u := skip(&Skip{Reason: h.kind})
		u.record.Original = a.original(size)
		u.bytes = u.record.Original.bytes()
		return u
	case isNonDocument(h.kind):
		return skip(&Skip{Reason: h.kind})
	case h.kind == "":
		return skip(&Skip{Reason: "no WARC-Type", Document: true})
	case h.kind != "response" && h.kind != "resource" && h.kind != "conversion":
		return skip(&Skip{Reason: "unknown WARC-Type", Detail: fmt.Sprintf("%.40q", h.kind)})
	case h.segment != "":
		return skip(&Skip{Reason: "segmented record", Detail: "a document in several records is not put together", Document: true})
	case mediatype.Of(h.contentType) == "text/dns":
		return skip(&Skip{Reason: "not text: text/dns"})
	}
	p := payload{contentType: h.contentType, body: a.content}
	if isHTTP(h, a.content) {
		var problem *Skip
		if p, problem = parseHTTP(a.content); problem != nil {
			return skip(problem)
		}
		if p.status != 200 { // errors and redirects are copies of each other
			return skip(&Skip{Reason: fmt.Sprintf("status %d", p.status)})
		}
	}
	if _, err := document.KindOf(p.contentType, nil); err != nil { // it need not be decoded
		return skip(&Skip{Reason: err.Error(), Document: true})
	}
	if size > int64(len(a.content)) {
		return skip(tooLarge(size, a.opts.MaxDocument))
	}
	original := a.original(size)
	if len(a.content) < largeBlock {
		p.body = bytes.Clone(p.body)
	} else {
		a.content = nil // handed over: another copy of it would be the most memory that the record takes
	}
	limit := a.opts.MaxDocument
	return &RawRecord{
		record: Record{Original: original},
		bytes:  cap(p.body) + original.bytes(),
		parse:  func(rec *Record) { rec.decodePayload(p, limit) },
	}
}

// original is the record that was read, of a block of so many bytes, where it is asked for.
func (a *archive) original(size int64) *Original {
	if a.opts.Originals == nil || size > int64(len(a.content)) {
		return nil
	}
	return &Original{Format: WARC, Compressed: a.w.compressed(), Header: bytes.Clone(a.header), Body: bytes.Clone(a.content)}
}

// decodePayload decodes the payload of a web archive's record and tells what it is.
func (r *Record) decodePayload(p payload, limit int64) {
	content, problem := p.decode(limit)
	if problem == nil && len(content) == 0 {
		problem = &Skip{Reason: "empty"}
	}
	if problem == nil {
		kind, err := document.KindOf(p.contentType, content)
		if err == nil {
			r.Kind, r.ContentType, r.Content = kind, p.contentType, content
			return
		}
		problem = &Skip{Reason: err.Error()}
	}
	r.Skip, problem.Document = problem, true
}

// recordHeader is what is read of the header of a WARC record.
type recordHeader struct {
	kind        string // WARC-Type, lower-case
	uri         string
	contentType string
	segment     string
	length      int64 // -1 where Content-Length is missing or no number
}

// nextRecordStart returns how far to go in b, which is not empty, to the next place at which a record may
// begin.
func nextRecordStart(b []byte) int {
	if next := bytes.Index(b[1:], []byte("WARC/")); next >= 0 {
		return next + 1
	}
	return max(1, len(b)-len("WARC")) // it may begin at the end
}

// recordStartBytes is the number of bytes that recordStart needs.
const recordStartBytes = 32

// recordStart says whether b begins with the version line of a WARC record.
func recordStart(b []byte) bool {
	version, ok := bytes.CutPrefix(b, []byte("WARC/"))
	if !ok || len(version) < 4 || !isDigit(version[0]) || version[1] != '.' || !isDigit(version[2]) {
		return false
	}
	i := 3
	for i < len(version) && i < 6 && isDigit(version[i]) {
		i++
	}
	return i < len(version) && (version[i] == '\r' || version[i] == '\n')
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseRecordHeader reads a header as it is found in the wild: of a field given twice the
// first counts, and a URL may be in angle brackets (wget 1.x).
func parseRecordHeader(b []byte) recordHeader {
	fields := headerFields(b, "WARC-Type", "WARC-Target-URI", "Content-Type", "WARC-Segment-Number", "Content-Length")
	first := func(name string) string { return append(fields[name], "")[0] }
	h := recordHeader{
		kind:        strings.ToLower(first("WARC-Type")),
		uri:         strings.TrimSuffix(strings.TrimPrefix(first("WARC-Target-URI"), "<"), ">"),
		contentType: first("Content-Type"),
		segment:     first("WARC-Segment-Number"),
		length:      -1,
	}
	if n, err := strconv.ParseInt(first("Content-Length"), 10, 64); err == nil && n >= 0 {
		h.length = n
	}
	return h
}

// maxValues bounds the values of one field.
const maxValues = 64

// headerFields gives the values of some fields of a header block, behind its first line.
// Names are in any case; lines may end with LF only, and be folded; a line without a colon
// and a field without a value are passed over. Of more than maxValues values the first ones
// and the last one count.
func headerFields(b []byte, names ...string) map[string][]string {
	fields := make(map[string][]string, len(names))
	_, b, _ = bytes.Cut(b, []byte{'\n'})
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		for folded := false; len(b) > 0 && (b[0] == ' ' || b[0] == '\t'); folded = true {
			var more []byte
			more, b, _ = bytes.Cut(b, []byte{'\n'})
			if !folded {
				line = bytes.Clone(bytes.TrimRight(line, "\r"))
			}
			line = append(append(line, ' '), bytes.TrimSpace(more)...)
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		name, value = bytes.TrimSpace(name), bytes.TrimSpace(value)
		i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, string(name)) })
		if i < 0 || len(value) == 0 {
			continue
		}
		values := fields[names[i]]
		fields[names[i]] = append(values[:min(len(values), maxValues-1)], string(value))
	}
	return fields
}
