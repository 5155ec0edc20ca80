package crawlgen

import (
	"slices"
	"strings"
)

// builder collects files while the sites are written.
type builder struct {
	seed  uint64
	ads   map[string][]string
	files []builtFile
}

type builtFile struct {
	File
	documents []Document
}

// rng returns the random stream of that name.
func (b *builder) rng(name string) *rng { return newRNG(b.seed, name) }

// file adds a file and the documents in it.
func (b *builder) file(path string, data []byte, docs ...Document) {
	b.files = append(b.files, builtFile{File{path, data}, docs})
}

// page adds an HTML file under the folder of its site. The path is its key.
func (b *builder) page(site string, p page, doc Document) error {
	data, err := p.encodedHTML()
	if err != nil {
		return err
	}
	doc.Key = site + p.Path
	b.file(doc.Key, data, doc)
	return nil
}

// crawl puts the files into the order of a sorted walk, which compares names
// and not paths: "a/x" comes before "a.b". Documents without an
// expectation get New or Duplicate from that order.
func (b *builder) crawl() *Crawl {
	slices.SortFunc(b.files, func(x, y builtFile) int {
		return slices.Compare(strings.Split(x.Path, "/"), strings.Split(y.Path, "/"))
	})
	c := new(Crawl)
	for _, f := range b.files {
		c.Files = append(c.Files, f.File)
		c.Documents = append(c.Documents, f.documents...)
	}
	seen := make(map[string]bool)
	for i := range c.Documents {
		d := &c.Documents[i]
		if d.Expect != "" {
			continue
		}
		d.Expect = New
		if seen[d.Group] {
			d.Expect = Duplicate
		}
		seen[d.Group] = true
	}
	return c
}
