// Package summary counts what a run came to, in numbers that add up: every record has a verdict, or is
// skipped for a reason. Its memory is bounded, whatever keys and reasons the inputs have.
package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/view"
)

// Summary is the counts of a run of dedup.
type Summary struct {
	Records  int64
	Compared int64
	Verdicts map[string]int64
	Skips    map[string]int64 // by reason
	Groups   HeavyHitters     // duplicates by the document that they are near to
}

// New returns one of nothing.
func New() *Summary {
	return &Summary{Verdicts: make(map[string]int64), Skips: make(map[string]int64), Groups: HeavyHitters{N: make(map[string]int64)}}
}

var duplicate, skipped = neardup.Duplicate.String(), neardup.Skipped.String()

// maxReasons bounds the reasons that are told apart: content types are of the inputs' making.
const maxReasons = 50

// Compare counts a document that was compared; one that is a duplicate is near to that of a key.
func (s *Summary) Compare(verdict, of string) {
	s.Records++
	s.Compared++
	s.Verdicts[verdict]++
	if verdict == duplicate {
		s.Groups.add(of)
	}
}

// Skip counts a record that was not compared.
func (s *Summary) Skip(reason string) {
	s.Records++
	s.Verdicts[skipped]++
	if s.Skips[reason] == 0 && len(s.Skips) >= maxReasons {
		reason = "other reasons"
	}
	s.Skips[reason]++
}

// Duplicates is how many there are.
func (s *Summary) Duplicates() int64 { return s.Verdicts[duplicate] }

// Lines says it to people, where there was anything.
func (s *Summary) Lines() (lines []string) {
	if s.Records == 0 {
		return nil
	}
	var verdicts []string
	for _, v := range Counts(s.Verdicts, len(s.Verdicts)) {
		count := fmt.Sprintf("%d %s", v.N, v.Name)
		if v.Name == skipped {
			count += Reasons(s.Skips)
		}
		verdicts = append(verdicts, count)
	}
	lines = append(lines, fmt.Sprintf("%d records: %s", s.Records, strings.Join(verdicts, ", ")))
	if n := s.Duplicates(); n > 0 {
		lines = append(lines, fmt.Sprintf("%.1f %% of the %d documents compared are duplicates; most are near to", 100*float64(n)/float64(s.Compared), s.Compared))
		lines = append(lines, s.Groups.largest()...)
	}
	return lines
}

// HeavyHitters counts by key, as Misra and Gries do: of so many keys that memory is bounded, all counts
// go down by one to make room, and are least ones then.
type HeavyHitters struct {
	N       map[string]int64
	Lowered bool
}

const (
	maxHitters   = 10_000
	hittersShown = 3
)

func (h *HeavyHitters) add(key string) {
	if h.N[key] > 0 || len(h.N) < maxHitters {
		h.N[key]++
		return
	}
	h.Lowered = true
	for key := range h.N {
		if h.N[key]--; h.N[key] == 0 {
			delete(h.N, key)
		}
	}
}

// largest is a line for each of the largest.
func (h *HeavyHitters) largest() (lines []string) {
	atLeast := ""
	if h.Lowered {
		atLeast = "at least "
	}
	for _, hitter := range Counts(h.N, hittersShown) {
		lines = append(lines, fmt.Sprintf("  %s (%s%d)", shortened(hitter.Name), atLeast, hitter.N))
	}
	return lines
}

// shortened is a key for a line that people read: it has up to 64 KiB.
func shortened(key string) string {
	const most = 200
	if start := fmt.Sprintf("%.*s", most, key); len(start) < len(key) {
		return start + "..."
	}
	return key
}

// Counts are the largest of counts by name, the largest first.
func Counts(of map[string]int64, most int) (list []view.Count) {
	for name, n := range of {
		list = append(list, view.Count{Name: name, N: n})
	}
	slices.SortFunc(list, func(a, b view.Count) int { return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name)) })
	return list[:min(most, len(list))]
}

// Reasons lists counts by reason in brackets, the most frequent first.
func Reasons(of map[string]int64) string {
	if len(of) == 0 {
		return ""
	}
	var list []string
	for _, reason := range Counts(of, len(of)) {
		list = append(list, fmt.Sprintf("%s %d", reason.Name, reason.N))
	}
	return " (" + strings.Join(list, ", ") + ")"
}
