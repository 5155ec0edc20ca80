package corpus

import (
	"bytes"

	document "github.com/neardup/neardup/fingerprint/page"
)

// lineFactor is how much longer than Options.MaxDocument a line may be:
// escapes and other fields take room.
const lineFactor = 4

// jsonLines reads an object a line.
func (s *source) jsonLines() {
	s.jsonParts(func() bool { return len(s.w.chunk()) > 0 }, s.w.line)
}

// jsonValues reads a JSON array of objects, or objects that stand behind each other, over
// any number of lines. What stands between commas and is no object is a skip.
func (s *source) jsonValues() {
	array := false // its end is missing
	s.jsonParts(func() bool {
		for {
			next, more := s.w.skip(" \t\r\n,")
			switch {
			case more && (array && next == ']' || !array && next == '['):
				array = !array
				s.w.advance(1)
				continue
			case !more && array && s.w.corruption() == nil:
				s.skip(s.w.pos, "", &Skip{Reason: "truncated json", Detail: "the array has no end", Document: true, Broken: true})
			}
			return more
		}
	}, func(dst []byte, limit int) ([]byte, int64, bool) { return s.w.cut(dst, limit, new(valueCutter).next) })
}

// jsonParts reads an object for each time that begin finds one: what cut gives, as lookahead.line does.
func (s *source) jsonParts(begin func() bool, cut func(dst []byte, limit int) (part []byte, size int64, whole bool)) {
	s.w.skipMark()
	limit := s.lineLimit()
	var buf []byte
	for more := true; more; {
		if !begin() {
			if c := s.w.corruption(); c != nil {
				s.skip(s.w.pos, "", c.skip())
			}
			return
		}
		buf = reuse(buf)
		offset := s.w.pos
		var size int64
		var whole bool
		buf, size, whole = cut(buf, int(limit))
		if !whole {
			if c := s.w.corruption(); c != nil {
				s.skip(offset, "", c.skip())
				return
			}
		}
		switch {
		case size > limit:
			more = s.skip(offset, "", tooLarge(limit))
		case len(bytes.TrimSpace(buf)) > 0:
			more = s.sendObject(offset, bytes.Clone(buf))
		}
	}
}

func (s *source) lineLimit() int64 { return lineFactor*s.opts.MaxDocument + 64<<10 }

// reuse gives a buffer to be used again. What one long line took is not held on to.
func reuse(buf []byte) []byte {
	if cap(buf) > 1<<20 && len(buf) < cap(buf)/8 {
		return nil
	}
	return buf[:0]
}

// sendObject sends an object that is still to be parsed.
func (s *source) sendObject(offset int64, object []byte) bool {
	opts := &s.opts
	rec := Record{Offset: offset}
	if s.opts.Originals != nil {
		rec.Original = &Original{Format: JSONL, Compressed: s.w.compressed(), Body: object}
	}
	parse := func(rec *Record) { rec.setJSON(object, opts, false) }
	return s.sendRaw(&RawRecord{record: rec, bytes: cap(object), parse: parse})
}

// valueCutter finds the end of a JSON value.
type valueCutter struct {
	depth                   int64
	begun, inString, escape bool
}

// next says how much of c belongs to the value, and whether it ends there.
func (v *valueCutter) next(c []byte) (n int, ended bool) {
	defer func() { v.begun = true }()
	for i := 0; i < len(c); i++ {
		switch {
		case v.escape:
			v.escape = false
			continue
		case v.inString:
			at := bytes.IndexAny(c[i:], `"\\`)
			if at < 0 {
				return len(c), false
			}
			i += at
			v.escape = c[i] == '\\'
			v.inString = v.escape
			continue
		}
		switch c[i] {
		case '"':
			v.inString = true
		case '{', '[':
			v.depth++
		case '}', ']':
			if v.depth == 0 && c[i] == ']' && (i > 0 || v.begun) {
				return i, true
			}
			if v.depth--; v.depth <= 0 {
				return i + 1, true
			}
		case ' ', '\t', '\r', '\n', ',':
			if v.depth == 0 {
				return i, true
			}
		}
	}
	return len(c), false
}

// setJSON makes a document, or a skip, of an object. In a list its fingerprint counts, else
// its content if it has some.
func (rec *Record) setJSON(object []byte, opts *Options, list bool) {
	skip := func(reason, detail string, err error) {
		rec.Skip = &Skip{Reason: reason, Detail: detail, Document: true, Err: err}
	}
	v, err := opts.names.find(object)
	if err != nil {
		skip(BadJSON, err.Error(), err)
		return
	}
	rec.Key, rec.Scope = string(v[keyField].text()), string(v[scopeField].text())
	content, ready := &v[contentField], &v[fingerprintField]
	if status := v.status(); status != 0 && status != 200 && !list {
		rec.Skip = statusSkip(status)
		return
	}
	if content.value == nil && !list && v.isOutput() {
		rec.Skip = &Skip{Reason: "output of neardup", Detail: "a line about a document"}
		return
	}
	if ready.value != nil && (list || ready.name != bodySimhash && content.value == nil) {
		rec.Fingerprint, err = ready.fingerprint()
		if err != nil {
			skip(BadFingerprint, err.Error(), err)
			return
		}
		rec.Kind = Fingerprint
		return
	}
	if content.value.Kind() != '"' {
		skip("no content", opts.names.missing(list), nil)
		return
	}
	text := content.text()
	switch size := int64(len(text)); {
	case size == 0:
		skip("empty", "", nil)
	case size > opts.MaxDocument:
		rec.Skip = tooLarge(opts.MaxDocument)
	default:
		if rec.Kind, err = kindOfField(content.name, string(v[typeField].text()), text); err != nil {
			skip(err.Error(), "", nil)
			return
		}
		rec.Content = text
		rec.ContentType = utf8Type[rec.Kind]
	}
}

// utf8Type is the Content-Type of a document whose content is UTF-8.
var utf8Type = map[Kind]string{HTML: "text/html; charset=utf-8", Text: "text/plain; charset=utf-8"}

// kindOfField is what a content field holds: by its name if that says it, else by the type that
// was declared, else by its content.
func kindOfField(name, contentType string, content []byte) (Kind, error) {
	switch name {
	case "html", "rawHtml", "cleaned_html":
		return HTML, nil
	case "main", "text", "markdown", "markdown.raw_markdown", "raw_content":
		return Text, nil
	}
	kind, err := document.KindOf(contentType, content)
	if err != nil && contentType == "" {
		return Text, nil // it came as a string
	}
	return kind, err
}
