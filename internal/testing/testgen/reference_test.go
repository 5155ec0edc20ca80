package testgen

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"testing"
	"text/template"

	"github.com/neardup/neardup/fingerprint"
	visible "github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

// reference is the page of one class in the manual of a library: its name, a sentence, and a list of
// what it has. All pages have the same menu, notes and footer, and these alone have long paragraphs.
type reference struct {
	Name, Summary string
	Methods       []method
	Package       string
	Packages      []string
}

type method struct{ Result, Signature, Detail string }

var referenceLayout = template.Must(template.New("reference").Funcs(template.FuncMap{"esc": html.EscapeString}).Parse(`<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{{.Name}} (Quillon 4.2 API)</title></head>
<body>
<div class="topNav"><ul><li><a href="../index.html">Overview</a><li><a href="summary.html">Package</a><li>Class<li><a href="../help.html">Help</a></ul></div>
<div class="packages"><h2>Packages</h2><ul>{{range .Packages}}<li><a href="../{{.}}/summary.html">quillon.{{.}}</a>{{end}}</ul></div>
<div class="body">
<div class="title"><div>quillon.{{.Package}}</div><h1>Class {{.Name}}</h1></div>
<div class="description"><pre>public class {{.Name}}</pre><div>{{esc .Summary}}</div></div>
<table><tr><th>Result<th>Method</tr>
{{range .Methods}}<tr><td><code>{{.Result}}</code><td><code><a href="#{{.Signature}}">{{esc .Signature}}</a></code><div>{{esc .Detail}}</div></tr>
{{end}}</table>
<div class="notes">
<p>Unless it says otherwise, what this page describes may be used by several threads at a time, and a null argument to a method or a constructor is refused with an exception before anything is changed.</p>
<p>Submit a report of an error in this page through the tracker of the project, with the number of the version that you use, and not by letter. Copies of this manual may be made for your own use.</p>
</div></div>
<footer><p>Quillon and its mark belong to the Quillon authors. Use is subject to the terms of the licence, which comes with every copy. This manual was made on the same day as the version that it describes.</p></footer>
</body></html>
`))

func references(t *testing.T, seed uint64, n int) (pages [][]byte) {
	b := readBank(t, texts, "text/bank/reference.txt")
	packages := strings.Fields("base cache codec config event graph http io json lock log math net path pool queue query route schema stream text time tree util")
	names := map[string]bool{}
	for len(pages) < n {
		r := newRNG(seed, fmt.Sprintf("reference %d", len(names)))
		f := b.filler(r, nil)
		p := reference{Name: f.word("manner") + f.word("part") + f.word("role"), Packages: packages, Package: packages[r.intn(len(packages))]}
		for names[p.Name] {
			p.Name += f.word("role")
		}
		names[p.Name] = true
		p.Summary = f.paragraph("summary", 1)
		for range r.between(4, 9) {
			signature := f.word("verb") + f.word("part") + "(" + f.word("type") + " " + strings.ToLower(f.word("part")) + ")"
			p.Methods = append(p.Methods, method{f.word("type"), signature, f.paragraph("detail", 1)})
		}
		var html bytes.Buffer
		if err := referenceLayout.Execute(&html, p); err != nil {
			t.Fatal(err)
		}
		pages = append(pages, html.Bytes())
	}
	return pages
}

// Pages of a reference manual are different pages, though half of their text is the same. Their main
// text tells nearly all of them apart; the menus in the visible text make a few near.
func TestReferencePagesAreDifferentPages(t *testing.T) {
	pages := references(t, 1, 600)
	for _, test := range []struct {
		mode    visible.TextMode
		matches int // at most
	}{{visible.Main, 20}, {visible.Visible, 100}} {
		signer, err := visible.NewSigner(test.mode, fingerprint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var sigs []fingerprint.Signature
		for _, p := range pages {
			sigs = append(sigs, signer.SignKind(visible.HTML, "", p))
		}
		matches, rule := 0, match.Default(maxDistance)
		for i := range sigs {
			for j := range i {
				d, s := sigs[i].Fingerprint.Distance(sigs[j].Fingerprint), sigs[i].Shingles.Distance(sigs[j].Shingles)
				if d+s == 0 {
					t.Errorf("%s: %s and %s are one", signer.Name(), signer.Text(visible.HTML, "", pages[i]), signer.Text(visible.HTML, "", pages[j]))
				}
				if d <= maxDistance && rule.Allows(d, sigs[i], sigs[j]) {
					matches++
				}
			}
		}
		t.Logf("%s: %d of %d pairs match", signer.Name(), matches, len(sigs)*(len(sigs)-1)/2)
		if matches > test.matches {
			t.Errorf("%s: %d pairs match, want at most %d", signer.Name(), matches, test.matches)
		}
	}
}
