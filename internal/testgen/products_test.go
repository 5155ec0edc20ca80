package testgen

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/neardup/neardup/fingerprint"
	visible "github.com/neardup/neardup/fingerprint/page"
)

// The match rule of the default pipeline.
const (
	maxDistance = 6
	maxSum      = 16 // of the distances of fingerprint and Shingle
)

func defaultAnalyzer(t *testing.T) *fingerprint.Analyzer {
	t.Helper()
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shopPage is one HTML page in UTF-8.
type shopPage struct {
	path string
	html []byte
}

// products makes n pages of one template, the nursery's, each about another plant and with
// other sentences: all are different pages, and all share their markup, their menu and
// footer and much of their vocabulary. A larger n only adds to them.
func products(t *testing.T, seed uint64, n int) []shopPage {
	t.Helper()
	b := readBank(t, "nursery")
	pages := make([]shopPage, n)
	for i := range pages {
		p := newProduct(b, newRNG(seed, fmt.Sprintf("product %d", i)))
		var html bytes.Buffer
		if err := layout.Execute(&html, p); err != nil {
			t.Fatal(err)
		}
		if gap.Match(html.Bytes()) {
			t.Errorf("product %d: a gap was not filled", i)
		}
		pages[i] = shopPage{fmt.Sprintf("/%d/%s.html", i+1, p.Slug), html.Bytes()}
	}
	return pages
}

// Pages of one template with other content are different pages: no two of them
// match. The distance of the unigram fingerprints alone is not enough for that,
// which the log shows.
func TestProductsAreDifferentPages(t *testing.T) {
	signer, err := visible.NewSigner(visible.Visible, fingerprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pages := products(t, 1, 2000)
	var sigs []fingerprint.Signature
	paths := make(map[string]bool)
	for _, p := range pages {
		sig, err := signer.Sign("text/html; charset=utf-8", p.html)
		if err != nil {
			t.Fatal(err)
		}
		if sig.Tokens < 250 {
			t.Errorf("%s: %d words, want several hundred", p.path, sig.Tokens)
		}
		if paths[p.path] {
			t.Errorf("%s: two pages have this path", p.path)
		}
		paths[p.path] = true
		sigs = append(sigs, sig)
	}
	near := 0
	for i := range sigs {
		for j := range i {
			d := sigs[i].Fingerprint.Distance(sigs[j].Fingerprint)
			if d > maxDistance {
				continue
			}
			near++
			if s := sigs[i].Shingle.Distance(sigs[j].Shingle); d+s <= maxSum {
				t.Errorf("%s matches %s, distances %d and %d", pages[i].path, pages[j].path, d, s)
			}
		}
	}
	t.Logf("%d of %d pairs are within %d bits, none of them a match", near, len(sigs)*(len(sigs)-1)/2, maxDistance)
}

func TestProductsAreStable(t *testing.T) {
	few, many := products(t, 7, 5), products(t, 7, 50)
	for i, p := range few {
		if p.path != many[i].path || !bytes.Equal(p.html, many[i].html) {
			t.Errorf("page %d depends on how many are made", i)
		}
	}
	if bytes.Equal(few[0].html, products(t, 8, 1)[0].html) {
		t.Error("two seeds give the same first page")
	}
}

//go:embed shop.html
var shop string

// text/template and not html/template: what the latter escapes may change with
// the Go release, and the texts are ours.
var layout = template.Must(template.New("shop").Funcs(template.FuncMap{"esc": html.EscapeString}).Parse(shop))

// product is what the layout needs.
type product struct {
	Site                      site
	Title, Slug, Price, Stock string
	Body                      []string
	Specs                     []spec
}

// site is what all pages have in common.
type site struct {
	Name   string
	Menu   []link
	Footer string
}

type link struct{ Slug, Text string }

// spec is a row of a product's table.
type spec struct{ Name, Value string }

var nursery = site{
	Name: "Thornbeck Nursery",
	Menu: []link{
		{"perennials", "Perennials"}, {"shade", "For shade"}, {"dry", "For dry ground"},
		{"seed", "Seed"}, {"tools", "Tools"}, {"visit", "Visit us"},
	},
	Footer: "All plants are grown on our own ground without peat. We pack on Mondays. A plant that does not grow is replaced.",
}

// newProduct draws a page of the nursery. Only the plant's name is the same
// throughout; everything else is drawn from the bank.
func newProduct(b *bank, r *rng) product {
	genus := b.slots["genus"][r.intn(len(b.slots["genus"]))]
	shade := b.slots["shade"][r.intn(len(b.slots["shade"]))]
	noun := b.slots["noun"][r.intn(len(b.slots["noun"]))]
	name := genus + " " + shade + " " + noun
	f := b.filler(r, map[string]string{subject: name, "genus": strings.ToLower(genus)})

	p := product{
		Site:  nursery,
		Title: name,
		Slug:  strings.ToLower(strings.ReplaceAll(name, " ", "-")),
		Price: fmt.Sprintf("%d.%02d", r.between(3, 19), 5*r.intn(20)),
		Stock: fmt.Sprintf("%d in stock", r.between(4, 160)),
	}
	p.Body = append(p.Body, f.paragraph("intro", 2))
	middle := []string{"flower", "leaf", "site", "company", "wildlife", "trouble", "care", "use"}
	for _, i := range r.permutation(len(middle))[:6] {
		p.Body = append(p.Body, f.paragraph(middle[i], r.between(2, 4)))
	}
	p.Body = append(p.Body, f.paragraph("sale", 1))
	for _, row := range b.sections["spec"] {
		label, value, _ := strings.Cut(row, " | ")
		p.Specs = append(p.Specs, spec{label, f.sentence(value)})
	}
	return p
}

// bank makes pages with one shape and different content. It holds sections of
// sentences with gaps such as {colour}, and slots, the lists of words that fill
// a gap. {n:3-9} is a number in that range and {nth:3-9} an ordinal.
type bank struct {
	sections map[string][]string
	slots    map[string][]string
}

// readBank reads text/bank/<name>.txt. "[slot colour]" begins a slot, whose
// values are parted by "|"; "[leaf]" begins a section, a sentence on each line.
func readBank(t *testing.T, name string) *bank {
	data, err := texts.ReadFile("text/bank/" + name + ".txt")
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

// subject is the gap that stays the same throughout a page.
const subject = "plant"

// filler fills the gaps of one page. It goes through each slot in an order of
// the page's own, so that a word returns only when the slot is used up.
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

// sentence fills the gaps and mends what filling them breaks: "a upright", and
// a small letter at the beginning.
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
	return strings.ToUpper(text[:1]) + text[1:]
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

func TestSentence(t *testing.T) {
	b := &bank{slots: map[string][]string{"habit": {"upright"}, "pot": {"a one litre pot"}, "colour": {"red", "blue"}}}
	for _, c := range []struct{ pattern, want string }{
		{"it is a {habit} plant", "It is an upright plant"},
		{"{pot} will do", "A one litre pot will do"},
		{"{n:7-7} days from the {nth:22-22}", "7 days from the 22nd"},
	} {
		if got := b.filler(newRNG(1, t.Name()), nil).sentence(c.pattern); got != c.want {
			t.Errorf("sentence(%q) = %q, want %q", c.pattern, got, c.want)
		}
	}
	got := b.filler(newRNG(1, t.Name()), nil).sentence("{colour} {colour}")
	if got = strings.ToLower(got); got != "red blue" && got != "blue red" {
		t.Errorf("a slot of two words gave %q: a word returned before the other was used", got)
	}
}

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 22: "22nd", 30: "30th"} {
		if got := ordinal(n); got != want {
			t.Errorf("ordinal(%d) = %s, want %s", n, got, want)
		}
	}
}
