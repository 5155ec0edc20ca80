package crawlgen

var gazetteChrome = &chrome{
	Name: "The Marrowby Gazette",
	Menu: []link{
		{"town", "Town and county"}, {"river", "River and harbour"}, {"schools", "Schools"},
		{"letters", "Letters"}, {"weather", "Weather"}, {"notices", "Public notices"},
	},
	Counter: "This article has been opened %d times.",
	Footer: "Printed and published at the Old Rope Works, Marrowby. Letters to the editor reach us by post or by the box " +
		"beside the gate. The Gazette appears on Tuesdays and Fridays.",
}

var gazetteDates = map[string]string{
	"bridge": "Friday, 4 September 2026", "ferry": "Tuesday, 6 October 2026", "flood": "Friday, 27 February 2026",
	"garden": "Tuesday, 30 June 2026", "library": "Friday, 12 June 2026", "market": "Tuesday, 24 November 2026",
	"observatory": "Tuesday, 21 April 2026", "tram": "Friday, 17 July 2026",
}

// gazettePage returns a news page as it was first published.
func gazettePage(b *builder, slug string) (page, error) {
	a, err := readArticle("gazette/" + slug)
	if err != nil {
		return page{}, err
	}
	r := b.rng("gazette/" + slug)
	p := page{
		layout: "news",
		Chrome: gazetteChrome,
		Path:   "/news/" + slug + ".html",
		Date:   gazetteDates[slug],
		Ad:     b.ads["en"][r.intn(len(b.ads["en"]))],
		Views:  r.between(120, 9800),
	}
	return p.set(a), nil
}

func gazetteSite(b *builder) error {
	const (
		site   = "gazette.example"
		mirror = "gazette-mirror.example"
		news   = "/news/%s.html"
		banner = "Mirror of gazette.example"
	)
	var all []variation
	for _, slug := range []string{"bridge", "ferry", "flood", "garden", "library", "market", "observatory", "tram"} {
		all = append(all, variation{slug, site, news, unchanged, "original"})
	}
	all = append(all,
		variation{"ferry", site, "/later/%s.html", recrawled("Friday, 9 October 2026"), "later crawl: date, count and advertisement"},
		variation{"market", site, "/later/%s.html", recrawled("Friday, 27 November 2026"), "later crawl: date, count and advertisement"},
		variation{"garden", site, "/later/%s.html", recrawled("Friday, 3 July 2026"), "later crawl: date, count and advertisement, and one word against the copy in the archive"},
		variation{"tram", site, "/later/%s.html", recrawled("Tuesday, 21 July 2026"), "later crawl: date, count and advertisement"},
		variation{"bridge", site, "/visit/1/%s.html", inSession, "session id in every link"},
		variation{"bridge", site, "/visit/2/%s.html", inSession, "session id in every link"},
		variation{"library", site, "/visit/1/%s.html", inSession, "session id in every link"},
		variation{"tram", site, "/print/%s.html", printed, "print version: the menu, date, advertisement and footer are gone"},
		variation{"flood", site, "/corrected/%s.html", corrected("fourteen million", "fifteen million"), "one word corrected"},
		variation{"observatory", site, "/corrected/%s.html", corrected("some seventy volunteers", "some ninety volunteers"), "one word corrected"},
		variation{"bridge", mirror, news, mirrored(banner), "mirror with a line on top"},
		variation{"ferry", mirror, news, mirrored(banner), "mirror with a line on top"},
		variation{"library", mirror, news, unchanged, "exact mirror"},
		variation{"market", mirror, news, mirrored(banner), "mirror with a line on top"},
		variation{"observatory", mirror, news, mirrored(banner), "mirror with a line on top"},
	)
	return b.add("", all, gazettePage)
}

var postChrome = &chrome{
	Name:    "Valley Post",
	Menu:    []link{{"news", "News"}, {"farms", "Farms"}, {"walks", "Walks"}, {"events", "What is on"}},
	Counter: "%d readers",
	Footer:  "Valley Post, from the upper dale. Your parish, your paper.",
}

func postSite(b *builder) error {
	original := func(b *builder, slug string) (page, error) {
		a, err := readArticle("post/" + slug)
		if err != nil {
			return page{}, err
		}
		r := b.rng("post/" + slug)
		p := page{
			layout: "news",
			Chrome: postChrome,
			Date:   "1 September 2026",
			Views:  r.between(30, 900),
		}
		return p.set(a), nil
	}
	reprinted := func(b *builder, slug string) (page, error) {
		p, err := gazettePage(b, slug)
		p.Chrome = postChrome
		p.Date = "28 April 2026"
		p.Ad = ""
		return p, err
	}
	const site = "valley-post.example"
	err := b.add("", []variation{
		{"cheese", site, "/%s.html", unchanged, "original"},
		{"drystone", site, "/%s.html", unchanged, "original"},
		{"drystone", site, "/amp/%s.html", corrected("about fifteen winters", "about twelve winters"), "one word corrected"},
	}, original)
	if err != nil {
		return err
	}
	return b.add("", []variation{
		{"observatory", site, "/%s.html", unchanged, "reprinted from gazette.example: another menu and footer round the same text"},
	}, reprinted)
}
