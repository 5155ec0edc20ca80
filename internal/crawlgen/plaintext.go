package crawlgen

// plainTextSite has text files: the same text broken into lines of another
// width, and with one word changed.
func plainTextSite(b *builder) error {
	const site = "library.example.org"
	for _, f := range []struct {
		slug, path string
		width      int
		old, new   string
		expect     Expect
		note       string
	}{
		{"bread", "/bread.txt", 72, "", "", Together, "original"},
		{"bread", "/narrow/bread.txt", 48, "", "", Together, "other line breaks"},
		{"knots", "/knots.txt", 72, "", "", Together, "original"},
		{"knots", "/knots-2.txt", 72, "Practise each of them fifty times", "Practise each of them sixty times", Together, "one word corrected"},
		{"lighthouse", "/lighthouse.txt", 72, "", "", Apart, "original"},
	} {
		a, err := readArticle("library/" + f.slug)
		if err != nil {
			return err
		}
		if f.old != "" {
			if a, err = a.edited(f.old, f.new); err != nil {
				return err
			}
		}
		b.file(site+f.path, []byte(a.plain(f.width)), Document{Group: f.slug, Expect: f.expect, Note: f.note})
	}
	return nil
}
