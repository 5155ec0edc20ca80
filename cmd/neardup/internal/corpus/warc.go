package corpus

import (
	"bytes"
	"fmt"
	"hash/maphash"
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
	// maxReread bounds, apart from the bytes of the archive, how many bytes are read again after wrong
	// Content-Lengths.
	maxReread = 64 << 20
)

// archive reads a WARC file. A record ends where its Content-Length says. If no record, no end of a gzip
// member and no end of the file follows there, the Content-Length is wrong: the record then ends where the
// next one begins, which is the first line within the Content-Length that begins a record, or else the next
// such line or gzip member. Bytes between records are one skip.
type archive struct {
	*source
	limit    int                 // of a record
	header   []byte              // scratch
	content  []byte              // scratch: the first limit bytes of the block
	repaired bool                // the Content-Length in header is wrong
	member   *member             // the gzip member that begins with the record; nil if none does
	reread   int64               // bytes that were read again after a wrong Content-Length
	pages    map[uint64]struct{} // hashes of the URLs of responses
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

// record reads one record, or the bytes up to the next one. It returns false if nothing more is to be read.
func (a *archive) record() bool {
	offset := a.w.offset()
	a.member = a.w.member()
	if !a.atRecord() {
		n := a.toRecordStart(false)
		return a.skip(offset, "", &Skip{Reason: "no WARC record", Detail: fmt.Sprintf("%d bytes passed over", n), Document: true, Broken: true})
	}
	var h recordHeader
	var size int64
	problem := a.readHeader()
	if problem == nil {
		h = parseRecordHeader(a.header)
		size, problem = a.readBlock(h)
	}
	if problem != nil {
		if c := a.w.corruption(); c != nil {
			a.lost(offset, h, c)
			return false
		}
		problem.Document = !isNonDocument(h.kind)
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
			return &Skip{Reason: "truncated record header", Broken: true}
		case len(a.header) == maxRecordHeader:
			n := maxRecordHeader + a.toRecordStart(false)
			return &Skip{Reason: "record header too large", Detail: fmt.Sprintf("some %d bytes passed over", n), Broken: true}
		case len(bytes.TrimRight(a.header[line:], "\r\n")) == 0:
			return nil
		}
	}
	return &Skip{Reason: "truncated record header", Broken: true}
}

// readBlock reads the block of a record into a.content and returns its size.
func (a *archive) readBlock(h recordHeader) (size int64, problem *Skip) {
	a.content, a.repaired = a.content[:0], false
	credible := h.length >= 0 && a.w.holds(h.length)
	if credible {
		if size = a.copyBytes(h.length); size == h.length && a.endsHere(h) {
			return size, nil
		}
	}
	a.repaired = true
	if at := a.recordWithin(size); at > 0 {
		if a.reread += size - int64(at); a.reread > maxReread+a.w.pos {
			return size, &Skip{Reason: "wrong Content-Length", Detail: fmt.Sprintf("it is %d, and further records begin within it; too many records before it are like this", size), Broken: true}
		}
		a.w.goBack(a.content[at:])
		size = int64(at)
		a.content = a.content[:at]
	} else if !credible || size == h.length {
		size += a.toRecordStart(true)
	}
	// What follows is a record, a gzip member, the end of the file or corruption.
	switch {
	case a.w.corruption() != nil:
		return size, &Skip{} // which reports the corruption
	case a.w.ended() && (h.length < 0 || h.length > size) && !a.isTerminated():
		return size, &Skip{Reason: "truncated record", Detail: fmt.Sprintf("%d bytes, and its Content-Length is %s", size, h.lengthText()), Broken: true}
	case int64(len(a.content)) == size:
		a.content = bytes.TrimRight(a.content, "\r\n") // the empty lines after a record
		size = int64(len(a.content))
	}
	a.countRepaired()
	return size, nil
}

// countRepaired counts a record whose Content-Length is wrong.
func (a *archive) countRepaired() {
	a.mu.Lock()
	a.totals[a.input].Repaired++
	a.mu.Unlock()
}

// copyBytes reads n bytes into a.content, less if a gzip member begins with a record, at the end and at
// corruption.
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

// keep appends c to a.content as far as the limit allows.
func (a *archive) keep(c []byte) {
	a.content = append(a.content, c[:min(len(c), max(0, a.limit-len(a.content)))]...)
}

