package eval

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/neardup/neardup/fingerprint"
)

// labelledTexts has the sentences of the made texts. None was taken from a real site.
var labelledTexts = os.DirFS("testdata")

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

// scripts lists the scripts of shortTexts.
var scripts = []string{"english", "russian", "arabic", "chinese", "japanese"}

// shortTexts returns questions, forum posts, product cards and tutorial steps of 10 to 60 words
// in five scripts. For each kind and script it makes the given number of families. Texts of
// different families share only sentences of a small bank. Each family has three edited forms, of
// which the last differs in up to a third of the words.
func shortTexts(t testing.TB, seed uint64, families int) (texts []madeText) {
	t.Helper()
	for _, script := range scripts {
		b := readBank(t, labelledTexts, "labelled/"+script+".txt")
		for _, kind := range []string{"question", "post", "card", "tutorial"} {
			for family := range families {
				id := fmt.Sprintf("%s/%s/%d", script, kind, family)
				r := newRNG(seed, id)
				f := b.filler(r, nil)
				text := f.paragraph(kind, r.between(1, 5))
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

// references returns pages of one template, the reference of a made-up library. Each class has a
// page and two later releases, which change some sentences. Each class has its own names. Its own
// sentences are between one sentence and half of the page.
func references(t testing.TB, seed uint64, classes int) (texts []madeText) {
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
			texts = append(texts, madeText{fmt.Sprintf("%s %s", id, version), text.String()})
		}
	}
	return texts
}

type referencePage struct {
	Name, Package, Version, Since, Body, Constructor string
	Methods                                          []string
}

// rng draws by remainder from a PCG source, whose output Go guarantees. The methods of rand.Rand
// have no such guarantee, and the texts must not change with the Go release. The bias of the
// remainder does not matter here.
type rng struct{ source *rand.PCG }

// newRNG returns a separate stream per name, so that a new document does not change any other.
func newRNG(seed uint64, name string) *rng {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &rng{rand.NewPCG(seed, h.Sum64())}
}

// intn returns a number in [0, n).
func (r *rng) intn(n int) int { return int(r.source.Uint64() % uint64(n)) }

// between returns a number in [low, high].
func (r *rng) between(low, high int) int { return low + r.intn(high-low+1) }

// permutation returns the numbers below n in random order.
func (r *rng) permutation(n int) []int {
	order := make([]int, n)
	for i := range order {
		j := r.intn(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	return order
}

// naiveCommonSubsequence computes the length by dynamic programming.
func naiveCommonSubsequence(x, y []int) int {
	row := make([]int, len(y)+1)
	for _, a := range x {
		diagonal := 0
		for j, b := range y {
			above := row[j+1]
			if a == b {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(y)]
}

func TestCommonSubsequence(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 3000 {
		x, y := make([]int, rng.IntN(200)), make([]int, rng.IntN(200))
		kinds := 1 + rng.IntN(30)
		for _, s := range [][]int{x, y} {
			for i := range s {
				s[i] = rng.IntN(kinds)
			}
		}
		places := make([][]int, kinds)
		for i, token := range y {
			places[token] = append(places[token], i)
		}
		if got, want := commonSubsequence(x, places, len(y)),
			naiveCommonSubsequence(x, y); got != want {
			t.Fatalf("%v and %v: %d, want %d", x, y, got, want)
		}
	}
}

// TestLabelledTexts checks the properties of the labelled texts: their lengths, near-duplicates,
// and pairs that are almost near-duplicates. The texts of a seed must not depend on their number.
func TestLabelledTexts(t *testing.T) {
	for name, make := range map[string]func(seed uint64, n int) []madeText{
		"short":     func(seed uint64, n int) []madeText { return shortTexts(t, seed, n) },
		"reference": func(seed uint64, n int) []madeText { return references(t, seed, 20*n) },
	} {
		texts := make(1, 6)
		positive, between, negative := 0, 0, 0
		for _, l := range labelsOf(texts) {
			switch {
			case l.Similarity > 1:
				t.Errorf("%s: %s and %s are similar by %v", name, l.A, l.B, l.Similarity)
			case l.Similarity >= 0.9:
				positive++
			case l.Similarity >= 0.8:
				between++
			default:
				negative++
			}
		}
		if positive < 80 || between < 40 || negative < 80 {
			t.Errorf("%s: %d positive pairs, %d between, %d negative", name, positive,
				between, negative)
		}
		for _, text := range texts {
			tokens := len(fingerprint.Tokens(text.Text))
			if strings.ContainsAny(text.Text, "{}") || name == "short" && tokens > 250 ||
				name == "reference" && (tokens < 150 || tokens > 500) {
				t.Errorf("%s: %d tokens: %s", text.ID, tokens, text.Text)
			}
		}
		few := make(1, 2)
		for _, text := range few {
			if !slices.Contains(texts, text) {
				t.Errorf("%s: %s depends on how many are made", name, text.ID)
			}
		}
		if other := make(2, 2); slices.Equal(few, other) {
			t.Errorf("%s: two seeds give the same", name)
		}
	}
}
