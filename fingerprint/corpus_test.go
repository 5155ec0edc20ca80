package fingerprint

import (
	"math/rand/v2"
	"strings"
	"unicode"
)

// A language describes made-up text. It replaces real text, whose license may forbid copies.
type language struct {
	name    string
	letters string  // in order of frequency, or the first and last of a range
	length  float64 // mean length of a word
	space   string  // between words
}

var languages = []language{
	{"english", "etaoinshrdlucmfwypvbgkjxqz", 5, " "},
	{"german", "enisratdhulcgmobwfkzpvüßäöjyxq", 6, " "},
	{"cyrillic", "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэф", 6.5, " "},
	{"arabic", "اليمونرتبةعدسفهكقأحجشطصخإذىضزثئءغآظ", 4.5, " "},
	{"hindi", "कारेनी्तिसमहैपलदोयंबजगुवचधथभटशअडइख", 4, " "},
	{"korean", "이다는에의가을로하고지사한기도어인자대서해정리", 3, " "},
	{"chinese", "\u4e00\u8d80", 9, ""},
	{"japanese", "\u3042\u3093", 12, ""},
	{"thai", "านรกอเงมลวดยตสทแหปขบคจพชไซผณถธภศโฟ", 12, ""},
}

// write returns a text of about size bytes, in sentences. Words have Zipf-like frequencies.
func (l language) write(rng *rand.Rand, size int) string {
	letters := []rune(l.letters)
	if len(letters) == 2 {
		low := letters[0]
		letters = make([]rune, min(letters[1]-low+1, 3500))
		for i := range letters {
			letters[i] = low + rune(i)
		}
	}
	words := make([]string, 20_000)
	for i := range words {
		var word strings.Builder
		for range 1 + int(max(0, l.length+rng.NormFloat64()*l.length/3-0.5)) {
			rank := int(rng.ExpFloat64() * float64(len(letters)) / 4) // frequencies fall by rank
			word.WriteRune(letters[min(rank, len(letters)-1)])
		}
		words[i] = word.String()
	}
	zipf := rand.NewZipf(rng, 1.07, 2.7, uint64(len(words)-1))
	var b strings.Builder
	for n := 0; b.Len() < size; n++ {
		word := []rune(words[zipf.Uint64()])
		if n%20 == 0 {
			word[0] = unicode.ToUpper(word[0])
		}
		b.WriteString(string(word))
		switch {
		case n%100 == 99:
			b.WriteString(".\n")
		case n%9 == 8:
			b.WriteString(", ")
		default:
			b.WriteString(l.space)
		}
	}
	return b.String()
}