// endsHere reports whether a record may end here: apart from empty lines, a record, the end of the gzip
// member or of the file follows, or at least two empty lines do, which are not those after an HTTP header.
func (a *archive) endsHere(h recordHeader) bool {
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
	if recordStart(rest) || slices.ContainsFunc(a.w.src.members, func(m *member) bool { return m.pos == at }) {
		return true
	}
	if !bytes.HasPrefix(next, []byte("\r\n\r\n")) && !bytes.HasPrefix(next, []byte("\n\n")) {
		return false
	}
	header, _ := cutHeader(a.content)
	return (!isHTTP(h, a.content) || len(header) < len(a.content)) && a.recordWithin(int64(len(a.content))) == 0
}

// recordWithin returns where in a.content, if that is the whole of a block of the given size, the next record
// begins. It returns 0 if no line begins one.
func (a *archive) recordWithin(size int64) (at int) {
	if size == 0 || size > int64(len(a.content)) {
		return 0
	}
	b := append(a.content, a.w.peek(256)...) // the next record may begin with the last bytes of the content
	for {
		i := bytes.Index(b[at:], []byte("\nWARC/"))
		if i < 0 || at+i+1 >= len(a.content) {
			return 0
		}
		if at += i + 1; recordStart(b[at:]) && beginsHeader(b[at:]) {
			return at
		}
	}
}

// beginsHeader reports whether the line after the version of a record is one of the header of a record.
func beginsHeader(b []byte) bool {
	_, line, _ := bytes.Cut(b, []byte{'\n'})
	name, _, _ := bytes.Cut(line[:min(len(line), 100)], []byte{':'})
	name = bytes.ToUpper(name)
	return bytes.HasPrefix(name, []byte("WARC-")) || bytes.HasPrefix(name, []byte("CONTENT-"))
}

// isTerminated reports whether a.content ends with the two empty lines that end a record.
func (a *archive) isTerminated() bool {
	if bytes.Contains(a.header, []byte("\r\n")) {
		return bytes.HasSuffix(a.content, []byte("\r\n\r\n"))
	}
	return bytes.HasSuffix(a.content, []byte("\n\n"))
}

// toRecordStart reads up to the next line or gzip member that begins a record, or to the end or corruption,
// and returns how many bytes that took. It appends them to a.content if keep is set.
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

func (a *archive) atMemberRecord() bool {
	return a.w.member() != nil && a.atRecord()
}

// isNonDocument reports whether records of a type hold no document.
func isNonDocument(kind string) bool {
	switch kind {
	case "warcinfo", "request", "metadata", "revisit", "continuation":
		return true
	}
	return false
}

// interpret makes a record of a header and of the block in a.content, of which size bytes were read.
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
	case h.kind != "response" && crawlerRecord(h.uri) != "":
		return skip(&Skip{Reason: "no page: " + crawlerRecord(h.uri), Detail: "a record of the crawler about a page or about itself"})
	case h.kind == "conversion" && a.hasPage(h.uri):
		return skip(&Skip{Reason: "no page: conversion", Detail: "made from a page that is in this archive"})
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
			return skip(statusSkip(p.status))
		}
	}
	if h.kind == "response" {
		a.addPage(h.uri)
	}
	if _, err := document.KindOf(p.contentType, nil); err != nil { // it need not be decoded
		return skip(&Skip{Reason: err.Error(), Document: true})
	}
	if size > int64(len(a.content)) {
		return skip(tooLarge(a.opts.MaxDocument))
	}
	original := a.original(size)
	if len(a.content) < largeBlock {
		p.body = bytes.Clone(p.body)
	} else {
		a.content = nil // handed over: another copy of it would be the most memory that the record takes
	}
	limit := a.opts.MaxDocument
	p.name = h.uri
	return &RawRecord{
		record: Record{Original: original},
		bytes:  cap(p.body) + original.bytes(),
		parse:  func(rec *Record) { rec.decodePayload(p, limit) },
	}
}

// maxPages bounds archive.pages. A conversion record follows its page within that many pages.
const maxPages = 1 << 16

var pageSeed = maphash.MakeSeed()

func (a *archive) addPage(uri string) {
	if a.pages == nil || len(a.pages) == maxPages {
		a.pages = make(map[uint64]struct{})
	}
	a.pages[maphash.String(pageSeed, uri)] = struct{}{}
}

