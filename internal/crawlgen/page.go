package crawlgen

import (
	"bytes"
	"embed"
	"fmt"
	"html"
	"strings"
	"text/template"
)

//go:embed layout
var layoutFiles embed.FS

// text/template and not html/template: what the latter escapes may change with
// the Go release, and the texts are ours.
var layouts = template.Must(template.New("").
	Funcs(template.FuncMap{"esc": html.EscapeString}).
	ParseFS(layoutFiles, "layout/*.html"))

// link is an entry of a site's menu.
type link struct{ Slug, Text string }

// spec is a row of a product's table.
type spec struct{ Name, Value string }

// chrome is what all pages of a site have in common.
type chrome struct {
	Name    string
	Menu    []link
	Counter string // with one %d
	Footer  string
}

// page is all that a layout needs. A variation of a page is a copy of it with
// some fields changed, so a variation touches nothing that it does not name.
type page struct {
	layout  string
	Chrome  *chrome
	Lang    string
	Dir     string
	Charset string
	Path    string
	Title   string
	Date    string
	Body    []block
	Ad      string
	Banner  string
	Views   int
	Session string

	Slug  string
	Price string
	Stock string
	Specs []spec
}

// Link returns the address of a page of the same site, with the session id if
// the visitor was given one.
func (p page) Link(path string) string {
	if p.Session == "" {
		return path
	}
	return path + "?sid=" + p.Session
}

// html renders the page in UTF-8.
func (p page) html() (string, error) {
	if p.Charset == "" {
		p.Charset = "utf-8"
	}
	if p.Lang == "" {
		p.Lang = "en"
	}
	var b bytes.Buffer
	if err := layouts.ExecuteTemplate(&b, p.layout+".html", p); err != nil {
		return "", fmt.Errorf("crawlgen: page %q: %w", p.Title, err)
	}
	return b.String(), nil
}

// encodedHTML renders the page in its own character set.
func (p page) encodedHTML() ([]byte, error) {
	text, err := p.html()
	if err != nil {
		return nil, err
	}
	enc, err := encodingOf(p.Charset)
	if err != nil {
		return nil, err
	}
	if enc == nil {
		return []byte(text), nil
	}
	data, err := enc.NewEncoder().Bytes([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("crawlgen: page %q in %s: %w", p.Title, p.Charset, err)
	}
	return data, nil
}

// set fills the page from an article.
func (p page) set(a article) page {
	p.Title, p.Body = a.title, a.body
	return p
}

// text returns the title and the body without any markup.
func (p page) text() string {
	parts := []string{p.Title}
	for _, b := range p.Body {
		parts = append(parts, b.Text)
	}
	return strings.Join(parts, "\n\n")
}
