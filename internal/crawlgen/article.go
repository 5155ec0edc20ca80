package crawlgen

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed text
var texts embed.FS

// block is a paragraph or a heading of a page.
type block struct {
	Heading bool
	Text    string
}

// article is a text written by hand: a title, then blocks.
type article struct {
	title string
	body  []block
}

// readArticle reads text/<name>.txt: the title on the first line, blocks set
// apart by empty lines, headings marked with "## ".
func readArticle(name string) (article, error) {
	data, err := texts.ReadFile("text/" + name + ".txt")
	if err != nil {
		return article{}, fmt.Errorf("crawlgen: %w", err)
	}
	parts := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	if len(parts) < 2 {
		return article{}, fmt.Errorf("crawlgen: text/%s.txt: want a title and at least one paragraph", name)
	}
	a := article{title: parts[0]}
	for _, part := range parts[1:] {
		text, heading := strings.CutPrefix(part, "## ")
		a.body = append(a.body, block{Heading: heading, Text: text})
	}
	return a, nil
}

// readAds returns the advertisements of each language.
func readAds() (map[string][]string, error) {
	data, err := texts.ReadFile("text/ads.txt")
	if err != nil {
		return nil, fmt.Errorf("crawlgen: %w", err)
	}
	ads := make(map[string][]string)
	for line := range strings.Lines(string(data)) {
		lang, ad, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			return nil, fmt.Errorf("crawlgen: text/ads.txt: %q: want a language, a tab and a text", line)
		}
		ads[lang] = append(ads[lang], ad)
	}
	return ads, nil
}

// plain returns the text as a plain text file has it, with lines broken before
// width bytes where words allow.
func (a article) plain(width int) string {
	var b strings.Builder
	b.WriteString(a.title + "\n")
	for _, block := range a.body {
		b.WriteByte('\n')
		column := 0
		for i, word := range strings.Fields(block.Text) {
			switch {
			case i == 0:
			case column+1+len(word) > width:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// edited returns the article with one word or phrase replaced. The phrase must
// occur exactly once, so that an edit is what its note says.
func (a article) edited(old, new string) (article, error) {
	count := 0
	body := make([]block, len(a.body))
	for i, b := range a.body {
		count += strings.Count(b.Text, old)
		b.Text = strings.Replace(b.Text, old, new, 1)
		body[i] = b
	}
	if count != 1 {
		return article{}, fmt.Errorf("crawlgen: edit of %q: %q occurs %d times, want once", a.title, old, count)
	}
	return article{title: a.title, body: body}, nil
}
