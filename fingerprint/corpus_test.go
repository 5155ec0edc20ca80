package fingerprint

import (
	"math"
	"math/rand/v2"
	"strings"
)

// A language describes how the benchmarks write text in it.
type language struct {
	name       string
	letters    string // in order of frequency, or the first and last of a range
	capitals   bool
	unspaced   bool
	vocabulary int
	// mean word length; a token takes as many bytes as in the declaration of human rights
	length float64
}

var languages = []language{
	{name: "english", letters: "etaoinshrdlucmfwypvbgkjxqz", capitals: true,
		vocabulary: 20000, length: 5.8},
	{name: "german", letters: "enisratdhulcgmobwfkzpvüßäöjyxq", capitals: true,
		vocabulary: 30000, length: 7.3},
	{name: "cyrillic", letters: "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэф", capitals: true,
		vocabulary: 40000, length: 7.7},
	{name: "arabic", letters: "اليمونرتبةعدسفهكقأحجشطصخإذىضزثئءغآظ",
		vocabulary: 40000, length: 5.4},
	{name: "hindi", letters: "कारेनी्तिसमहैपलदोयंबजगुवचधथभटशअडइख", vocabulary: 20000, length: 4.6},
	{name: "korean", letters: "이다는에의가을로하고지사한기도어인자대서해정리", vocabulary: 40000, length: 3.5},
	{name: "chinese", letters: "\u4e00\u8d80", unspaced: true, vocabulary: 4000, length: 9},
	{name: "japanese", letters: "\u3042\u3093", unspaced: true, vocabulary: 4000, length: 12},
	{name: "thai", letters: "านรกอเงมลวดยตสทแหปขบคจพชไซผณถธภศโฟ", unspaced: true,
		vocabulary: 3000, length: 12},
}

// write makes a text of about size bytes, in sentences. The words have Zipf-like frequencies, and
// frequent words are short. It replaces real text, whose license may forbid copies.
func (l language) write(rng *rand.Rand, size int) string {
	letters := []rune(l.letters)
	if len(letters) == 2 {
		low, high := letters[0], letters[1]
		letters = letters[:0]
		for r := low; r <= high; r++ {
			letters = append(letters, r)
		}
		rng.Shuffle(len(letters), func(i, j int) {
			letters[i], letters[j] = letters[j], letters[i]
		})
		letters = letters[:min(len(letters), 3500)]
	}
	letterAt := func() rune { // frequencies fall by rank
		return letters[min(int(rng.ExpFloat64()*float64(len(letters))/4), len(letters)-1)]
	}
	words := make([]string, l.vocabulary)
	for rank := range words {
		mean := l.length * (0.55 +
			0.45*math.Log(float64(rank+2))/math.Log(float64(l.vocabulary)/20))
		var b strings.Builder
		for range 1 + int(rng.NormFloat64()*mean/3+mean-0.5) {
			b.WriteRune(letterAt())
		}
		words[rank] = b.String()
		if words[rank] == "" {
			words[rank] = string(letterAt())
		}
	}
	zipf := rand.NewZipf(rng, 1.07, 2.7, uint64(l.vocabulary-1))
	var b strings.Builder
	for sentence := 0; b.Len() < size; sentence++ {
		n := 5 + rng.IntN(25)
		for i := range n {
			w := words[zipf.Uint64()]
			if l.capitals && (i == 0 || rng.IntN(20) == 0) {
				w = strings.ToUpper(string([]rune(w)[:1])) + string([]rune(w)[1:])
			}
			b.WriteString(w)
			switch {
			case i == n-1 && l.unspaced:
				b.WriteString("。")
			case i == n-1:
				b.WriteString(". ")
			case rng.IntN(9) == 0 && l.unspaced:
				b.WriteString("，")
			case rng.IntN(9) == 0:
				b.WriteString(", ")
			case !l.unspaced:
				b.WriteByte(' ')
			}
		}
		if sentence%5 == 4 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
