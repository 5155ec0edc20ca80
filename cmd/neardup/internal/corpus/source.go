package corpus

import "fmt"

// source is one file that is being read.
type source struct {
	*run
	name   string
	within bool // an archive of files
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
func (s *source) skip(offset int64, key string, skip *Skip) bool {
	return s.send(&Record{Offset: offset, Key: key, Skip: skip})
}

// records reads the file as records.
func (s *source) records() {
	format := s.opts.Format
	if unpack := s.container(); unpack != nil {
		unpack(s)
		return
	}
	if format == Detect {
		var problem *Skip
		if format, problem = s.detect(); problem != nil {
			s.skip(0, s.name, problem)
			return
		}
	}
	for _, f := range formats {
		if f.name == format {
			f.read(s) // archive, jsonLines, wholeFile or a list
		}
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
			s.skip(0, s.name, &Skip{Reason: "too large", Detail: fmt.Sprintf("over %d bytes", limit), Document: true})
			return
		}
		rec.Content = append(rec.Content, c...)
		s.w.advance(len(c))
	}
	switch c := s.w.corruption(); {
	case c != nil:
		s.skip(0, s.name, c.skip(""))
	case len(rec.Content) == 0:
		s.skip(0, s.name, &Skip{Reason: "empty", Document: true})
	default:
		s.send(&rec)
	}
}
