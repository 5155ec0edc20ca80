package corpus

import (
	"io"
	"strings"
	"testing"
)

// slow is an input that comes in pieces. It fails when more is asked for than should be
// needed: a record for each piece must have been given.
type slow struct {
	t      *testing.T
	pieces []string // a record each, and the beginning of the next one
	given  int      // pieces
	seen   int      // records
}

func (s *slow) Read(p []byte) (int, error) {
	if s.seen < s.given {
		s.t.Errorf("%d pieces were given, more is asked for, and only %d records have come", s.given, s.seen)
	}
	if s.given == len(s.pieces) {
		return 0, io.EOF
	}
	s.given++
	return copy(p, s.pieces[s.given-1]), nil
}

// TestSlowInput: a record is given as soon as it is known to have ended, whether or not
// the format was named.
func TestSlowInput(t *testing.T) {
	const lines, start = 20, "WARC/1.0\r\nWARC-Type: response\r\nWARC"
	line := `{"url":"u","text":"` + strings.Repeat("word ", 10) + "\"}\n"
	one := response("u", page)
	rest := strings.TrimPrefix(one, start)
	if rest == one {
		t.Fatalf("a record begins with %.60q", one)
	}
	warc := []string{one + start}
	for range lines {
		warc = append(warc, rest+start)
	}
	for _, c := range []struct {
		name   string
		pieces []string
		format Format
	}{
		{"json lines", strings.SplitAfter(strings.Repeat(line, lines), "\n")[:lines], JSONL},
		{"json lines, found out", strings.SplitAfter(strings.Repeat(line, lines), "\n")[:lines], Detect},
		{"warc", warc, WARC},
		{"warc, found out", warc, Detect},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := &slow{t: t, pieces: c.pieces}
			for u, err := range newReader(t, Options{Format: c.format, Stdin: in}, "-").RawRecords(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				u.Parse()
				in.seen++
			}
			if in.seen < lines {
				t.Errorf("%d records", in.seen)
			}
		})
	}
}
