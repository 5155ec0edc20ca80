package corpus

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"regexp"
	"slices"
	"strconv"
	"strings"

	document "github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/mediatype"
)

const (
	// largeBlock is the size from which a block is passed on without a copy.
	largeBlock = 1 << 20
	// httpSlack is the number of bytes by which a record can be larger than its document.
	httpSlack = 1 << 20
	// maxRecordHeader bounds the header of a record. Its URL may be a data URL.
	maxRecordHeader = 1 << 20
	// maxReread bounds the bytes that are read again after wrong Content-Lengths, in addition to
	// the size of the archive.
	maxReread = 64 << 20
	// maxPages bounds archive.pages. A conversion follows its page within that many pages.
	maxPages = 1 << 16
)

var pageSeed = maphash.MakeSeed()

// archive reads a WARC file. A record ends after its Content-Length, if a record, two empty lines,
// a gzip member or the end of the file follows. Otherwise, the Content-Length is wrong, and the
// record ends where the next record begins: at the first line within the Content-Length that begins
// a record, or else at the next such line or gzip member. Other bytes between records are one skip.
type archive struct {
	*source
	limit    int             // of the bytes of a block that are kept
	header   []byte          // of the record, with the empty line that ends it
	content  []byte          // the first bytes of the block
	repaired bool            // the Content-Length in header is wrong
	reread   int64           // bytes that were read again after a wrong Content-Length
	pages    map[uint64]bool // hashes of the URLs of responses

	member *member // the gzip member that begins with the record, or nil
}

func (s *source) archive() {
	a := &archive{source: s, limit: int(s.opts.MaxDocument) + httpSlack,
		pages: make(map[uint64]bool)}
	s.w.skipMark()
	for more := true; more; {
		if _, ok := a.w.skip("\r\n"); ok {
			more = a.record()
			continue
		}
		if c := a.w.corruption(); c != nil {
			a.lost(c.at, recordHeader{}, c)
		} else if a.number == 0 {
			a.skip(0, "", &Skip{Reason: "empty", Document: true})
		}
		return
	}
}

// record reads a record, or the bytes up to the next record. It returns false if the reader must
// stop.
func (a *archive) record() bool {
	offset := a.w.offset()
	a.member = a.w.member()
	if !a.atRecord() {
		n := a.toRecordStart(false)
		return a.skip(offset, "", &Skip{Reason: "not a WARC record",
			Detail: fmt.Sprintf("%d bytes", n), Document: true, Broken: true})
	}
	var h recordHeader
	var size int64
	problem := a.readHeader()
	if problem == nil {
		h = parseRecordHeader(a.header)
		size, problem = a.readBlock(h)
	}
	if c := a.w.corruption(); problem != nil && c != nil {
		a.lost(offset, h, c)
		return false
	}
	if problem != nil {
		problem.Document = !isNonDocument(h.kind)
		return a.skip(offset, h.uri, problem)
	}
	u := a.interpret(h, size)
	u.record.Offset, u.record.Key = offset, h.uri
	return a.sendRaw(u)
}

// lost sends the skip of a record that is incomplete because the file is corrupt.
func (a *archive) lost(offset int64, h recordHeader, c *corruption) {
	skip := c.skip()
	skip.Document = !isNonDocument(h.kind)
	a.skip(offset, h.uri, skip)
}

// readHeader reads the header of a record.
func (a *archive) readHeader() (problem *Skip) {
	a.header = a.header[:0]
	for first := true; first || !a.atRecord(); first = false {
		line, whole := len(a.header), false
		a.header, _, whole = a.w.line(a.header, maxRecordHeader)
		switch {
		case !whole:
			return &Skip{Reason: "truncated record header", Broken: true}
		case len(a.header) == maxRecordHeader:
			n := maxRecordHeader + a.toRecordStart(false)
			return &Skip{Reason: "record header too large",
				Detail: fmt.Sprintf("about %d bytes", n), Broken: true}
		case len(bytes.TrimRight(a.header[line:], "\r\n")) == 0:
			return nil
		}
	}
	return &Skip{Reason: "truncated record header", Broken: true}
}

