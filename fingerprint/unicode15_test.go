package fingerprint

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// Like the package, the oracle uses frozen tables in testdata, so that the test works with later
// versions of package unicode. With -update, TestFrozenProperties writes them again. This
// requires Unicode 15.0 in package unicode.
const frozenProperties = "testdata/unicode-15.0.txt"

// runeProperty describes a character for the oracle.
type runeProperty struct {
	flags  propertyFlags
	folded rune
}

type propertyFlags uint8

const (
	letterProperty    propertyFlags = 1 << iota // letters and numbers
	markProperty                                // marks
	unknownProperty                             // not assigned
	ignorableProperty                           // default ignorable, or optional in most texts
	singleProperty                              // of a script without spaces
)

func (p runeProperty) is(flags propertyFlags) bool { return p.flags&flags != 0 }

func property(r rune) runeProperty { return loadProperties()[r] }

var loadProperties = sync.OnceValue(func() []runeProperty {
	file, err := os.Open(frozenProperties)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	all := make([]runeProperty, unicode.MaxRune+1)
	next := rune(0)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var last, add rune
		var flags propertyFlags
		if _, err := fmt.Sscanf(lines.Text(), "%x %d %d", &last, &flags, &add); err != nil {
			panic(err)
		}
		for ; next <= last; next++ {
			all[next] = runeProperty{flags, next + add}
		}
	}
	return all
})

func TestFrozenProperties(t *testing.T) {
	if unicode.Version == "15.0.0" {
		if *update {
			writeProperties(t)
		}
		for r := range rune(unicode.MaxRune + 1) {
			if got, want := property(r), propertyNow(r); got != want {
				t.Fatalf("%U is frozen as %+v, package unicode has %+v", r, got, want)
			}
		}
	}
	if n := len(loadProperties()); !property('a').is(letterProperty) ||
		property('A').folded != 'a' || n != unicode.MaxRune+1 {
		t.Errorf("%d characters, and %q is %+v", n, 'A', property('A'))
	}
}

func writeProperties(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Runs of characters of Unicode 15.0 from U+0000 on: the last of the run, " +
		"flags (see unicode15_test.go), and what to add to fold its case.\n")
	for r := rune(0); r <= unicode.MaxRune; {
		last, p := r, propertyNow(r)
		for last < unicode.MaxRune &&
			propertyNow(last+1) == (runeProperty{p.flags, last + 1 + p.folded - r}) {
			last++
		}
		fmt.Fprintf(&b, "%x %d %d\n", last, p.flags, p.folded-r)
		r = last + 1
	}
	if err := os.WriteFile(frozenProperties, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// propertyNow returns the property of a character by the tables of package unicode.
func propertyNow(r rune) runeProperty {
	p := runeProperty{folded: unicode.ToLower(unicode.ToUpper(r))}
	if unicode.Is(unicode.Cherokee, r) {
		p.folded = unicode.ToUpper(r)
	}
	for flag, is := range map[propertyFlags]bool{
		letterProperty: unicode.In(r, unicode.L, unicode.N), markProperty: unicode.Is(unicode.M, r),
		unknownProperty: isUnknown(r), ignorableProperty: isIgnorable(r),
		singleProperty: isSingle(r),
	} {
		if is {
			p.flags |= flag
		}
	}
	return p
}

func isUnknown(r rune) bool {
	return r < 0x40000 && unicode.Is(unicode.Cn, r) &&
		!unicode.In(r, unicode.Noncharacter_Code_Point, unicode.Other_Default_Ignorable_Code_Point)
}

func isIgnorable(r rune) bool {
	switch {
	case r == '\u0640' || r == '\u07FA' || 0xE0000 <= r && r < 0xE1000:
		return true
	case unicode.Is(unicode.Mn, r) && (0x0591 <= r && r <= 0x05C7 || 0x064B <= r && r <= 0x0652 ||
		r == 0x0670 || 0x06D6 <= r && r <= 0x06ED):
		return true
	case 0xFFF9 <= r && r <= 0xFFFB || 0x13430 <= r && r <= 0x1343F ||
		unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark):
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point)
}

func isSingle(r rune) bool {
	if unicode.Is(unicode.Nd, r) {
		return false
	}
	return 0x3000 <= r && r <= 0x30FF || unicode.In(r,
		unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi,
		unicode.Tangut, unicode.Nushu,
		unicode.Khitan_Small_Script, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
		unicode.Tai_Le,
		unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom, unicode.Javanese,
		unicode.Balinese,
		unicode.Egyptian_Hieroglyphs, unicode.Cuneiform, unicode.Anatolian_Hieroglyphs)
}
