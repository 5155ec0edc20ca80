package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// MaxText is the default number of bytes of a text that are compared word by word.
const MaxText = 256 << 10

// Words returns a copy of the words in the first most bytes of a text.
func Words(text string, most int) []string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return strings.Fields(strings.Clone(text))
}

// Place is a place where two documents differ, with up to three words around it.
type Place []Run

// Run is a sequence of words that are in both documents, or in one of them only.
type Run struct {
	In    Side
	Words string
}

// Side identifies the documents that have the words.
type Side byte

const (
	Both  Side = ' '
	OnlyA Side = '-'
	OnlyB Side = '+'
)

// Mark returns the HTML element that marks the words of a side, or "" if they are not marked.
func (s Side) Mark() string { return map[Side]string{OnlyA: "del", OnlyB: "ins"}[s] }

// differences returns the places where words differ, or nil if the words of a side are unknown.
func differences(a, b []string) (places []Place) {
	if a == nil || b == nil {
		return nil
	}
	lines := func(words []string) []byte { return []byte(strings.Join(words, "\n") + "\n") }
	_, hunks, _ := strings.Cut(string(diff.Diff("a", lines(a), "b", lines(b))), "\n@@")
	for hunk := range strings.SplitSeq(hunks, "\n@@") {
		// the first line is the rest of the header of the hunk
		_, hunk, _ = strings.Cut(strings.TrimSuffix(hunk, "\n"), "\n")
		if hunk != "" {
			places = append(places, placeOf(strings.Split(hunk, "\n")))
		}
	}
	return places
}

// maxRun is the number of consecutive words that are shown completely. Two documents may differ
// in all words.
const maxRun = 50

// placeOf returns the runs of a hunk, in which a space, a minus or a plus precedes each word.
func placeOf(hunk []string) (place Place) {
	for len(hunk) > 0 {
		n := 1
		for n < len(hunk) && hunk[n][0] == hunk[0][0] {
			n++
		}
		words := make([]string, n)
		for i, word := range hunk[:n] {
			words[i] = word[1:]
		}
		if n > maxRun {
			left := fmt.Sprintf("...(%d words)...", n-maxRun)
			words = slices.Concat(words[:maxRun/2], []string{left}, words[n-maxRun/2:])
		}
		place, hunk = append(place, Run{In: Side(hunk[0][0]), Words: strings.Join(words, " ")}),
			hunk[n:]
	}
	return place
}

// String marks the words as wdiff does: [-in A only-] {+in B only+}.
func (p Place) String() string {
	marks := map[Side][2]string{Both: {}, OnlyA: {"[-", "-]"}, OnlyB: {"{+", "+}"}}
	parts := make([]string, len(p))
	for i, r := range p {
		parts[i] = marks[r.In][0] + r.Words + marks[r.In][1]
	}
	return strings.Join(parts, " ")
}

// MarshalText returns the same text as String.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
