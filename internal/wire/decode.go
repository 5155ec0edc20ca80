package wire

import (
	"bytes"
	"encoding/base64"
	"math"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
)

// Lines are read by a scanner that knows the form alone that nearly all have: members of the types below,
// strings without escapes, whole numbers. Of any other line, encoding/json says what it is, or what is wrong
// with it: that takes several times as long (BenchmarkLine). FuzzParse compares the two.

// parse reads a line, or leaves nothing of it and returns false.
func parse[T any, P interface {
	*T
	scan(*scanner)
}](raw []byte, into P) bool {
	s := scanner{rest: raw}
	*into = *new(T)
	into.scan(&s)
	s.space()
	if s.odd || len(s.rest) > 0 {
		*into = *new(T)
		return false
	}
	return true
}

func (l *Line) scan(s *scanner) {
	s.object(func(name []byte) {
		switch string(name) {
		case "key":
			l.Key = s.string()
		case "keyBytes":
			l.KeyBytes = s.base64()
		case "html":
			l.HTML = new(s.string())
		case "text":
			l.Text = new(s.string())
		case "body":
			l.Body = s.base64()
		case "contentType":
			l.ContentType = s.string()
		case "kind":
			l.Kind = s.string()
		case "fingerprint":
			l.Fingerprint = new(s.fingerprint())
		case "shingle":
			l.Shingle = s.fingerprint()
		case "tokens":
			l.Tokens = s.int()
		case "scope":
			l.Scope = s.string()
		case "scopeBytes":
			l.ScopeBytes = s.base64()
		case "maxDistance":
			l.MaxDistance = new(s.int())
		case "limit":
			l.Limit = s.int()
		default:
			s.odd = true
		}
	})
}

func (c *Checked) scan(s *scanner) {
	s.object(func(name []byte) {
		switch string(name) {
		case "key":
			c.Key = s.string()
		case "keyBytes":
			c.KeyBytes = s.base64()
		case "fingerprint":
			c.Fingerprint = new(s.fingerprint())
		case "verdict":
			s.must(c.Verdict.UnmarshalText(s.text()))
		case "of":
			s.odd = s.odd || c.Of != nil // encoding/json writes a second one over the first
			c.Of = new(Stored)
			c.Of.scan(s)
		case "near":
			c.Near = s.boolean()
		case "retried":
			c.Retried = s.boolean()
		case "reason":
			c.Reason = s.string()
		default:
			s.odd = true
		}
	})
}

func (f *Found) scan(s *scanner) {
	s.object(func(name []byte) {
		switch string(name) {
		case "key":
			f.Key = s.string()
		case "keyBytes":
			f.KeyBytes = s.base64()
		case "fingerprint":
			f.Fingerprint = new(s.fingerprint())
		case "matches":
			f.scanMatches(s)
		case "more":
			f.More = s.boolean()
		case "reason":
			f.Reason = s.string()
		default:
			s.odd = true
		}
	})
}

func (f *Found) scanMatches(s *scanner) {
	s.odd = s.odd || f.Matches != nil
	s.want('[')
	f.Matches = []Stored{}
	if s.is(']') {
		return
	}
	for !s.odd {
		f.Matches = append(f.Matches, Stored{})
		f.Matches[len(f.Matches)-1].scan(s)
		if !s.is(',') {
			s.want(']')
			return
		}
	}
}

func (d *Stored) scan(s *scanner) {
	s.object(func(name []byte) {
		switch string(name) {
		case "key":
			d.Key = s.string()
		case "keyBytes":
			d.KeyBytes = s.base64()
		case "distance":
			d.Distance = s.int()
		case "id":
			d.ID = s.number()
		case "fingerprint":
			d.Fingerprint = s.fingerprint()
		case "shingle":
			d.Shingle = s.fingerprint()
		case "tokens":
			d.Tokens = s.int()
		case "scope":
			d.Scope = s.string()
		case "scopeBytes":
			d.ScopeBytes = s.base64()
		case "added":
			s.must(d.Added.UnmarshalText(s.text()))
		default:
			s.odd = true
		}
	})
}

// scanner takes what a line is made of from its beginning. Once it is odd, what comes is worth nothing.
type scanner struct {
	rest []byte
	odd  bool // encoding/json must read it
}

// object takes an object. member takes the value of each of its members.
func (s *scanner) object(member func(name []byte)) {
	s.want('{')
	if s.is('}') {
		return
	}
	for !s.odd {
		name := s.text()
		s.want(':')
		member(name)
		if !s.is(',') {
			s.want('}')
			return
		}
	}
}

func (s *scanner) space() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\r' || s.rest[0] == '\t') {
		s.rest = s.rest[1:]
	}
}

// is takes a byte if it is the next.
func (s *scanner) is(c byte) bool {
	s.space()
	is := len(s.rest) > 0 && s.rest[0] == c
	if is {
		s.rest = s.rest[1:]
	}
	return is
}

func (s *scanner) want(c byte) {
	if !s.is(c) {
		s.odd = true
	}
}

func (s *scanner) must(err error) {
	if err != nil {
		s.odd = true
	}
}

// text takes a string, and returns a part of the line.
func (s *scanner) text() []byte {
	if s.want('"'); s.odd {
		return nil
	}
	plain := true
	for i, c := range s.rest {
		switch {
		case c == '"':
			text := s.rest[:i]
			s.rest = s.rest[i+1:]
			s.odd = !plain && !utf8.Valid(text)
			return text
		case c < ' ' || c == '\\':
			s.odd = true
			return nil
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	s.odd = true
	return nil
}

func (s *scanner) string() string { return string(s.text()) }

func (s *scanner) fingerprint() (f fingerprint.Fingerprint) {
	s.must(f.UnmarshalText(s.text()))
	return f
}

func (s *scanner) base64() []byte {
	text := s.text()
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(b, text)
	s.must(err)
	return b[:n]
}

// number takes a whole number of at most 18 digits.
func (s *scanner) number() (n uint64) {
	s.space()
	digits := 0
	for digits < len(s.rest) && s.rest[digits]-'0' <= 9 {
		n = n*10 + uint64(s.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 18 || digits > 1 && s.rest[0] == '0' {
		s.odd = true
	}
	s.rest = s.rest[digits:]
	return n
}

func (s *scanner) int() int {
	n := s.number()
	if n > math.MaxInt {
		s.odd = true
	}
	return int(n)
}

func (s *scanner) boolean() bool {
	s.space()
	rest, is := bytes.CutPrefix(s.rest, []byte("true"))
	if !is {
		if rest, is = bytes.CutPrefix(s.rest, []byte("false")); !is {
			s.odd = true
		}
		is = false
	}
	s.rest = rest
	return is
}
