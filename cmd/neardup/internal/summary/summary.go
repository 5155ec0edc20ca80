// Package summary counts the verdicts and skips of a run. Each record is counted once: it has a
// verdict, or it is skipped with a reason. The memory of the counts is bounded for any keys and
// reasons.
package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/view"
)

// Summary counts the records of a run.
type Summary struct {
	Records  int64
	Compared int64            // documents; the other records are skipped
	Verdicts map[string]int64 // of dedup; nil for subcommands without verdicts
	Skips    map[string]int64 // by reason
	Groups   HeavyHitters     // duplicates by the document that they match

	skippedDocuments int64 // skipped records that are documents

	file      string // of the current record
	documents int64  // of file
	files     int    // files with records
	without   int    // files without a document
	names     []string

	unrelated int64  // documents that replaced a document with unrelated content
	example   string // key and file of the first of these documents
}

// New returns a Summary of no records.
func New() *Summary {
	return &Summary{Skips: make(map[string]int64), Groups: HeavyHitters{N: make(map[string]int64)}}
}

var duplicate, skipped = neardup.Duplicate.String(), neardup.Skipped.String()

// verdicts is the order of the verdicts in the summary.
var verdicts = []string{neardup.New.String(), neardup.Changed.String(),
	neardup.Unchanged.String(), duplicate}

// maxNames is the largest number of printed names of files without a document.
const maxNames = 5

// File sets the file of the records that are counted next.
func (s *Summary) File(name string) {
	if s.files > 0 && name == s.file {
		return
	}
	s.endFile()
	s.file, s.documents = name, 0
	s.files++
}

// endFile notes the current file if it has no document.
func (s *Summary) endFile() {
	if s.files == 0 || s.documents > 0 {
		return
	}
	s.without++
	if len(s.names) < maxNames {
		s.names = append(s.names, s.file)
	}
}

// Compare counts a document, with its verdict if Verdicts is not nil.
func (s *Summary) Compare(verdict string) {
	s.Records++
	s.Compared++
	s.documents++
	if s.Verdicts != nil {
		s.Verdicts[verdict]++
	}
}

// Skip counts a record that was not compared.
func (s *Summary) Skip(reason string, document bool) {
	s.Records++
	if document {
		s.skippedDocuments++
	}
	corpus.CountReason(s.Skips, reason)
}

// Unrelated counts a document that replaced a document with the same key and unrelated content.
func (s *Summary) Unrelated(key string) {
	if s.unrelated++; s.unrelated == 1 {
		s.example = fmt.Sprintf("%s in %s", Shortened(key), s.file)
	}
}

// Duplicates returns the number of duplicates.
func (s *Summary) Duplicates() int64 { return s.Verdicts[duplicate] }

// VerdictCounts returns the documents by verdict, in the order of the summary. It leaves out the
// other records, such as the requests of a web archive.
func (s *Summary) VerdictCounts() (counts []view.Count) {
	for _, v := range verdicts {
		if n := s.Verdicts[v]; n > 0 {
			counts = append(counts, view.Count{Name: v, N: n})
		}
	}
	if s.skippedDocuments > 0 {
		counts = append(counts, view.Count{Name: skipped, N: s.skippedDocuments})
	}
	return counts
}

// Skipped returns the number of records that were not compared.
func (s *Summary) Skipped() int64 { return s.Records - s.Compared }

// Plural formats a number of things, such as "1 file" or "2 files".
func Plural(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// InFiles formats the numbers of records and files.
func InFiles(records, files int64) string {
	return Plural(records, "record") + " in " + Plural(files, "file")
}

// Lines returns the lines of the summary. files is the number of files that were read. The first
// line counts every record once.
func (s *Summary) Lines(files int64) (lines []string) {
	if s.Records == 0 {
		return nil
	}
	s.endFile()
	var counts []string
	if s.Verdicts == nil {
		counts = append(counts, Plural(s.Compared, "document"))
	} else {
		for _, v := range verdicts {
			counts = append(counts, fmt.Sprintf("%d %s", s.Verdicts[v], v))
		}
	}
	counts = append(counts, fmt.Sprintf("%d %s%s", s.Skipped(), skipped, Reasons(s.Skips)))
	lines = append(lines, fmt.Sprintf("%s: %s", InFiles(s.Records, files),
		strings.Join(counts, ", ")))
	if s.without > 0 {
		more := ""
		if n := s.without - len(s.names); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, fmt.Sprintf("%s without a document: %s%s",
			Plural(int64(s.without), "file"), strings.Join(s.names, ", "), more))
	}
	if s.unrelated > 0 {
		lines = append(lines, fmt.Sprintf("%s replaced an earlier document with the same key "+
			"and unrelated content, such as %s; if these are different documents, use "+
			"--key-field or --no-keys", Plural(s.unrelated, "document"), s.example))
	}
	if n := s.Duplicates(); n > 0 {
		lines = append(lines, fmt.Sprintf("%.1f %% of the %d documents compared are duplicates; "+
			"documents with the most duplicates:", 100*float64(n)/float64(s.Compared), s.Compared))
		lines = append(lines, s.Groups.largest()...)
	}
	return lines
}

// HeavyHitters counts keys with the algorithm of Misra and Gries. It keeps up to maxHitters keys. A
// further key lowers all counts by one instead, and drops the keys with a count of 0. From then on,
// Lowered is true, and the counts are lower bounds.
type HeavyHitters struct {
	N       map[string]int64
	Lowered bool
}

const (
	maxHitters   = 10_000
	hittersShown = 3
)

// Add counts a key.
func (h *HeavyHitters) Add(key string) {
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

// largest returns a line for each of the largest counts.
func (h *HeavyHitters) largest() (lines []string) {
	atLeast := ""
	if h.Lowered {
		atLeast = "at least "
	}
	for _, hitter := range Counts(h.N, hittersShown) {
		lines = append(lines, fmt.Sprintf("  %s (%s%d)", Shortened(hitter.Name), atLeast, hitter.N))
	}
	return lines
}

// Shortened shortens a key, which can have 64 KiB, for a message.
func Shortened(key string) string {
	const most = 200
	if start := fmt.Sprintf("%.*s", most, key); len(start) < len(key) {
		return start + "..."
	}
	return key
}

// Counts returns the largest counts, the largest first.
func Counts(of map[string]int64, most int) (list []view.Count) {
	for name, n := range of {
		list = append(list, view.Count{Name: name, N: n})
	}
	slices.SortFunc(list, func(a, b view.Count) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name))
	})
	return list[:min(most, len(list))]
}

// Reasons formats counts by reason in parentheses, the largest first.
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
