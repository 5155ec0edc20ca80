package page

import "strings"

// hint describes the role of an element in a page, by its name, role, class and id.
type hint uint8

const (
	framing    hint = 1 << iota // its name or role marks a frame of the main text
	structural                  // its class or id marks a frame
	topical                     // its class marks a frame, unless it is a section about this topic
	control                     // a part of a form
	pageHeader                  // a header of the page or of an article
	mainPart                    // a main element
	article
	consent // a consent dialog
)

func hintsOf(tag *element, a *attributes) hint {
	h := tag.hint
	if a.role != nil {
		h |= roles[string(a.role)]
	}
	if tag.class&heading != 0 {
		return h // the class and id of a heading name its topic
	}
	if a.class != nil {
		h |= nameHint(a.class)
	}
	if a.id != nil {
		h |= nameHint(a.id) &^ topical // the id of a section often names its topic
	}
	return h
}

var elementHints = map[string]hint{
	"nav": framing, "aside": framing, "footer": framing, "header": pageHeader, "main": mainPart,
	"article": article,
	"button":  control, "select": control, "textarea": control, "legend": control,
	"dialog": framing,
	"menu":   framing, "search": framing,
}

var roles = map[string]hint{
	"navigation": framing, "banner": framing, "contentinfo": framing, "complementary": framing,
	"search": framing,
	"dialog": framing, "alertdialog": framing, "alert": framing, "menu": framing,
	"menubar": framing, "toolbar": framing,
	"tooltip": framing, "tablist": framing, "button": control, "listbox": control, "main": mainPart,
	"article": article,
}

// nameHint looks in a class or id attribute for words that designers use for the parts
// around the main text. A word is a run of letters. It ends before a capital letter.
func nameHint(value []byte) (h hint) {
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
		if n <= len(word) && framingLengths[word[0]]>>n&1 != 0 {
			h |= framingWords[string(word[:n])]
		}
	}
	return h
}

var framingWords = words(map[hint]string{
	structural: "nav navbar navigation menu submenu megamenu footer sidebar breadcrumb " +
		"breadcrumbs crumbs banner popup modal overlay lightbox " +
		"pagination pager toolbar widget widgets masthead topbar dropdown tooltip offcanvas " +
		"drawer tagcloud outbrain taboola disqus",
	topical: "foot side aside advert advertisement ads ad sponsor sponsored promo promotion " +
		"share sharing social related " +
		"recommended recommendations comment comments respond newsletter subscribe subscription " +
		"signup login paging skip tags print rating byline",
	structural | consent: "onetrust cybot",
	topical | consent:    "cookie cookies consent gdpr",
	consent:              "cookiebot cookielaw didomi usercentrics ccpa",
})

// framingLengths has a bit per length of the framing words that begin with a letter. It rules out
// most words without a look-up in the map.
var framingLengths = func() (lengths [256]uint32) {
	for word := range framingWords {
		lengths[word[0]] |= 1 << len(word)
	}
	return lengths
}()

func words(lists map[hint]string) map[string]hint {
	m := map[string]hint{}
	for h, list := range lists {
		for word := range strings.FieldsSeq(list) {
			m[word] = h
		}
	}
	return m
}
