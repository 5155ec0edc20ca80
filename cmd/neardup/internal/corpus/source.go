package corpus

import "fmt"

// source is one file that is being read.
type source struct {
	*run
	name   string
	w      *lookahead
	number int64
}

// send completes a record and hands it over. It is false when to stop.
func (s *source) send(rec *Record) bool { return s.sendRaw(&RawRecord{record: *rec}) }

// sendRaw is send for a record that parse has still to set.
func (s *source) sendRaw(u *RawRecord) bool {
	if s.ctx.Err() != nil { // what ended the file was the context
		return false
	}
	s.number++
	u.record.Source, u.record.Number = s.name, s.number
	return s.emit(u)
}

// skip sends a record that is none.
func (s *source) skip(offset int64, key string, skip Skip) bool {
	return s.send(&Record{Offset: offset, Key: key, Skip: &skip})
}

func (s *source) readAll() {
	format := s.opts.Format
	if s.lists != nil {
		s.readList()
		return
	}
	if format == Detect {
		var problem *Skip
		format, problem = s.detect()
		if problem != nil {
			s.skip(0, s.name, *problem)
			return
		}
	}
	switch format {
	case WARC, WET:
		newArchive(s).read()
	case JSONL:
		s.jsonLines()
	case HTMLFile:
		s.wholeFile(HTML)
	case TextFile:
		s.wholeFile(Text)
	default:
		s.list(format)
	}
}

// wholeFile reads a file that is one document.
func (s *source) wholeFile(kind Kind) {
	rec := Record{Key: s.name, Kind: kind}
	limit := s.opts.MaxDocument
	for {
		c := s.w.chunk()
		if len(c) == 0 {
			break
		}
		if int64(len(rec.Content)+len(c)) > limit {
			s.skip(0, s.name, Skip{Reason: "too large", Detail: s.sizeAbove(limit), Document: true})
			return
		}
		rec.Content = append(rec.Content, c...)
		s.w.advance(len(c))
	}
	switch d := s.w.corruption(); {
	case d != nil:
		s.skip(0, s.name, *d.skip(""))
	case len(rec.Content) == 0:
		s.skip(0, s.name, Skip{Reason: "empty", Document: true})
	default:
		s.send(&rec)
	}
}

func (s *source) sizeAbove(limit int64) string {
	if n, ok := s.w.remaining(); ok {
		return fmt.Sprintf("%d bytes, limit %d", s.w.pos+n, limit)
	}
	return fmt.Sprintf("over %d bytes", limit)
}

// endOfLines reports damage that ended a file of lines; partial is where the
// line began that it cut, or the position behind the last whole one.
func (s *source) endOfLines(partial int64) {
	if d := s.w.corruption(); d != nil {
		s.skip(partial, "", *d.skip("; what follows was not read"))
	}
}

// lines calls f for each line that is not blank, without its line end. A line
// above limit bytes is given as nil, with its size. Lines are good until f returns.
func (s *source) lines(limit int, f func(offset int64, line []byte, size int64) bool) {
	var buf []byte
	for {
		if cap(buf) > 1<<20 && len(buf) < cap(buf)/8 {
			buf = nil // do not hold on to what one long line took
		}
		offset := s.w.pos
		var size int64
		var whole bool
		buf, size, whole = s.w.line(buf[:0], limit+len("\r\n"))
		if size == 0 || !whole && s.w.corruption() != nil {
			s.endOfLines(offset)
			return
		}
		line := trimLineEnd(buf)
		if len(line) == 0 {
			continue
		}
		if len(line) > limit {
			line = nil
		}
		if !f(offset, line, size) {
			return
		}
	}
}

// trimLineEnd cuts one LF or CR LF.
func trimLineEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
		if n > 1 && line[n-2] == '\r' {
			line = line[:n-2]
		}
	}
	return line
}