// readBlock reads the block of a record into a.content and returns its size.
func (a *archive) readBlock(h recordHeader) (size int64, problem *Skip) {
	a.content, a.repaired = a.content[:0], false
	credible := h.length >= 0 && a.w.mayHave(h.length)
	if credible {
		if size = a.copyBytes(h.length); size == h.length && a.endsHere() {
			return size, nil
		}
	}
	a.repaired = true
	if at := a.recordWithin(size); at > 0 {
		if a.reread += size - int64(at); a.reread > maxReread+a.w.pos {
			detail := fmt.Sprintf("it is %d, and the record contains other records", size)
			return size, &Skip{Reason: "wrong Content-Length", Detail: detail, Broken: true}
		}
		a.w.goBack(a.content[at:])
		size = int64(at)
		a.content = a.content[:at]
	} else if !credible || size == h.length {
		size += a.toRecordStart(true)
	}
	end := "\n\n" // of a record
	if bytes.Contains(a.header, []byte("\r\n")) {
		end = "\r\n\r\n"
	}
	switch {
	case a.w.corruption() != nil:
		return size, &Skip{} // the caller reports the corruption
	case a.w.ended() && (h.length < 0 || h.length > size) &&
		!bytes.HasSuffix(a.content, []byte(end)):
		detail := fmt.Sprintf("%d bytes, and its Content-Length is %d", size, h.length)
		return size, &Skip{Reason: "truncated record", Detail: detail, Broken: true}
	case int64(len(a.content)) == size:
		a.content = bytes.TrimRight(a.content, "\r\n") // the empty lines after a record
		size = int64(len(a.content))
	}
	a.mu.Lock()
	a.totals.Repaired++
	a.mu.Unlock()
	return size, nil
}

// copyBytes reads n bytes into a.content. It stops at a gzip member that begins with a record, at
// the end of the file and at corruption.
func (a *archive) copyBytes(n int64) (size int64) {
	a.content = slices.Grow(a.content, int(min(n, int64(a.limit))))
	for size < n && !a.atMemberRecord() {
		c := a.w.chunk()
		if len(c) == 0 {
			break
		}
		c = c[:min(int64(len(c)), n-size)]
		size += int64(len(c))
		a.keep(c)
		a.w.advance(len(c))
	}
	return size
}

// keep appends c to a.content, up to the limit.
func (a *archive) keep(c []byte) {
	a.content = append(a.content, c[:min(len(c), max(0, a.limit-len(a.content)))]...)
}

// endsHere reports whether a record may end here.
func (a *archive) endsHere() bool {
	next := a.w.peek(recordStartBytes)
	rest := bytes.TrimLeft(next, "\r\n")
	if len(rest) == 0 && len(next) < recordStartBytes { // the end of the file, or corruption
		c := a.w.src.corruption()
		return c == nil || c.between
	}
	at := a.w.pos + int64(len(next)-len(rest))
	if recordStart(rest) ||
		slices.ContainsFunc(a.w.src.members, func(m *member) bool { return m.pos == at }) {
		return true
	}
	emptyLines := bytes.HasPrefix(next, []byte("\r\n\r\n")) || bytes.HasPrefix(next, []byte("\n\n"))
	return emptyLines && a.recordWithin(int64(len(a.content))) == 0
}

// recordWithin returns the position in a.content at which the next record begins, if a.content is a
// whole block of the given size. It returns 0 if no line begins a record.
func (a *archive) recordWithin(size int64) (at int) {
	if size == 0 || size > int64(len(a.content)) {
		return 0
	}
	// the record may begin in the last bytes of the content
	b := append(a.content, a.w.peek(recordStartBytes)...)
	for {
		i := bytes.Index(b[at:], []byte("\nWARC/"))
		if i < 0 || at+i+1 >= len(a.content) {
			return 0
		}
		if at += i + 1; recordStart(b[at:]) {
			return at
		}
	}
}