func (a *archive) hasPage(uri string) bool {
	_, has := a.pages[maphash.String(pageSeed, uri)]
	return has
}

// crawlerRecord returns the kind of the resource that a crawler itself wrote, by its URI, and "" for a page.
// Crawlers store their settings and logs as metadata://... (wget) and urn:X-..., and what they made of a
// page, such as its text or a screenshot, as urn:KIND:URL (Browsertrix) or KIND:URL (brozzler).
func crawlerRecord(uri string) string {
	scheme, rest, _ := strings.Cut(uri, ":")
	switch scheme = strings.ToLower(scheme); scheme {
	case "http", "https", "ftp", "ftps", "gopher", "gemini", "file":
		return ""
	case "metadata":
		return scheme
	case "urn":
		kind, of, _ := strings.Cut(rest, ":")
		if len(kind) <= 40 && (strings.HasPrefix(strings.ToLower(kind), "x-") || slices.Contains(browsertrixKinds, strings.ToLower(kind)) || isURL(of)) {
			return "urn:" + kind
		}
	default:
		if _, of, found := strings.Cut(uri, ":http"); found && isURL("http"+of) && len(scheme) <= 40 {
			return scheme
		}
	}
	return ""
}

var browsertrixKinds = []string{"text", "textfinal", "pageinfo", "thumbnail", "thumbnailfinal", "view", "viewfinal", "fullpage", "fullpagefinal"}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

// original returns the record that was read, with a block of size bytes, if originals are asked for.
func (a *archive) original(size int64) *Original {
	if a.opts.Originals == nil || size > int64(len(a.content)) {
		return nil
	}
	if raw := a.rawMember(); raw != nil {
		return &Original{Format: WARC, Compressed: true, Member: raw}
	}
	header := bytes.Clone(a.header)
	if a.repaired {
		header = withContentLength(header, size)
	}
	return &Original{Format: WARC, Compressed: a.w.compressed(), Header: header, Body: bytes.Clone(a.content)}
}

// rawMember returns the compressed bytes of the gzip member that consists of the record that was
// read, or nil if there is no such member.
func (a *archive) rawMember() []byte {
	m := a.member
	if m == nil || m.raw == nil || a.repaired || m.end < a.w.pos || m.end-a.w.pos > recordStartBytes {
		return nil
	}
	if rest := a.w.peek(int(m.end - a.w.pos)); len(bytes.TrimLeft(rest, "\r\n")) > 0 {
		return nil
	}
	return m.raw
}

// withContentLength returns the header of a record with another Content-Length.
func withContentLength(header []byte, length int64) (out []byte) {
	end := "\n"
	if bytes.Contains(header, []byte("\r\n")) {
		end = "\r\n"
	}
	out = make([]byte, 0, len(header)+40)
	for line := range bytes.Lines(header) {
		name, _, _ := bytes.Cut(line, []byte{':'})
		switch {
		case strings.EqualFold(string(bytes.TrimSpace(name)), "Content-Length"):
			continue
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			out = fmt.Appendf(out, "Content-Length: %d%s", length, end)
		}
		out = append(out, line...)
	}
	return out
}

// decodePayload decodes the payload of a record of a web archive and makes r a document or a skip.
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

// recordHeader is what is read of the header of a WARC record.
type recordHeader struct {
	kind        string // WARC-Type, lower-case
	uri         string
	contentType string
	segment     string
	length      int64 // -1 if Content-Length is missing or not a number
}

// lengthText returns the Content-Length as an error gives it.
func (h recordHeader) lengthText() string {
	if h.length < 0 {
		return "missing"
	}
	return strconv.FormatInt(h.length, 10)
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

// recordStart reports whether b begins with the version line of a WARC record.
func recordStart(b []byte) bool {
	version, ok := bytes.CutPrefix(b, []byte("WARC/"))
	if !ok || len(version) < 4 || !isDigit(version[0]) || version[1] != '.' || !isDigit(version[2]) {
		return false
	}
	i := 3
	for i < len(version) && i < 6 && isDigit(version[i]) {
		i++
	}
	rest := bytes.TrimLeft(version[i:], " \t")
	return len(rest) > 0 && (rest[0] == '\r' || rest[0] == '\n')
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
