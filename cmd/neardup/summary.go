package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/neardup/neardup"
)

// summary is what dedup came to, in numbers that add up: every record has a verdict, or is
// skipped for a reason.
type summary struct {
	records  int64
	compared int64
	verdicts map[string]int64
	skips    map[string]int64 // by reason
	groups   groups
}

func newSummary() *summary {
	return &summary{verdicts: make(map[string]int64), skips: make(map[string]int64), groups: groups{n: make(map[string]int64)}}
}

// maxSkipReasons bounds the reasons that are told apart: content types are of the inputs' making.
const maxSkipReasons = 50

// add counts a record whose line is written.
func (s *summary) add(i *input) {
	s.records++
	if i.compared {
		s.compared++
		s.verdicts[i.verdict]++
		if i.verdict == neardup.Duplicate.String() {
			s.groups.add(i.of.Key)
		}
		return
	}
	s.verdicts[skipped]++
	reason := i.reason
	if s.skips[reason] == 0 && len(s.skips) >= maxSkipReasons {
		reason = "other reasons"
	}
	s.skips[reason]++
}

// write says it on standard error, where there was anything.
func (s *summary) write(c *call, next string) {
	if s.records == 0 {
		return
	}
	counts := make([]string, 0, len(s.verdicts))
	for _, verdict := range slices.SortedFunc(maps.Keys(s.verdicts), byCount(s.verdicts)) {
		counts = append(counts, fmt.Sprintf("%d %s", s.verdicts[verdict], verdict))
	}
	c.logf("%d records: %s%s", s.records, strings.Join(counts, ", "), reasons(s.skips))
	if duplicates := s.verdicts[neardup.Duplicate.String()]; duplicates > 0 {
		c.logf("%.1f %% of the %d documents compared are duplicates; most are near to", 100*float64(duplicates)/float64(s.compared), s.compared)
		for _, line := range s.groups.largest() {
			c.logf("  %s", line)
		}
	}
	if next != "" {
		c.logf("next: %s", next)
	}
}

// groups counts duplicates by the document that they are near to, as Misra and Gries do: of so
// many that memory is bounded, all counts go down by one to make room, and are least ones then.
type groups struct {
	n       map[string]int64
	lowered bool
}

const (
	maxGroups   = 10_000
	groupsShown = 3
)

func (g *groups) add(key string) {
	if g.n[key] > 0 || len(g.n) < maxGroups {
		g.n[key]++
		return
	}
	g.lowered = true
	for key := range g.n {
		if g.n[key]--; g.n[key] == 0 {
			delete(g.n, key)
		}
	}
}

// largest is a line for each of the largest groups.
func (g *groups) largest() (lines []string) {
	atLeast := ""
	if g.lowered {
		atLeast = "at least "
	}
	for _, key := range slices.SortedFunc(maps.Keys(g.n), byCount(g.n)) {
		if len(lines) == groupsShown {
			break
		}
		lines = append(lines, fmt.Sprintf("%s (%s%d)", key, atLeast, g.n[key]))
	}
	return lines
}

// byCount orders names, the most frequent first.
func byCount(counts map[string]int64) func(a, b string) int {
	return func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b)) }
}