// toRecordStart reads up to the next line or gzip member that begins a record, or to the end or
// corruption. It returns the number of bytes, and appends them to a.content if keep is set.
func (a *archive) toRecordStart(keep bool) (size int64) {
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
		if keep {
			a.keep(c)
		}
		a.w.advance(len(c))
	}
}

func (a *archive) atRecord() bool { return recordStart(a.w.peek(recordStartBytes)) }

func (a *archive) atMemberRecord() bool { return a.w.member() != nil && a.atRecord() }

// isNonDocument reports whether records of a type contain no document.
func isNonDocument(kind string) bool {
	return slices.Contains([]string{"warcinfo", "request", "metadata", "revisit", "continuation"},
		kind)
}

// interpret returns the record of a header and of the block in a.content. size is the size of the
// whole block.
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
		return skip(&Skip{Reason: "segmented record",
			Detail: "a document in several records is not supported", Document: true})
	case h.kind != "response" && crawlerRecord(h.uri) != "":
		return skip(&Skip{Reason: "not a page: " + crawlerRecord(h.uri),
			Detail: "a record of the crawler about a page or about itself"})
	case h.kind == "conversion" && a.pages[maphash.String(pageSeed, h.uri)]:
		return skip(&Skip{Reason: "not a page: conversion",
			Detail: "the archive has the page itself"})
	case mediatype.Of(h.contentType) == "text/dns":
		return skip(&Skip{Reason: "not text: text/dns"})
	}
	p := payload{contentType: h.contentType, body: a.content}
	if isHTTP(h, a.content) {
		var problem *Skip
		if p, problem = parseHTTP(a.content); problem != nil {
			return skip(problem)
		}
		if p.status != 200 { // error pages and redirects are copies of each other
			return skip(statusSkip(p.status))
		}
	}
	if h.kind == "response" {
		if len(a.pages) == maxPages {
			clear(a.pages)
		}
		a.pages[maphash.String(pageSeed, h.uri)] = true
	}
	if _, err := document.KindOf(p.contentType, nil); err != nil { // no need to decode it
		return skip(&Skip{Reason: err.Error(), Document: true})
	}
	if size > int64(len(a.content)) {
		return skip(tooLarge(a.opts.MaxDocument))
	}
	original := a.original(size)
	if len(a.content) < largeBlock {
		p.body = bytes.Clone(p.body)
	} else {
		a.content = nil // now the body owns it: a copy would double the memory of the record
	}
	limit := a.opts.MaxDocument
	p.name = h.uri
	return &RawRecord{
		record: Record{Original: original},
		bytes:  cap(p.body) + original.bytes(),
		parse:  func(rec *Record) { rec.decodePayload(p, limit) },
	}
}

// crawlerRecord returns the kind of a record that a crawler wrote about a page or about itself, or
// "" for a page. Crawlers store settings and logs as metadata://... (wget) and urn:X-..., and the
// text or a screenshot of a page as urn:KIND:URL (Browsertrix) or KIND:URL (brozzler).
func crawlerRecord(uri string) string {
	scheme, rest, _ := strings.Cut(uri, ":")
	if len(scheme) > 40 {
		return ""
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "http", "https", "ftp", "ftps", "gopher", "gemini", "file":
	case "metadata":
		return scheme
	case "urn":
		if kind, _, _ := strings.Cut(rest, ":"); len(kind) <= 40 &&
			!strings.EqualFold(kind, "uuid") {
			return "urn:" + kind
		}
	default:
		if rest = strings.ToLower(":" + rest); strings.Contains(rest, ":http://") ||
			strings.Contains(rest, ":https://") {
			return scheme
		}
	}
	return ""
}

// original returns the original of the record that was read, with a block of size bytes. It returns
// nil if originals are not wanted or the block is too large.
func (a *archive) original(size int64) *Original {
	if !a.opts.Originals || size > int64(len(a.content)) {
		return nil
	}
	if raw := a.rawMember(); raw != nil {
		return &Original{Format: WARC, Compressed: true, Member: raw}
	}
	header := bytes.Clone(a.header)
	if a.repaired { // the new Content-Length is the first field
		header = contentLengths.ReplaceAll(header, nil)
		version, fields, _ := bytes.Cut(header, []byte{'\n'})
		header = fmt.Appendf(nil, "%s\nContent-Length: %d\r\n%s", version, size, fields)
	}
	return &Original{Format: WARC, Compressed: a.w.compressed(), Header: header,
		Body: bytes.Clone(a.content)}
}

