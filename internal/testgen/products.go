package testgen

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"iter"
	"strings"
	"text/template"
)

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

// Page is one HTML page in UTF-8.
type Page struct {
	Path string
	HTML []byte
}

// Products returns n pages of one template, the nursery's, each about another
// plant and with other sentences. They are what a precision test needs: all
// are different pages, and all share their markup, their menu and footer and
// much of their vocabulary. The same seed gives the same pages, and a larger n
// only adds to them.
func Products(seed uint64, n int) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		b, err := readBank("nursery")
		if err != nil {
			yield(Page{}, err)
			return
		}
		for i := range n {
			p := newProduct(b, newRNG(seed, fmt.Sprintf("product %d", i)))
			var html bytes.Buffer
			err := layout.Execute(&html, p)
			if !yield(Page{fmt.Sprintf("/%d/%s.html", i+1, p.Slug), html.Bytes()}, err) || err != nil {
				return
			}
		}
	}
}
