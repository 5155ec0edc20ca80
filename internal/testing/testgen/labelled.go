package testgen

import (
	"embed"
	"fmt"
	"strings"
	"testing"
	"text/template"
)

//go:embed labelled
var labelledTexts embed.FS

// Text is a document for measurements of quality.
type Text struct{ ID, Text string }

// Label is the similarity of two Texts, 2·LCS/(a+b) of their tokens.
type Label struct {
	Similarity float64
	A, B       int // indexes of the texts
}

// labelFrom is the smallest similarity that Labels returns.
const labelFrom = 0.6

// Labels returns the pairs of texts whose similarity is at least 0.6. tokens is
// fingerprint.Tokens. The tests of package fingerprint use this package, so it cannot import that
// package.
func Labels(texts []Text, tokens func(string) []string) (labels []Label) {
	numbers := make(map[string]int)
	sequences := make([][]int, len(texts))
	for i, text := range texts {
		for _, token := range tokens(text.Text) {
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
				labels = append(labels, Label{s, a, b})
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
			sum := v + u
			over := sum < v
			sum += carry
			carry = 0
			if over || sum < v {
				carry = 1
			}
			row[w] = sum | v&^u
			match[w] = 0
		}
	}
	length := 0
	for i := range n {
		length += int(^row[i/64] >> (i % 64) & 1)
	}
	return length
}

// Scripts lists the scripts of ShortTexts.
var Scripts = []string{"english", "russian", "arabic", "chinese", "japanese"}

// ShortTexts returns questions, forum posts, product cards and tutorial steps of 10 to 60 words
// in five scripts. For each kind and script it makes the given number of families. Texts of
// different families share only sentences of a small bank. Each family has three edited forms, of
// which the last differs in up to a third of the words.
func ShortTexts(t testing.TB, seed uint64, families int) (texts []Text) {
	t.Helper()
	for _, script := range Scripts {
		b := readBank(t, labelledTexts, "labelled/"+script+".txt")
		for _, kind := range []string{"question", "post", "card", "tutorial"} {
			for family := range families {
				id := fmt.Sprintf("%s/%s/%d", script, kind, family)
				r := newRNG(seed, id)
				f := b.filler(r, nil)
				text := f.paragraph(kind, r.between(1, 5))
				texts = append(texts, Text{id, text})
				for version, percent := range []int{6, 14, 30} {
					edited := edit(f, r, text, kind, script == "chinese" ||
						script == "japanese", percent)
					texts = append(texts, Text{fmt.Sprintf("%s/%d", id, version+1), edited})
				}
			}
		}
	}
	return texts
}

// edit changes up to percent % of the words of a text, and at least one.
func edit(f *filler, r *rng, text, kind string, unspaced bool, percent int) string {
	words, space := strings.Fields(text), " "
	if unspaced {
		words, space = strings.Split(text, ""), ""
	}
	other := strings.Fields(f.paragraph(kind, 2))
	if unspaced {
		other = strings.Split(strings.Join(other, ""), "")
	}
	for range 1 + r.intn(max(1, len(words)*percent/100)) {
		i := r.intn(len(words))
		switch word := other[r.intn(len(other))]; r.intn(4) {
		case 0:
			words = append(words[:i:i], words[i+1:]...)
		case 1:
			words = append(words[:i:i], append([]string{word}, words[i:]...)...)
		default:
			words[i] = word
		}
		if len(words) == 0 {
			words = []string{"-"}
		}
	}
	return strings.Join(words, space)
}

// References returns pages of one template, the reference of a made-up library. Each class has a
// page and two later releases, which change some sentences. Each class has its own names. Its own
// sentences are between one sentence and half of the page.
func References(t testing.TB, seed uint64, classes int) (texts []Text) {
	t.Helper()
	layout := template.Must(template.ParseFS(labelledTexts, "labelled/reference.tmpl"))
	b := readBank(t, labelledTexts, "labelled/reference.txt")
	for i := range classes {
		id := fmt.Sprintf("class %d", i)
		r := newRNG(seed, id)
		f := b.filler(r, nil)
		name := f.word("stem") + f.word("stem") + f.word("role")
		remarks := r.intn(4)
		page := referencePage{
			Name: name, Package: f.word("package"), Since: fmt.Sprintf("%d.%d", r.between(1, 4),
				r.intn(9)), Version: "4.2",
			Body:        f.paragraph("summary", 1) + " " + f.paragraph("remark", remarks),
			Constructor: f.paragraph("constructor", 1),
		}
		for range r.intn(9) {
			page.Methods = append(page.Methods, f.paragraph("method", 1))
		}
		for release, version := range []string{"4.2", "4.3", "5.0"} {
			if release > 0 {
				page.Version = version
				page.Body += " " + f.paragraph("remark", r.intn(2))
				if n := len(page.Methods); n > 0 {
					page.Methods[r.intn(n)] = f.paragraph("method", 1)
				}
			}
			var text strings.Builder
			if err := layout.Execute(&text, page); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, Text{fmt.Sprintf("%s %s", id, version), text.String()})
		}
	}
	return texts
}

type referencePage struct {
	Name, Package, Version, Since, Body, Constructor string
	Methods                                          []string
}
