package corpus

import (
	"bytes"

	document "github.com/neardup/neardup/fingerprint/page"
)

// lineFactor is the length of the longest line in units of Options.MaxDocument. Escapes and other
// fields need more bytes than the document.
const lineFactor = 4

// jsonLines reads an object per line.
func (s *source) jsonLines() {
	s.objects(func() bool { return len(s.w.chunk()) > 0 }, s.w.line)
}

// jsonValues reads a JSON array of objects, or a sequence of objects, over any number of lines. A
// value that is not an object is a skip.
func (s *source) jsonValues() {
	inArray := false
	s.objects(func() bool {
		for {
			next, more := s.w.skip(whiteSpace + ",")
			switch {
			case more && (inArray && next == ']' || !inArray && next == '['):
				inArray = !inArray
				s.w.advance(1)
				continue
			case !more && inArray && s.w.corruption() == nil:
				s.skip(s.w.pos, "", &Skip{Reason: "truncated json", Detail: "the array has no end",
					Document: true, Broken: true})
			}
			return more
		}
	}, func(dst []byte, limit int) ([]byte, int64, bool) {
		return s.w.cut(dst, limit, new(valueCutter).next)
	})
}

// objects reads an object with cut, as lookahead.line reads a line, each time that begin returns
// true.
func (s *source) objects(
	begin func() bool, cut func(dst []byte, limit int) (part []byte, size int64, whole bool),
) {
	s.w.skipMark()
	opts := &s.opts // the records must not keep the buffers of s
	limit := lineFactor*opts.MaxDocument + 64<<10
	for more := true; more && begin(); {
		offset := s.w.pos
		object, size, whole := cut(nil, int(limit))
		switch {
		case !whole && s.w.corruption() != nil:
			s.skip(offset, "", s.w.corruption().skip())
			return
		case size > limit:
			more = s.skip(offset, "", tooLarge(limit))
		case len(bytes.TrimSpace(object)) > 0:
			u := &RawRecord{record: Record{Offset: offset}, bytes: cap(object)}
			if opts.Originals {
				u.record.Original = &Original{Format: JSONL,
					Compressed: s.w.compressed(), Body: object}
			}
			u.parse = func(rec *Record) { rec.setJSON(object, opts, false) }
			more = s.sendRaw(u)
		}
	}
	if c := s.w.corruption(); c != nil {
		s.skip(s.w.pos, "", c.skip())
	}
}

// valueCutter finds the end of a JSON value.
type valueCutter struct {
	depth                   int64
	begun, inString, escape bool
}

// next returns how many bytes of c belong to the value, and whether the value ends there.
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

// setJSON sets rec to the document or the skip of an object. In a list of fingerprints, it reads
// the fingerprint of the object. Otherwise it prefers the content to the fingerprint.
func (rec *Record) setJSON(object []byte, opts *Options, list bool) {
	skip := func(reason, detail string, err error) {
		rec.Skip = &Skip{Reason: reason, Detail: detail, Document: true, Err: err}
	}
	o, err := opts.names.find(object)
	if err != nil {
		skip(BadJSON, err.Error(), err)
		return
	}
	rec.Key, rec.Scope = string(o[keyField].text()), string(o[scopeField].text())
	content, ready := &o[contentField], &o[fingerprintField]
	if status := o.status(); status != 0 && status != 200 && !list {
		rec.Skip = statusSkip(status)
		return
	}
	if content.value == nil && o.isOutput() {
		rec.Skip = &Skip{Reason: "output of neardup", Detail: "a line about a document"}
		return
	}
	if ready.value != nil && (list || ready.name != bodySimhash && content.value == nil) {
		if rec.Fingerprint, err = ready.fingerprint(); err != nil {
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
		if rec.Kind, err = kindOfField(content.name, string(o[typeField].text()),
			text); err != nil {
			skip(err.Error(), "", nil)
			return
		}
		rec.Content = text
		rec.ContentType = utf8Type[rec.Kind]
	}
}

// utf8Type is the Content-Type of a document whose content is UTF-8.
var utf8Type = map[Kind]string{HTML: "text/html; charset=utf-8", Text: "text/plain; charset=utf-8"}

// kindOfField returns the kind of the content of a field by the name of the field, else by the
// declared type, else by the content.
func kindOfField(name, contentType string, content []byte) (Kind, error) {
	switch name {
	case "html", "rawHtml", "cleaned_html":
		return HTML, nil
	case "main", "text", "markdown", "markdown.raw_markdown", "raw_content":
		return Text, nil
	}
	kind, err := document.KindOf(contentType, content)
	if err != nil && contentType == "" {
		return Text, nil // a JSON string is text
	}
	return kind, err
}