var contentLengths = regexp.MustCompile(`(?im)^content-length[ \t]*:[^\n]*\n`)

// rawMember returns the compressed bytes of the gzip member that consists of the record that was
// read, or nil if there is no such member.
func (a *archive) rawMember() []byte {
	m := a.member
	if m == nil || m.raw == nil || a.repaired || m.end < a.w.pos ||
		m.end-a.w.pos > recordStartBytes {
		return nil
	}
	if rest := a.w.peek(int(m.end - a.w.pos)); len(bytes.TrimLeft(rest, "\r\n")) > 0 {
		return nil
	}
	return m.raw
}

// decodePayload decodes the payload of a WARC record and sets r to the document or the skip.
func (r *Record) decodePayload(p payload, limit int64) {
	content, problem := p.decode(limit)
	if problem == nil && len(content) == 0 {
		problem = &Skip{Reason: "empty"}
	}
	if problem == nil {
		kind, err := kindOf(p.contentType, p.name, content)
		if err == nil {
			r.Kind, r.ContentType, r.Content = kind, p.contentType, content
			return
		}
		problem = &Skip{Reason: err.Error()}
	}
	r.Skip, problem.Document = problem, true
}

// nextRecordStart returns the position in b, which is not empty, of the next place after its first
// byte at which a record may begin.
func nextRecordStart(b []byte) int {
	if next := bytes.Index(b[1:], []byte("WARC/")); next >= 0 {
		return next + 1
	}
	return max(1, len(b)-len("WARC")) // the last bytes may begin it
}

// recordStartBytes is the number of bytes that recordStart needs.
const recordStartBytes = 32

// recordStart reports whether b begins with the version line of a WARC record. Some writers add
// spaces to it.
func recordStart(b []byte) bool {
	return versionLine.Match(b[:min(len(b), recordStartBytes)])
}

var versionLine = regexp.MustCompile(`^WARC/\d\.\d{1,3}[ \t]*[\r\n]`)

// recordHeader has the fields of the header of a WARC record.
type recordHeader struct {
	kind        string // WARC-Type in lower case
	uri         string
	contentType string
	segment     string
	length      int64 // -1 if Content-Length is missing or not a number
}

// parseRecordHeader parses a header. If a field occurs twice, the first value counts. wget 1.x
// writes the URL in angle brackets.
func parseRecordHeader(b []byte) recordHeader {
	fields := headerFields(b)
	first := func(name string) string { return append(fields[name], "")[0] }
	h := recordHeader{
		kind:        strings.ToLower(first("warc-type")),
		uri:         strings.TrimSuffix(strings.TrimPrefix(first("warc-target-uri"), "<"), ">"),
		contentType: first("content-type"),
		segment:     first("warc-segment-number"),
		length:      -1,
	}
	if n, err := strconv.ParseInt(first("content-length"), 10, 64); err == nil && n >= 0 {
		h.length = n
	}
	return h
}

// headerFields returns the values of the usedFields of a header by name. It ignores the first line,
// lines without a colon and fields without a value.
func headerFields(b []byte) map[string][]string {
	fields := make(map[string][]string)
	_, b, _ = bytes.Cut(b, []byte{'\n'})
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		if value = bytes.TrimSpace(value); len(name) > maxFieldName || len(value) == 0 {
			continue
		}
		if name := strings.ToLower(string(bytes.TrimSpace(name))); slices.Contains(
			usedFields, name) {
			fields[name] = append(fields[name], string(value))
		}
	}
	return fields
}

var usedFields = []string{
	"warc-type", "warc-target-uri", "warc-segment-number", "content-type", "content-length",
	"content-encoding", "transfer-encoding",
}

// maxFieldName is larger than the length of each name in usedFields.
const maxFieldName = 40
