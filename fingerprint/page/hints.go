package page

import "strings"

// hint is what an element's name, role, class and id say of its part in a page.
type hint uint8

const (
	framing    hint = 1 << iota // by its name or role it frames the main text
	named                       // by its class or id it does
	control                     // a part of a form
	pageHeader                  // a header, which may be the page's or the article's
	mainPart                    // main
	article
)

func hintsOf(tag *element, a *attributes) hint {
	h := tag.hint
	if a.role != nil {
		h |= roles[string(a.role)]
	}
	if a.class != nil && framingName(a.class) || a.id != nil && framingName(a.id) {
		h |= named
	}
	return h
}

var elementHints = map[string]hint{
	"nav": framing, "aside": framing, "footer": framing, "header": pageHeader, "main": mainPart, "article": article,
	"button": control, "select": control, "textarea": control, "legend": control, "dialog": framing, "menu": framing, "search": framing,
}

var roles = map[string]hint{
	"navigation": framing, "banner": framing, "contentinfo": framing, "complementary": framing, "search": framing,
	"dialog": framing, "alertdialog": framing, "alert": framing, "menu": framing, "menubar": framing, "toolbar": framing,
	"tooltip": framing, "tablist": framing, "button": control, "listbox": control, "main": mainPart, "article": article,
}

// framingName says whether a class or id attribute has a word that designers
// use for what is not the main text. Words end where letters do, and before a
// capital.
func framingName(value []byte) bool {
	for i := 0; i < len(value); {
		if tagBytes[value[i]]&letter == 0 {
			i++
			continue
		}
		start := i
		var word [16]byte
		n := 0
		for i < len(value) && tagBytes[value[i]]&letter != 0 {
			c := value[i]
			if c < 'a' && i > start && value[i-1] >= 'a' {
				break
			}
			if n < len(word) {
				word[n] = c | 0x20
			}
			n++
			i++
		}
		if n <= len(word) && framingWords[string(word[:n])] {
			return true
		}
	}
	return false
}

var framingWords = words("nav navbar navigation menu submenu megamenu footer foot sidebar side aside breadcrumb breadcrumbs crumbs " +
	"cookie cookies consent gdpr banner advert advertisement ads ad sponsor sponsored promo promotion popup modal overlay lightbox " +
	"share sharing social related recommended recommendations comment comments disqus respond newsletter subscribe subscription signup login " +
	"pagination pager paging toolbar widget widgets masthead topbar skip dropdown tooltip offcanvas drawer pagefoot tags tagcloud " +
	"print rating byline outbrain taboola")

func words(list string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		m[word] = true
	}
	return m
}
