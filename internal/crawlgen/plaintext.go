package crawlgen

// plainTextSite has text files: the same text broken into lines of another
// width, and with one word changed.
func plainTextSite(b *builder) error {
	const site = "library.example.org"
	for _, f := range []struct {
		slug, path string
		width      int
		old, new   string
		note       string
	}{
		{"bread", "/bread.txt", 72, "", "", "original"},
		{"bread", "/narrow/bread.txt", 48, "", "", "other line breaks"},
		{"knots", "/knots.txt", 72, "", "", "original"},
		{"knots", "/knots-2.txt", 72, "Practise each of them fifty times", "Practise each of them sixty times", "one word corrected"},
		{"lighthouse", "/lighthouse.txt", 72, "", "", "original"},
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
		b.file(site+f.path, []byte(a.plain(f.width)), Document{Key: site + f.path, Group: f.slug, Note: f.note})
	}
	return nil
}
