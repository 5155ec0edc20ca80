package crawlgen

var manualChrome = &chrome{
	Name: "Tallyhouse manual",
	Menu: []link{
		{"install", "Installing"}, {"sensors", "Sensors"}, {"configure", "Configuration"},
		{"export", "Reading and exporting"}, {"trouble", "When the figures look wrong"},
	},
	Footer: "This manual describes Tallyhouse 2.",
}

func manualSite(b *builder) error {
	original := func(_ *builder, slug string) (page, error) {
		a, err := readArticle("manual/" + slug)
		if err != nil {
			return page{}, err
		}
		p := page{layout: "manual", Chrome: manualChrome, Date: "Last changed in May 2025."}
		return p.set(a), nil
	}
	rebuilt := func(change func(*builder, page) (page, error)) func(*builder, page) (page, error) {
		return func(b *builder, p page) (page, error) {
			p.Date = "Last changed in March 2026."
			return change(b, p)
		}
	}
	const site = "manual.example.org"
	return b.add("", []variation{
		{"configure", site, "/v2.0/%s.html", unchanged, "original"},
		{"export", site, "/v2.0/%s.html", unchanged, "original"},
		{"install", site, "/v2.0/%s.html", unchanged, "original"},
		{"sensors", site, "/v2.0/%s.html", unchanged, "original"},
		{"trouble", site, "/v2.0/%s.html", unchanged, "original"},
		{"configure", site, "/v2.1/%s.html", rebuilt(corrected("below three", "below four")), "next version: date and one word"},
		{"export", site, "/v2.1/%s.html", rebuilt(corrected("eleven kilobytes", "twelve kilobytes")), "next version: date and one word"},
		{"install", site, "/v2.1/%s.html", rebuilt(corrected("two megabytes", "three megabytes")), "next version: date and one word"},
		{"trouble", site, "/v2.1/%s.html", rebuilt(unchanged), "next version: date"},
	}, original)
}
