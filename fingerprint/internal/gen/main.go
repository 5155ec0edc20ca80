// Gen writes classes.bin from the Unicode tables of the Go release and of
// golang.org/x/text: "go generate ./fingerprint". Its output is part of the disk
// format: a new Unicode version is a new version of the Analyzer's name.
package main

import (
	"encoding/binary"
	"log"
	"os"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// unicodeVersion is what the tables are frozen at.
const unicodeVersion = "15.0.0"

// The classes, in the order of the constants in fingerprint/classes.go.
const (
	separator = iota
	ignorable
	letter
	letterComposing
	letterMaybe
	cased
	single
	singleComposing
	unknown
	slow
	slowMark
	maybeMark
	markStarter
	markComposing
	markOrdered = 32
)

// tableEnd is the end of the table; classOf in fingerprint/classes.go knows the rest.
const tableEnd = 0x20000

var tailored = map[rune]int{
	'\u0640': ignorable, // Arabic tatweel only stretches a word
	'\u07FA': ignorable, // NKo lajanyalan, the same
	'\u02BB': separator, // apostrophes that are letters: most keyboards give ' or U+2019
	'\u02BC': separator,
	'\u0E33': single, // Thai and Lao sara am, common and one keystroke: see normalize.go
	'\u0EB3': single,
	'\u0307': slowMark, // goes after an i, however far
	'\u0E4D': slowMark,
	'\u0ECD': slowMark,
}

// optional are the points that most texts leave out: Hebrew points and accents,
// Arabic vowel signs and marks of recitation. Not among them are the Arabic signs
// that make other letters, such as hamza above.
var optional = &unicode.RangeTable{R16: []unicode.Range16{
	{0x0591, 0x05BD, 1}, {0x05BF, 0x05BF, 1}, {0x05C1, 0x05C2, 1}, {0x05C4, 0x05C5, 1}, {0x05C7, 0x05C7, 1},
	{0x064B, 0x0652, 1}, {0x0670, 0x0670, 1}, {0x06D6, 0x06DC, 1}, {0x06DF, 0x06E4, 1}, {0x06E7, 0x06E8, 1}, {0x06EA, 0x06ED, 1},
}}

// unspaced are the scripts written without spaces between words: those of the
// line breaking classes ID and SA (UAX #14) and their like.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi,
	unicode.Tangut, unicode.Nushu, unicode.Khitan_Small_Script,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tai_Le, unicode.New_Tai_Lue,
	unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom, unicode.Javanese, unicode.Balinese,
	unicode.Egyptian_Hieroglyphs, unicode.Cuneiform, unicode.Anatolian_Hieroglyphs,
}

// conjoining marks bind the next letter of an unspaced script to this one.
var conjoining = []rune{0x1039, 0x17D2, 0x1A60, 0x1B44, 0xA9C0}

var (
	composesBack  = map[rune]bool{} // second of a primary composite
	composesAhead = map[rune]bool{} // first of one
	orders        []uint8           // the combining classes above 0
)

func main() {
	if unicode.Version != unicodeVersion || norm.Version != unicodeVersion {
		log.Fatalf("want Unicode %s everywhere, have %s and %s: changing it is a format change",
			unicodeVersion, unicode.Version, norm.Version)
	}
	findComposites()
	properties := make([]property, tableEnd)
	for r := rune(0); r < tableEnd; r++ {
		p := property{class: byte(classify(r))}
		m := []rune(mapped(r))
		switch {
		case p.class == cased && len(m) == 1: // all but sharp s
			p.fold = uint16(m[0] - r)
		case norm.NFKD.String(string(r)) == string(r): // what the normaliser meets
			p.fold = uint16(foldCase(r) - r)
		}
		properties[r] = p
	}
	if err := os.WriteFile("classes.bin", encodeRuns(properties), 0o644); err != nil {
		log.Fatal(err)
	}
}

// property is what the table has of a character: its class, and what to add to fold its case, modulo 2^16.
type property struct {
	class byte
	fold  uint16
}

func findComposites() {
	seen := map[uint8]bool{}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if c := norm.NFC.PropertiesString(string(r)).CCC(); c > 0 && !seen[c] {
			seen[c] = true
			orders = append(orders, c)
		}
		d := []rune(norm.NFD.String(string(r)))
		if len(d) < 2 || norm.NFC.String(string(r)) != string(r) {
			continue
		}
		composesBack[d[len(d)-1]] = true
		first := []rune(norm.NFC.String(string(d[:len(d)-1])))
		composesAhead[first[len(first)-1]] = true
	}
	slices.Sort(orders)
}

