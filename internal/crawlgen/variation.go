package crawlgen

import "fmt"

// otherAd returns the advertisement after the one that the page shows.
func (b *builder) otherAd(lang, shown string) string {
	ads := b.ads[lang]
	for i, ad := range ads {
		if ad == shown {
			return ads[(i+1)%len(ads)]
		}
	}
	return ads[0]
}

// variation is another copy of a page that a crawl meets.
type variation struct {
	slug   string
	site   string
	path   string // with one %s for the slug
	change func(b *builder, p page) (page, error)
	note   string
}

// add writes copies of pages that original makes. The expectation is the same
// for all: Missed, or "" for New and Duplicate, which follow from the order.
func (b *builder) add(expect Expect, variations []variation, original func(*builder, string) (page, error)) error {
	for _, v := range variations {
		p, err := original(b, v.slug)
		if err != nil {
			return err
		}
		p.Path = fmt.Sprintf(v.path, v.slug)
		if p, err = v.change(b, p); err != nil {
			return err
		}
		if err := b.page(v.site, p, Document{Group: v.slug, Expect: expect, Note: v.note}); err != nil {
			return err
		}
	}
	return nil
}

func unchanged(_ *builder, p page) (page, error) { return p, nil }

// recrawled is the same page on a later day: another date on top, another
// count, another advertisement.
func recrawled(date string) func(*builder, page) (page, error) {
	return func(b *builder, p page) (page, error) {
		p.Date = date
		p.Ad = b.otherAd("en", p.Ad)
		p.Views += b.rng("recrawl"+p.Path).between(5, 4000)
		return p, nil
	}
}

func inSession(b *builder, p page) (page, error) {
	p.Session = b.rng("session" + p.Path).hex(32)
	return p, nil
}

func mirrored(banner string) func(*builder, page) (page, error) {
	return func(_ *builder, p page) (page, error) {
		p.Banner = banner
		return p, nil
	}
}

// corrected replaces one phrase of the text.
func corrected(old, new string) func(*builder, page) (page, error) {
	return func(_ *builder, p page) (page, error) {
		a, err := article{title: p.Title, body: p.Body}.edited(old, new)
		return p.set(a), err
	}
}

// printed has the text alone, without menu, date, advertisement and footer.
func printed(_ *builder, p page) (page, error) {
	p.layout = "print"
	return p, nil
}
