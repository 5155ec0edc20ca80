package crawlgen

import (
	"fmt"
	"iter"
	"strings"
)

var nurseryChrome = &chrome{
	Name: "Thornbeck Nursery",
	Menu: []link{
		{"perennials", "Perennials"}, {"shade", "For shade"}, {"dry", "For dry ground"},
		{"seed", "Seed"}, {"tools", "Tools"}, {"visit", "Visit us"},
	},
	Footer: "All plants are grown on our own ground without peat. We pack on Mondays. A plant that does not grow is replaced.",
}

// product is one page of the nursery. Only the plant's name is the same
// throughout; everything else is drawn from the bank.
func product(b *bank, r *rng) page {
	genus := b.slots["genus"][r.intn(len(b.slots["genus"]))]
	shade := b.slots["shade"][r.intn(len(b.slots["shade"]))]
	noun := b.slots["noun"][r.intn(len(b.slots["noun"]))]
	name := genus + " " + shade + " " + noun
	f := b.filler(r, map[string]string{subject: name, "genus": strings.ToLower(genus)})

	p := page{
		layout: "shop",
		Chrome: nurseryChrome,
		Title:  name,
		Slug:   strings.ToLower(strings.ReplaceAll(name, " ", "-")),
		Price:  fmt.Sprintf("%d.%02d", r.between(3, 19), 5*r.intn(20)),
		Stock:  fmt.Sprintf("%d in stock", r.between(4, 160)),
	}
	p.Path = "/" + p.Slug + ".html"
	p.Body = append(p.Body, block{Text: f.paragraph("intro", 2)})
	middle := []string{"flower", "leaf", "site", "company", "wildlife", "trouble", "care", "use"}
	for _, i := range r.permutation(len(middle))[:6] {
		p.Body = append(p.Body, block{Text: f.paragraph(middle[i], r.between(2, 4))})
	}
	p.Body = append(p.Body, block{Text: f.paragraph("sale", 1)})
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
			p := product(b, newRNG(seed, fmt.Sprintf("product %d", i)))
			text, err := p.html()
			page := Page{Path: fmt.Sprintf("/%d%s", i+1, p.Path), HTML: []byte(text)}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

func nurserySite(b *builder) error {
	const (
		site     = "shop.example.com"
		products = 18
	)
	sentences, err := readBank("nursery")
	if err != nil {
		return err
	}
	for i := range products {
		p := product(sentences, b.rng(fmt.Sprintf("nursery %d", i)))
		if err := b.page(site, p, Document{Group: p.Slug, Note: "same template as the other products"}); err != nil {
			return err
		}
		for _, v := range productVariations[i] {
			copied := p
			copied.Path = v.folder + p.Path
			copied = v.change(b, copied)
			doc := Document{Group: p.Slug, Expect: v.expect, Note: v.note}
			if v.expect == Confused {
				doc.Group += "-large"
			}
			if err := b.page(site, copied, doc); err != nil {
				return err
			}
		}
	}
	return nil
}

// productVariation is another copy of a product's page.
type productVariation struct {
	folder string
	change func(*builder, page) page
	expect Expect // "" for New or Duplicate, whichever it is in order
	note   string
}

// productVariations are keyed by the number of the product.
var productVariations = map[int][]productVariation{
	0: {{"/visit-1", productInSession, "", "session id in every link"}, {"/visit-2", productInSession, "", "session id in every link"}},
	1: {{"/visit-1", productInSession, "", "session id in every link"}},
	2: {{"/later", restocked, "", "later crawl: price and stock"}},
	3: {{"/later", restocked, "", "later crawl: price and stock"}},
	4: {{"/later", restocked, "", "later crawl: price and stock"}},
	5: {{"/large", largePlant, Confused, "another product: the same plant in a larger pot, one price and one row differ"}},
}

func productInSession(b *builder, p page) page {
	p.Session = b.rng("session" + p.Path).hex(24)
	return p
}

func restocked(b *builder, p page) page {
	r := b.rng("later" + p.Path)
	p.Price = fmt.Sprintf("%d.%02d", r.between(3, 19), 5*r.intn(20))
	p.Stock = fmt.Sprintf("%d in stock", r.between(4, 160))
	return p
}

func largePlant(_ *builder, p page) page {
	p.Title += ", large"
	p.Price = "24.50"
	rows := append([]spec(nil), p.Specs...)
	rows[len(rows)-1].Value = "A five litre pot"
	p.Specs = rows
	return p
}
