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
	foreign     // svg: its content is not HTML
	integration // but that of these is
	breakout    // a start tag that ends an svg element
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
	{block, "address article aside button details dialog dir fieldset figcaption figure footer form frameset " +
		"header hgroup legend main nav search section summary"},
	{block | breakout, "blockquote center div listing pre"},
	{block | heading | breakout, "h1 h2 h3 h4 h5 h6"},
	{block | raw, "plaintext xmp"},
	{block | raw | references, "textarea"},
	{block | container, "select"},
	{block | container | breakout, "dl menu ol ul"},
	{block | container | tabular | breakout, "table"},
	{block | tabular, "caption tbody tfoot thead"},
	{block | optional, "optgroup option"},
	{block | optional | breakout, "dd dt li p"},
	{block | optional | tabular, "td th tr"},
	{block | void | breakout, "br hr"},
	{block | shown | breakout, "body"},
	{block | shown, "html"},
	{left | raw, "iframe noembed noframes noscript script style"},
	{left | raw | references | integration, "title"},
	{left | foreign, "svg"},
	{left, "annotation audio canvas datalist template video"},
	{left | optional, "rp"},
	{container | breakout, "ruby"},
	{integration, "desc foreignobject"},
	{void, "area base basefont bgsound col frame input link param source track wbr"},
	{void | breakout, "embed img meta"},
	{0, "a abbr bdi bdo cite del dfn font ins kbd label map mark math object q time"},
	{breakout, "b big code em head i nobr s samp small span strike strong sub sup tt u var"},
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
			if ended.class&optional != 0 && ended.impliedBy(&tag) {
				implied[tag.kind] = append(implied[tag.kind], ended.kind)
			}
		}
	}
	return t, implied
}
