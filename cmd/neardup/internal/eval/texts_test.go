package eval

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/fingerprint"
)

// madeText is a document for measurements of quality.
type madeText struct{ ID, Text string }

// labelFrom is the smallest similarity that labelsOf returns.
const labelFrom = 0.6

// labelsOf returns the pairs of texts whose similarity, 2·LCS/(a+b) of their tokens, is at least
// labelFrom.
func labelsOf(texts []madeText) (labels []Pair) {
	numbers := make(map[string]int)
	sequences := make([][]int, len(texts))
	for i, text := range texts {
		for _, token := range fingerprint.Tokens(text.Text) {
			number, known := numbers[token]
			if !known {
				number = len(numbers)
				numbers[token] = number
			}
			sequences[i] = append(sequences[i], number)
		}
	}
	for b, y := range sequences {
		places := make([][]int, len(numbers)) // positions of each token in y
		for i, token := range y {
			places[token] = append(places[token], i)
		}
		for a, x := range sequences[:b] {
			total := float64(len(x) + len(y))
			if 2*float64(min(len(x), len(y))) < labelFrom*total {
				continue
			}
			if s := 2 * float64(commonSubsequence(x, places, len(y))) / total; s >= labelFrom {
				labels = append(labels, Pair{s, texts[a].ID, texts[b].ID})
			}
		}
	}
	return labels
}

// commonSubsequence returns the length of the longest common subsequence of x and a sequence of n
// tokens with the given positions. It is the bit-parallel algorithm of Hyyrö (2004), in which a
// cleared bit marks a position where the length grows.
func commonSubsequence(x []int, places [][]int, n int) int {
	row := make([]uint64, n/64+1)
	for i := range row {
		row[i] = ^uint64(0)
	}
	match := make([]uint64, len(row))
	for _, token := range x {
		at := places[token]
		if len(at) == 0 {
			continue
		}
		for _, i := range at {
			match[i/64] |= 1 << (i % 64)
		}
		carry := uint64(0)
		for w, v := range row {
			u := v & match[w]
			row[w], carry = bits.Add64(v, u, carry)
			row[w] |= v &^ u
			match[w] = 0
		}
	}
	length := 0
	for i := range n {
		length += int(^row[i/64] >> (i % 64) & 1)
	}
	return length
}

// bank has the sentences and words of generated texts of one kind. Its sections have sentences with
// gaps such as {colour}, which are filled with words. {n:3-9} is a number from 3 to 9.
type bank struct{ sections, words map[string][]string }

// readBank reads a bank. "[slot colour]" begins the words of a gap, with "|" between them. "[leaf]"
// begins a section with one sentence per line. No sentence was taken from a real site.
func readBank(t testing.TB, name string) *bank {
	t.Helper()
	data, err := os.ReadFile("testdata/labelled/" + name + ".txt")
	must(t, err)
	b := &bank{sections: make(map[string][]string), words: make(map[string][]string)}
	heading := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		slot, isSlot := strings.CutPrefix(heading, "slot ")
		switch {
		case line == "":
		case strings.HasPrefix(line, "["):
			heading = strings.Trim(line, "[]")
		case isSlot:
			b.words[slot] = strings.Split(line, " | ")
		default:
			b.sections[heading] = append(b.sections[heading], line)
		}
	}
	return b
}

// filler fills the gaps of one text.
type filler struct {
	*bank
	*rand.Rand
}

var gap = regexp.MustCompile(`\{([a-z]+)(?::(\d+)-(\d+))?\}`)

// word returns a word of a gap.
func (f filler) word(slot string) string { return f.words[slot][f.IntN(len(f.words[slot]))] }

// paragraph joins count different sentences of a section.
func (f filler) paragraph(section string, count int) string {
	patterns := f.sections[section]
	var sentences []string
	for _, i := range f.Perm(len(patterns))[:min(count, len(patterns))] {
		sentences = append(sentences, gap.ReplaceAllStringFunc(patterns[i], func(g string) string {
			m := gap.FindStringSubmatch(g)
			if m[1] != "n" {
				return f.word(m[1])
			}
			low, _ := strconv.Atoi(m[2]) // the pattern admits digits only
			high, _ := strconv.Atoi(m[3])
			return strconv.Itoa(low + f.IntN(high-low+1))
		}))
	}
	return strings.Join(sentences, " ")
}

