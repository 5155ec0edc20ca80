package testgen

import (
	"bytes"
	"embed"
	"fmt"
	"html"
	"strings"
	"testing"
	"text/template"

	"github.com/neardup/neardup/fingerprint"
	visible "github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

//go:embed text
var texts embed.FS

// The k of the default pipeline.
const maxDistance = 6

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
	b := readBank(t, texts, "text/bank/nursery.txt")
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
// match. The distance of the first fingerprints alone is not enough for that,
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
	near, rule := 0, match.Default(maxDistance)
	for i := range sigs {
		for j := range i {
			d := sigs[i].Fingerprint.Distance(sigs[j].Fingerprint)
			if d > maxDistance {
				continue
			}
			near++
			if rule.Allows(d, sigs[i], sigs[j]) {
				t.Errorf("%s matches %s, distances %d and %d", pages[i].path, pages[j].path, d, sigs[i].Shingles.Distance(sigs[j].Shingles))
			}
		}
	}
	t.Logf("%d of %d pairs are within %d bits, none of them a match", near, len(sigs)*(len(sigs)-1)/2, maxDistance)
}

//go:embed shop.html
var shop string

// text/template and not html/template: what the latter escapes may change with
// the Go release, and the texts are ours.
var layout = template.Must(template.New("shop").Funcs(template.FuncMap{"esc": html.EscapeString}).Parse(shop))

// product is what the layout needs.
type product struct {
	Title, Slug, Price, Stock string
	Body                      []string
	Specs                     []spec
}

// spec is a row of a product's table.
type spec struct{ Name, Value string }

// newProduct draws a page of the nursery. Only the plant's name is the same
// throughout; everything else is drawn from the bank.
func newProduct(b *bank, r *rng) product {
	genus := b.slots["genus"][r.intn(len(b.slots["genus"]))]
	shade := b.slots["shade"][r.intn(len(b.slots["shade"]))]
	noun := b.slots["noun"][r.intn(len(b.slots["noun"]))]
	name := genus + " " + shade + " " + noun
	f := b.filler(r, map[string]string{"plant": name, "genus": strings.ToLower(genus)})

	p := product{
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
