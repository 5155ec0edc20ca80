package page

import (
	"math/bits"
	"strings"
)

// class is what the extractor needs to know about an element.
type class uint16

const (
	block      class = 1 << iota // begins and ends a line
	left                         // left out of the text with all it holds
	raw                          // its content is text up to its end tag
	references                   // raw, but with character references
	void                         // has no end tag and no content
	optional                     // its end tag may be left out
	container                    // holds elements whose end tags may be left out
	shown                        // never taken as hidden
	tabular                      // what tables are made of
	heading
)

// element is a kind of element, known or not.
type element struct {
	name  string // of the elements below, else empty
	key   uint64 // tells elements apart, see nextKey
	class class
	kind  uint8 // tells block elements apart; 0 for those that are not listed
	hint  hint  // for the main text
}

// nextKey adds a byte, in lower case, to the key of a name. Up to 8 bytes the
// key is the name.
func nextKey(key uint64, c byte) uint64 { return bits.RotateLeft64(key, 8) ^ uint64(c) }

// elementOf looks an element up. One that is not listed is inline and can be
// hidden; its key is kept so that its end tag is known.
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

// elementBits makes the table sparse.
const elementBits = 10

var elements, impliedEnds = table([]struct {
	class class
	names string
}{
	{block, "address article aside blockquote button center details dialog dir div fieldset figcaption figure footer form frameset " +
		"header hgroup legend listing main nav pre search section summary"},
	{block | heading, "h1 h2 h3 h4 h5 h6"},
	{block | raw, "plaintext xmp"},
	{block | raw | references, "textarea"},
	{block | container, "dl menu ol select ul"},
	{block | container | tabular, "table"},
	{block | tabular, "caption tbody tfoot thead"},
	{block | optional, "dd dt li optgroup option p"},
	{block | optional | tabular, "td th tr"},
	{block | void, "br hr"},
	{block | shown, "body html"},
	{left | raw, "iframe noembed noframes noscript script style"},
	{left | raw | references, "title"},
	{left, "annotation audio canvas datalist svg template video"},
	{left | optional, "rp"},
	{void, "area base basefont bgsound col embed frame img input link meta param source track wbr"},
	{0, "a abbr b bdi bdo big cite code del dfn em font head i ins kbd label mark math nobr object q s samp small span strike strong sub " +
		"sup time tt u var"},
})

// maxKinds is more than there are block elements in the table.
const maxKinds = 64

// table makes the table of elements. It also gives, by kind, the kinds of
// elements that a start tag ends though their end tags are left out.
func table(byClass []struct {
	class class
	names string
}) (t [1 << elementBits]element, implied [maxKinds][]uint8) {
	var blocks []element
	for _, group := range byClass {
		if group.class&void != 0 {
			group.class |= shown // hiding it hides no text
		}
		for name := range strings.FieldsSeq(group.names) {
			e := element{name: name, class: group.class, hint: elementHints[name]}
			for i := range len(name) {
				e.key = nextKey(e.key, name[i])
			}
			if e.class&block != 0 {
				e.kind = uint8(len(blocks) + 1)
				blocks = append(blocks, e)
			}
			i := slotOf(e.key)
			for t[i].name != "" {
				i = (i + 1) % len(t)
			}
			t[i] = e
		}
	}
	for _, ended := range blocks {
		for _, tag := range blocks {
			if ended.class&optional != 0 && ended.impliedBy(tag) {
				implied[tag.kind] = append(implied[tag.kind], ended.kind)
			}
		}
	}
	return t, implied
}
