package eval

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// bank makes pages with one shape and different content. It holds sections of
// sentences with gaps such as {colour}, and slots, the lists of words that fill
// a gap. {n:3-9} is a number in that range and {nth:3-9} an ordinal.
type bank struct {
	sections map[string][]string
	slots    map[string][]string
}

// readBank reads a file of banks. "[slot colour]" begins a slot, with values separated by "|".
// "[leaf]" begins a section with one sentence per line.
func readBank(t testing.TB, files fs.FS, name string) *bank {
	t.Helper()
	data, err := fs.ReadFile(files, name)
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{sections: make(map[string][]string), slots: make(map[string][]string)}
	heading := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		slot, isSlot := strings.CutPrefix(heading, "slot ")
		switch {
		case line == "":
		case strings.HasPrefix(line, "["):
			heading = strings.Trim(line, "[]")
		case isSlot:
			b.slots[slot] = strings.Split(line, " | ")
		default:
			b.sections[heading] = append(b.sections[heading], line)
		}
	}
	return b
}

var gap = regexp.MustCompile(`\{([a-z]+)(?::(\d+)-(\d+))?\}`)

// filler fills the gaps of one page. It uses each slot in an order of its own, so that a word is
// repeated only after all words of the slot.
type filler struct {
	bank  *bank
	rng   *rng
	fixed map[string]string
	order map[string][]int
}

func (b *bank) filler(r *rng, fixed map[string]string) *filler {
	return &filler{bank: b, rng: r, fixed: fixed, order: make(map[string][]int)}
}

// word returns the next value of a slot.
func (f *filler) word(slot string) string {
	if value, ok := f.fixed[slot]; ok {
		return value
	}
	values := f.bank.slots[slot]
	if len(f.order[slot]) == 0 {
		f.order[slot] = f.rng.permutation(len(values))
	}
	i := f.order[slot][0]
	f.order[slot] = f.order[slot][1:]
	return values[i]
}

var articleBeforeVowel = regexp.MustCompile(`\b([Aa]) ([aeiou][a-z]*)`)

// sentence fills the gaps and corrects the result: "a upright" and a small letter at the
// beginning.
func (f *filler) sentence(pattern string) string {
	text := gap.ReplaceAllStringFunc(pattern, func(g string) string {
		m := gap.FindStringSubmatch(g)
		if m[2] == "" {
			return f.word(m[1])
		}
		low, _ := strconv.Atoi(m[2]) // the pattern admits digits only
		high, _ := strconv.Atoi(m[3])
		n := f.rng.between(low, high)
		if m[1] == "nth" {
			return ordinal(n)
		}
		return strconv.Itoa(n)
	})
	text = articleBeforeVowel.ReplaceAllStringFunc(text, func(s string) string {
		if word := s[2:]; word == "one" || word == "uniform" || word == "unique" {
			return s
		}
		return s[:1] + "n" + s[1:]
	})
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// paragraph joins count different sentences of a section.
func (f *filler) paragraph(section string, count int) string {
	patterns := f.bank.sections[section]
	var sentences []string
	for _, i := range f.rng.permutation(len(patterns))[:min(count, len(patterns))] {
		sentences = append(sentences, f.sentence(patterns[i]))
	}
	return strings.Join(sentences, " ")
}

func ordinal(n int) string {
	if suffix, ok := map[int]string{1: "st", 2: "nd", 3: "rd"}[n%10]; ok && n/10%10 != 1 {
		return strconv.Itoa(n) + suffix
	}
	return strconv.Itoa(n) + "th"
}
