// Package sitegen generates crawls of sites whose short pages share a template. A crawler must
// neither drop such a page nor store it twice. All words are generated. Equal seeds generate equal
// pages.
package sitegen

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Page is one fetch of a page.
type Page struct {
	ID   string // unique in a crawl
	Host string
	// Content names the content of the page. Pages with equal Contents are near-duplicates: they
	// differ in a date, a counter, a session ID or an advertisement. All other pages are distinct.
	Content string
	Text    string
}

// Kind is a kind of page.
type Kind string

const (
	// 30 to 150 words, of which one sentence and the name of a class are unique
	Reference Kind = "reference"
	Product   Kind = "product" // 300 words, of which 25 are unique
	// 20 to 60 words: a command, its purpose, and examples that pages share
	CheatSheet Kind = "cheat sheet"
	// 20 to 60 words: an order with its number, items, amount and address
	Notice Kind = "notice"
)

// Kinds are all kinds of pages.
var Kinds = []Kind{Reference, Product, CheatSheet, Notice}

// hostsPerScript is a multiple of the number of kinds of differences between two fetches.
const hostsPerScript = 8

// Crawl returns two fetches of each page of 40 hosts, eight per script, in the order of a crawl.
// Each host has its own template and the given number of distinct pages.
func Crawl(kind Kind, seed uint64, pages int) (crawl []Page) {
	for _, script := range Scripts {
		l := newLanguage(script, seed)
		for i := range hostsPerScript {
			s := newSite(kind, l, seed, fmt.Sprintf("%s-%s-%d.example",
				strings.ReplaceAll(string(kind), " ", "-"), strings.ToLower(script), i), i)
			for page := range pages {
				crawl = append(crawl, s.fetches(page)...)
			}
		}
	}
	r := newRandom(seed, "order")
	r.Shuffle(len(crawl), func(i, j int) { crawl[i], crawl[j] = crawl[j], crawl[i] })
	return crawl
}

// site is a host with the template of its pages.
type site struct {
	*language
	kind     Kind
	host     string
	seed     uint64
	template []string
	examples [][]string // of cheat sheets
	programs []string   // of cheat sheets
	adverts  [][]string
	changes  int // kind of the difference between two fetches
}

func newSite(kind Kind, l *language, seed uint64, host string, number int) *site {
	s := &site{language: l, kind: kind, host: host, seed: seed, changes: number % 4}
	r := newRandom(seed, host)
	// length returns the number of words of a page, which grows with the number of the host
	length := func(from, to int) int { return from + (to-from)*number/(hostsPerScript-1) }
	words := 0
	switch kind {
	case Reference:
		words = length(30, 150) - 12
	case Product:
		words = 300 - 25
	case CheatSheet:
		words = 12
		for range 30 {
			s.examples = append(s.examples, l.phrase(r, 3+r.IntN(4)))
			s.programs = append(s.programs, strconv.FormatUint(36*36+r.Uint64N(36*36*35), 36))
		}
	case Notice:
		words = length(20, 60) - 11
	}
	s.template = l.phrase(r, words)
	for range 12 {
		s.adverts = append(s.adverts, l.phrase(r, min(max(words/20, 2), 8)))
	}
	return s
}

// fetches returns two fetches of a page.
func (s *site) fetches(number int) (pages []Page) {
	content := fmt.Sprintf("%s/%d", s.host, number)
	r := newRandom(s.seed, content)
	words := s.fill(s.unique(r, number))
	first, second := s.changing(r), s.changing(r)
	for second == first {
		second = s.changing(r)
	}
	for i, changing := range []string{first, second} {
		pages = append(pages, Page{
			ID: fmt.Sprintf("%s?fetch=%d", content, i), Host: s.host, Content: content,
			Text: strings.Join(words, " ") + " " + changing,
		})
	}
	return pages
}

// unique returns the parts of a page that no other page has.
func (s *site) unique(r *rand.Rand, number int) (parts [][]string) {
	name := s.name(r)
	switch s.kind {
	case Reference:
		parts = [][]string{{name}, {name}, s.phrase(r, 5+r.IntN(8)), {name}}
	case Product:
		title := []string{name, s.phrase(r, 1)[0]}
		parts = [][]string{title, title, {strconv.Itoa(1 + r.IntN(300)), "99"}, s.phrase(r, 19)}
	case CheatSheet:
		// Commands such as "git push" share their first word. They have Latin names in all scripts.
		command := []string{s.programs[number%len(s.programs)],
			strconv.FormatUint(36*36+r.Uint64N(36*36*35), 36)}
		if r.IntN(5) == 0 {
			return [][]string{command, {s.name(r)}, command} // an alias of another command
		}
		parts = [][]string{command, append(s.phrase(r, 1+r.IntN(3)), pick(r, s.examples)...),
			command}
		for range 1 + r.IntN(6) {
			parts = append(parts, append(slices.Clone(command), pick(r, s.examples)...))
		}
	case Notice:
		parts = [][]string{
			{strconv.Itoa(100_000 + 7*number)}, s.phrase(r, 1+r.IntN(3)),
			{strconv.Itoa(1 + r.IntN(300)), strconv.Itoa(r.IntN(100))},
			{date(r)}, {s.name(r), s.phrase(r, 1)[0]},
		}
	}
	return parts
}

// fill puts the parts into the template, with equal distances between them.
func (s *site) fill(parts [][]string) (words []string) {
	for i, part := range parts {
		words = append(words,
			s.template[i*len(s.template)/len(parts):(i+1)*len(s.template)/len(parts)]...)
		words = append(words, part...)
	}
	return words
}

// changing returns the text that differs between two fetches of a page.
func (s *site) changing(r *rand.Rand) string {
	switch s.changes {
	case 0:
		return date(r)
	case 1:
		return strconv.Itoa(r.IntN(100_000))
	case 2:
		return fmt.Sprintf("%016x", r.Uint64())
	}
	return strings.Join(pick(r, s.adverts), " ")
}

func date(r *rand.Rand) string {
	return fmt.Sprintf("2026-%02d-%02d", 1+r.IntN(12), 1+r.IntN(28))
}
