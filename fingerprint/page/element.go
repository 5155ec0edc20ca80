package page

import (
	"math/bits"
	"slices"
	"strings"
)

// class is what the extractor needs to know about an element.
type class uint16

const (
	block       class = 1 << iota // begins and ends a line
	omitted                       // left out of the text with its content
	raw                           // its content is text up to its end tag
	references                    // raw, but with character references
	void                          // has no end tag and no content
	container                     // contains elements whose end tags are optional
	scope                         // an end tag in it ends nothing outside of it
	tabular                       // a part of a table
	minor                         // not a frame of the main text without a hint
	shown                         // never a hidden element
	heading                       // h1 to h6
	foreign                       // svg: its content is not HTML
	integration                   // in svg, its content is HTML
	breakout                      // a start tag that ends an svg element
)

// element describes the elements of one name.
type element struct {
	name  string // empty if the element is not in the table
	key   uint64 // distinguishes all elements, see nextKey
	class class
	kind  uint8 // distinguishes the elements that matter while they are open; 0 for all others
	hint  hint  // for the main text
}

// nextKey adds a byte, in lower case, to the key of a name. The key of a name of up to
// 8 bytes is the name.
func nextKey(key uint64, c byte) uint64 { return bits.RotateLeft64(key, 8) ^ uint64(c) }

// elementOf returns the element of a key and a name. An element that is not in the table
// is inline and can be hidden. The scanner recognizes its end tag by its key.
func elementOf(key uint64, name []byte) element {
	for i := slotOf(key); ; i = (i + 1) % len(elements) {
		e := &elements[i]
		if e.name == "" {
			return element{key: key}
		}
		if e.key == key && (len(name) <= 8 || len(name) == len(e.name) && isName(name, e.name)) {
			return *e
		}
	}
}

func slotOf(key uint64) int { return int(key * 0x9e3779b97f4a7c15 >> (64 - elementBits)) }

// elementBits is the binary logarithm of the size of the table. The table is sparse.
const elementBits = 10

// maxKinds is larger than the number of kinds in the table.
const maxKinds = 80

var elements, kinds, impliedEnds = table([]struct {
	class class
	names string
}{
	{block, "address article aside button details dialog dir fieldset figcaption figure footer " +
		"form frameset " +
		"header hgroup legend main nav search section summary"},
	{block | breakout, "blockquote center div listing pre"},
	{block | heading | minor | breakout, "h1 h2 h3 h4 h5 h6"},
	{block | raw, "plaintext xmp"},
	{block | raw | references, "textarea"},
	{block | container, "select"},
	{block | container | breakout, "dl menu ol ul"},
	{block | container | tabular | scope | breakout, "table"},
	{block | tabular, "tbody tfoot thead"},
	{block | tabular | scope, "caption"},
	{block | minor, "optgroup option"},
	{block | minor | breakout, "dd dt li p"},
	{block | minor | tabular, "tr"},
	{block | minor | tabular | scope, "td th"},
	{block | void | breakout, "br hr"},
	{block | shown | breakout, "body"},
	{block | shown, "html"},
	{omitted | raw, "iframe noembed noframes noscript script style"},
	{omitted | raw | references | container | scope | integration, "title"},
	{omitted | foreign, "svg"},
	{omitted | container | scope, "template"},
	{omitted, "annotation audio canvas datalist rp video"},
	{minor, "rt"},
	{container | breakout, "ruby"},
	{container | scope | integration, "desc foreignobject"},
	{void, "area base basefont bgsound col frame input link param source track wbr"},
	{void | breakout, "embed img meta"},
	{0, "a abbr bdi bdo cite del dfn font ins kbd label map mark math object q time"},
	{breakout, "b big code em head i nobr s samp small span strike strong sub sup tt u var"},
})

// endedBy lists the start tags that end an element without an end tag (HTML standard, section
// 13.1.2.4). The start tag of each block except br ends a p element.
var endedBy = map[string]string{
	"li": "li", "dt": "dt dd", "dd": "dt dd", "rt": "rp rt", "rp": "rp rt",
	"option": "option optgroup", "optgroup": "optgroup",
	"td": "td th tr tbody tfoot", "th": "td th tr tbody tfoot", "tr": "tr tbody tfoot",
}

var (
	tableKind, templateKind, h1Kind = kinds["table"], kinds["template"], kinds["h1"]
	buttonKind, selectKind          = kinds["button"], kinds["select"]
)

// table returns the hash table of elements, the kinds by name, and, for the kind of each start tag,
// the kinds of the elements that it ends.
func table(byClass []struct {
	class class
	names string
}) (t [1 << elementBits]element, kinds map[string]uint8, implied [maxKinds][]uint8) {
	kinds = map[string]uint8{}
	var blocks []uint8
	for _, group := range byClass {
		if group.class&void != 0 {
			group.class |= shown // hiding it hides no text
		}
		for name := range strings.FieldsSeq(group.names) {
			e := element{name: name, class: group.class, hint: elementHints[name]}
			for i := range len(name) {
				e.key = nextKey(e.key, name[i])
			}
			if e.class&(block|omitted|container|minor) != 0 {
				e.kind = uint8(len(kinds) + 1)
				kinds[name] = e.kind
			}
			if e.class&block != 0 && name != "br" {
				blocks = append(blocks, e.kind)
			}
			i := slotOf(e.key)
			for t[i].name != "" {
				i = (i + 1) % len(t)
			}
			t[i] = e
		}
	}
	for ended, names := range endedBy {
		for name := range strings.FieldsSeq(names) {
			implied[kinds[name]] = append(implied[kinds[name]], kinds[ended])
		}
	}
	for _, kind := range blocks {
		implied[kind] = append(implied[kind], kinds["p"])
	}
	for _, ended := range implied {
		slices.Sort(ended)
	}
	return t, kinds, implied
}
