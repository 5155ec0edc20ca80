package crawlgen

import (
	"encoding/json"
	"fmt"
	"strings"
)

var almanacChrome = &chrome{
	Name:    "Weather book of Low Askrigg",
	Menu:    []link{{"months", "Months"}, {"years", "Years"}, {"readings", "Readings"}, {"about", "About the book"}},
	Counter: "Leafed through %d times.",
	Footer:  "The readings are taken at seven in the morning and seven in the evening, at the school.",
}

// month is one page of the weather book.
func month(b *builder, sentences *bank, name string, year int) page {
	r := b.rng(fmt.Sprintf("almanac %s %d", name, year))
	f := sentences.filler(r, nil)
	p := page{
		layout: "news",
		Chrome: almanacChrome,
		Title:  fmt.Sprintf("%s %d", name, year),
		Date:   "Entered by the keeper of the book",
		Views:  r.between(3, 400),
		Path:   fmt.Sprintf("/%d/%s.html", year, strings.ToLower(name)),
	}
	p.Body = append(p.Body, block{Text: f.paragraph("open", 2)})
	middle := []string{"weather", "birds", "plants", "work", "event"}
	for _, i := range r.permutation(len(middle)) {
		p.Body = append(p.Body, block{Text: f.paragraph(middle[i], r.between(3, 5))})
	}
	p.Body = append(p.Body, block{Text: f.paragraph("close", 2)})
	return p
}

// notesPath holds documents as JSON lines.
const notesPath = "notes.jsonl"

// notesFeed has documents as JSON lines, one of them twice.
func notesFeed(b *builder) error {
	sentences, err := readBank("almanac")
	if err != nil {
		return err
	}
	var lines strings.Builder
	var docs []Document
	line := func(id, text string, doc Document) error {
		doc.Key = "https://notes.example.net/" + id
		data, err := json.Marshal(struct {
			ID   string `json:"id"`
			Text string `json:"text"`
		}{doc.Key, text})
		if err != nil {
			return fmt.Errorf("crawlgen: note %s: %w", id, err)
		}
		lines.Write(data)
		lines.WriteByte('\n')
		docs = append(docs, doc)
		return nil
	}
	for i, name := range []string{"March", "May", "August", "November"} {
		p := month(b, sentences, name, 1962)
		group := fmt.Sprintf("note-%d", i+1)
		err := line(group, p.text(), Document{Group: group, Note: "from the same sentences as the other notes"})
		if err != nil {
			return err
		}
		if i != 1 {
			continue
		}
		again := Document{Group: group, Note: "sent again with a line at the end"}
		if err := line(group+"-again", p.text()+"\n\nSent again on Sunday.", again); err != nil {
			return err
		}
	}
	b.file(notesPath, []byte(lines.String()), docs...)
	return nil
}
