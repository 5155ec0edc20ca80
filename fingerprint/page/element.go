package page

// class is what the extractor needs to know about an element.
type class uint8

const (
	block     class = 1 << iota // begins and ends a line
	left                        // left out of the text with all it holds
	raw                         // the tokenizer reads its content as text up to its end tag
	void                        // has no end tag and no content
	optional                    // its end tag may be left out
	container                   // holds elements whose end tags may be left out
	shown                       // never taken as hidden
	frame                       // not main text
)

type element struct {
	name  string // a constant for the elements below, else empty
	class class
}

// elementOf looks an element up by its lower-case name. An element that is
// not listed is inline and can be hidden; its name is kept so that its end
// tag is known.
func elementOf(name []byte) element {
	if e, ok := elements[string(name)]; ok {
		return e
	}
	return element{name: string(name)}
}

var elements = table(map[class][]string{
	block: {
		"address", "article", "blockquote", "button", "caption", "center", "details", "dialog", "dir",
		"div", "fieldset", "figcaption", "figure", "form", "frameset", "h1", "h2", "h3", "h4",
		"h5", "h6", "header", "hgroup", "legend", "listing", "main", "plaintext", "pre",
		"search", "section", "summary", "tbody", "textarea", "tfoot", "thead", "xmp",
	},
	block | frame:     {"aside", "footer", "nav"},
	block | container: {"dl", "menu", "ol", "select", "table", "ul"},
	block | optional:  {"dd", "dt", "li", "optgroup", "option", "p", "td", "th", "tr"},
	block | void:      {"br", "hr"},
	block | shown:     {"body", "html"},
	left | raw:        {"iframe", "noembed", "noframes", "noscript", "script", "style", "title"},
	left:              {"audio", "canvas", "datalist", "svg", "template", "video"},
	void: {
		"area", "base", "basefont", "bgsound", "col", "embed", "frame", "img", "input", "link", "meta", "param",
		"source", "track", "wbr",
	},
	0: {
		"a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "head", "i", "ins", "kbd",
		"label", "mark", "math", "nobr", "object", "q", "s", "samp", "small", "span", "strike", "strong", "sub",
		"sup", "time", "tt", "u", "var",
	},
})

func table(byClass map[class][]string) map[string]element {
	m := make(map[string]element)
	for class, names := range byClass {
		for _, name := range names {
			if class&void != 0 {
				class |= shown // hiding it hides no text
			}
			m[name] = element{name, class}
		}
	}
	return m
}