// newRand returns a separate source per name, so that a new text does not change other texts.
func newRand(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, xxhash.Sum64String(name)))
}

// scripts lists the scripts of shortTexts.
var scripts = []string{"english", "russian", "arabic", "chinese", "japanese"}

// shortTexts returns questions, forum posts, product cards and tutorial steps of 10 to 60 words
// in five scripts. For each kind and script it makes the given number of families. Texts of
// different families share only sentences of a small bank. Each family has three edited forms, of
// which the last differs in up to a third of the words.
func shortTexts(t testing.TB, seed uint64, families int) (texts []madeText) {
	t.Helper()
	for _, script := range scripts {
		b := readBank(t, script)
		for _, kind := range []string{"question", "post", "card", "tutorial"} {
			for family := range families {
				id := fmt.Sprintf("%s/%s/%d", script, kind, family)
				r := newRand(seed, id)
				f := filler{b, r}
				text := f.paragraph(kind, 1+r.IntN(5))
				texts = append(texts, madeText{id, text})
				for version, percent := range []int{6, 14, 30} {
					edited := edit(f, r, text, kind, script == "chinese" ||
						script == "japanese", percent)
					texts = append(texts, madeText{fmt.Sprintf("%s/%d", id, version+1), edited})
				}
			}
		}
	}
	return texts
}

// edit changes up to percent % of the words of a text, and at least one.
func edit(f filler, r *rand.Rand, text, kind string, unspaced bool, percent int) string {
	words, space := strings.Fields(text), " "
	if unspaced {
		words, space = strings.Split(text, ""), ""
	}
	other := strings.Fields(f.paragraph(kind, 2))
	if unspaced {
		other = strings.Split(strings.Join(other, ""), "")
	}
	for range 1 + r.IntN(max(1, len(words)*percent/100)) {
		i := r.IntN(len(words))
		switch word := other[r.IntN(len(other))]; r.IntN(4) {
		case 0:
			words = slices.Delete(words, i, i+1)
		case 1:
			words = slices.Insert(words, i, word)
		default:
			words[i] = word
		}
		if len(words) == 0 {
			words = []string{"-"}
		}
	}
	return strings.Join(words, space)
}

// references returns pages of one template, the reference of a made-up library. Each class has a
// page and two later releases, which change some sentences. Each class has its own names. Its own
// sentences are between one sentence and half of the page.
func references(t testing.TB, seed uint64, classes int) (texts []madeText) {
	t.Helper()
	layout := template.Must(template.ParseFiles("testdata/labelled/reference.tmpl"))
	b := readBank(t, "reference")
	for i := range classes {
		id := fmt.Sprintf("class %d", i)
		r := newRand(seed, id)
		f := filler{b, r}
		name := f.word("stem") + f.word("stem") + f.word("role")
		remarks := r.IntN(4)
		page := referencePage{
			Name: name, Package: f.word("package"), Since: fmt.Sprintf("%d.%d", 1+r.IntN(4),
				r.IntN(9)), Version: "4.2",
			Body:        f.paragraph("summary", 1) + " " + f.paragraph("remark", remarks),
			Constructor: f.paragraph("constructor", 1),
		}
		for range r.IntN(9) {
			page.Methods = append(page.Methods, f.paragraph("method", 1))
		}
		for release, version := range []string{"4.2", "4.3", "5.0"} {
			if release > 0 {
				page.Version = version
				page.Body += " " + f.paragraph("remark", r.IntN(2))
				if n := len(page.Methods); n > 0 {
					page.Methods[r.IntN(n)] = f.paragraph("method", 1)
				}
			}
			var text strings.Builder
			must(t, layout.Execute(&text, page))
			texts = append(texts, madeText{fmt.Sprintf("%s %s", id, version), text.String()})
		}
	}
	return texts
}

type referencePage struct {
	Name, Package, Version, Since, Body, Constructor string
	Methods                                          []string
}
