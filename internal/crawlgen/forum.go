package crawlgen

import "fmt"

var forumChrome = &chrome{
	Name:   "The Mending Forum",
	Menu:   []link{{"index", "Topics"}, {"new", "New questions"}, {"search", "Search"}, {"login", "Log in"}},
	Footer: "Answers are given by members in their free time and without any guarantee.",
}

func forumPage(b *builder, text string) (page, error) {
	a, err := readArticle("forum/" + text)
	if err != nil {
		return page{}, err
	}
	p := page{layout: "forum", Chrome: forumChrome, Ad: b.ads["en"][3]}
	return p.set(a), nil
}

// forumSite has the pages on which a crawler wastes its time: one text under
// many addresses, and pages with hardly any text.
func forumSite(b *builder) error {
	const site = "forum.example"
	err := b.add("", []variation{
		{"chain", site, "/thread-%s.html", unchanged, "original"},
		{"chain", site, "/thread-%s-highlight.html", inSession, "session id in every link"},
		{"kettle", site, "/thread-%s.html", unchanged, "original"},
		{"rules", site, "/%s.html", unchanged, "original, under 50 words"},
		{"rules", site, "/help/%s.html", inSession, "under 50 words, session id in every link"},
	}, forumPage)
	if err != nil {
		return err
	}
	for _, missing := range []string{"thread-lamp", "thread-old", "member-4711"} {
		p, err := forumPage(b, "soft404")
		if err != nil {
			return err
		}
		p.Path = fmt.Sprintf("/%s.html", missing)
		p.Session = b.rng(missing).hex(16)
		if err := b.page(site, p, Document{Group: "soft404", Note: "soft 404: sent with status 200 for any address"}); err != nil {
			return err
		}
	}
	empty := page{layout: "empty", Path: "/app.html"}
	if err := b.page(site, empty, Document{Group: "-", Expect: NoPage, Note: "empty page: scripts and no text"}); err != nil {
		return err
	}
	b.file(site+"/zero.html", nil, Document{Key: site + "/zero.html", Group: "-", Expect: NoPage, Note: "empty file"})
	return nil
}
