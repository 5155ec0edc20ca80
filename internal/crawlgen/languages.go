package crawlgen

// A site in another language, with its chrome.
type languageSite struct {
	lang, dir string
	site      string
	chrome    *chrome
	dates     [2]string // of the first and of a later crawl
}

var russian = languageSite{
	lang: "ru", site: "ru.example",
	chrome: &chrome{
		Name:    "Вестник Заречья",
		Menu:    []link{{"news", "Новости"}, {"town", "Город"}, {"nature", "Природа"}, {"archive", "Архив"}},
		Counter: "Просмотров: %d",
		Footer:  "Газета выходит по средам. При перепечатке просим указывать источник.",
	},
	dates: [2]string{"7 октября 2026 года", "14 октября 2026 года"},
}

var arabic = languageSite{
	lang: "ar", dir: "rtl", site: "ar.example",
	chrome: &chrome{
		Name:    "صحيفة الوادي",
		Menu:    []link{{"news", "الأخبار"}, {"culture", "الثقافة"}, {"villages", "القرى"}, {"archive", "الأرشيف"}},
		Counter: "عدد القراءات %d",
		Footer:  "تصدر الصحيفة كل يوم خميس وترحب برسائل القراء.",
	},
	dates: [2]string{"الجمعة 9 أكتوبر 2026", "الجمعة 16 أكتوبر 2026"},
}

var chinese = languageSite{
	lang: "zh", site: "zh.example",
	chrome: &chrome{
		Name:    "河岸周报",
		Menu:    []link{{"news", "新闻"}, {"crafts", "手艺"}, {"nature", "自然"}, {"archive", "往期"}},
		Counter: "阅读 %d 次",
		Footer:  "本报每逢星期三出版，欢迎来信。",
	},
	dates: [2]string{"2026年10月7日", "2026年10月14日"},
}

func (s languageSite) original(b *builder, slug string) (page, error) {
	a, err := readArticle(s.lang + "/" + slug)
	if err != nil {
		return page{}, err
	}
	r := b.rng(s.lang + slug)
	p := page{
		layout: "news",
		Chrome: s.chrome,
		Lang:   s.lang,
		Dir:    s.dir,
		Date:   s.dates[0],
		Ad:     b.ads[s.lang][r.intn(len(b.ads[s.lang]))],
		Views:  r.between(40, 3000),
	}
	return p.set(a), nil
}

func (s languageSite) later(b *builder, p page) (page, error) {
	p.Date = s.dates[1]
	p.Ad = b.otherAd(s.lang, p.Ad)
	p.Views += b.rng("later"+p.Path+s.lang).between(3, 900)
	return p, nil
}

func (s languageSite) inCharset(charset string) func(*builder, page) (page, error) {
	return func(_ *builder, p page) (page, error) {
		p.Charset = charset
		return p, nil
	}
}

func languageSites(b *builder) error {
	const (
		page  = "/%s.html"
		later = "/later/%s.html"
	)
	for _, set := range []struct {
		site       languageSite
		variations []variation
	}{
		{russian, []variation{
			{"museum", russian.site, page, unchanged, "original"},
			{"river", russian.site, page, unchanged, "original"},
			{"bees", russian.site, page, unchanged, "original"},
			{"museum", russian.site, later, russian.later, "later crawl: date, count and advertisement"},
			{"museum", "ru-mirror.example", page, russian.inCharset("windows-1251"), "the same text in windows-1251"},
			{"river", "ru-mirror.example", page, corrected("одиннадцать километров", "двенадцать километров"), "one word corrected"},
		}},
		{arabic, []variation{
			{"palms", arabic.site, page, unchanged, "original"},
			{"books", arabic.site, page, unchanged, "original"},
			{"sea", arabic.site, page, unchanged, "original"},
			{"palms", arabic.site, later, arabic.later, "later crawl: date, count and advertisement"},
			{"books", "ar-mirror.example", page, arabic.inCharset("windows-1256"), "the same text in windows-1256"},
			{"books", arabic.site, "/visit/%s.html", inSession, "session id in every link"},
		}},
		{chinese, []variation{
			{"teahouse", chinese.site, page, unchanged, "original"},
			{"cranes", chinese.site, page, unchanged, "original"},
			{"paper", chinese.site, page, unchanged, "original"},
			{"teahouse", chinese.site, later, chinese.later, "later crawl: date, count and advertisement"},
			{"teahouse", "zh-mirror.example", page, chinese.inCharset("gb18030"), "the same text in GB 18030"},
			{"cranes", "zh-mirror.example", page, corrected("五十七只里", "五十八只里"), "one character corrected"},
		}},
	} {
		if err := b.add("", set.variations, set.site.original); err != nil {
			return err
		}
	}
	return nil
}
