package fingerprint

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode"
)

// Like the package, the oracle uses frozen tables, so that the tests work with later versions of
// package unicode. The first lines of the file describe its content.
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