// mapped is the normal form of a single character, as normalize.go has it for texts.
func mapped(r rune) string {
	var b strings.Builder
	for i, f := range []rune(norm.NFKD.String(string(r))) {
		f = foldCase(f)
		switch {
		case isIgnorable(f):
		case f == '\u00DF':
			b.WriteString("ss")
		case f == '\u0307' && i > 0 && strings.HasSuffix(b.String(), "i"):
		default:
			b.WriteRune(f)
		}
	}
	return norm.NFKC.String(b.String())
}

// foldCase is the simple case folding, and dotless i to i. The folding of
// Cherokee is to upper case.
func foldCase(r rune) rune {
	if unicode.Is(unicode.Cherokee, r) {
		return unicode.ToUpper(r)
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

func isIgnorable(r rune) bool {
	if c, ok := tailored[r]; ok {
		return c == ignorable
	}
	if 0xE0000 <= r && r < 0xE1000 || unicode.Is(optional, r) {
		return true
	}
	// Default_Ignorable_Code_Point, as DerivedCoreProperties.txt derives it.
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector) &&
		!unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark) &&
		!(0xFFF9 <= r && r <= 0xFFFB) && !(0x13430 <= r && r <= 0x1343F)
}

func classify(r rune) int {
	if c, ok := tailored[r]; ok {
		return c
	}
	if isIgnorable(r) {
		return ignorable
	}
	if 0xD800 <= r && r <= 0xDFFF || unicode.Is(unicode.Noncharacter_Code_Point, r) || unicode.Is(unicode.Co, r) {
		return separator
	}
	if unicode.Is(unicode.Cn, r) {
		return unknown
	}
	m := mapped(r)
	if m == string(r) {
		return classifyNormal(r)
	}
	if m == "" {
		return ignorable
	}
	if !strings.ContainsFunc(m, belongsToToken) {
		return separator
	}
	first := []rune(m)[0]
	decomposed := []rune(norm.NFKD.String(string(r)))
	if ccc(r) != 0 || unicode.Is(unicode.M, r) || unicode.Is(unicode.M, first) || decomposed[0] == '\u0640' || composesBack[decomposed[0]] {
		return slowMark
	}
	if isCased(r, m) {
		return cased
	}
	return slow
}

func belongsToToken(r rune) bool {
	if c, ok := tailored[r]; ok {
		return c != separator
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N)
}

// isCased tells the characters that differ from their normal form in case or
// width only and so need no normaliser.
func isCased(r rune, m string) bool {
	if !unicode.In(r, unicode.L, unicode.N) {
		return false
	}
	if m == "ss" {
		return true
	}
	runes := []rune(m)
	if len(runes) != 1 || mapped(runes[0]) != m {
		return false
	}
	c := classify(runes[0])
	wide := 0xFF10 <= r && r <= 0xFF5A
	return (c == letter || c == letterComposing) && (wide || norm.NFKC.String(string(r)) == string(r))
}

func classifyNormal(r rune) int {
	isSingle := unicode.In(r, unspaced...) && !unicode.Is(unicode.Nd, r) ||
		0x3000 <= r && r <= 0x30FF // the signs that both kana scripts use
	switch {
	case unicode.In(r, unicode.L, unicode.N):
		switch {
		case composesBack[r]:
			return letterMaybe
		case isSingle && composesAhead[r]:
			return singleComposing
		case isSingle:
			return single
		case composesAhead[r] || !indic(r):
			return letterComposing
		}
		return letter
	case unicode.Is(unicode.M, r):
		switch {
		case composesBack[r]:
			return maybeMark
		case ccc(r) != 0:
			c := markOrdered + 2*slices.Index(orders, ccc(r))
			if slices.Contains(conjoining, r) {
				c++
			}
			return c
		case composesAhead[r]:
			return markComposing
		}
		return markStarter
	}
	return separator
}

// indic are the blocks where marks that may compose are common, and so it pays
// to know exactly which letters they compose with. Elsewhere every letter may.
func indic(r rune) bool { return 0x900 <= r && r <= 0x109F || 0x1B00 <= r && r <= 0x1BFF }

func ccc(r rune) uint8 { return norm.NFC.PropertiesString(string(r)).CCC() }

// encodeRuns lists runs of equal properties from U+0000 on: a uvarint length, the class, and a uvarint of what to add.
func encodeRuns(properties []property) (b []byte) {
	for i := 0; i < len(properties); {
		j := i
		for j < len(properties) && properties[j] == properties[i] {
			j++
		}
		b = binary.AppendUvarint(b, uint64(j-i))
		b = append(b, properties[i].class)
		b = binary.AppendUvarint(b, uint64(properties[i].fold))
		i = j
	}
	return b
}
