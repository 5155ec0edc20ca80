package sitegen

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
)

// Scripts are the scripts of the generated languages.
var Scripts = []string{"Latin", "Cyrillic", "Arabic", "Devanagari", "Han"}

// vocabulary is the number of words in a language.
const vocabulary = 3000

// language is a generated vocabulary, sorted by decreasing frequency.
type language struct{ words []string }

// onsets and vowels are the parts of the syllables of a script. Han words have no syllables.
var (
	onsets = map[string]string{
		"Latin":      "b c d f g h l m n p r s t v br cl st tr",
		"Cyrillic":   "б в г д ж з к л м н п р с т ст пр кр",
		"Arabic":     "ب ت ج ح د ر س ش ع ف ق ك ل م ن ه",
		"Devanagari": "क ख ग च ज ट त द न प ब म र ल व स ह",
	}
	vowels = map[string]string{
		"Latin": "a e i o u ai en or", "Cyrillic": "а е и о у ы ен ор", "Arabic": "ا و ي ار ان",
		"Devanagari": "ा ि ी े ो ु",
	}
)

// newLanguage generates the vocabulary of a script.
func newLanguage(script string, seed uint64) *language {
	r := newRandom(seed, script)
	l := new(language)
	seen := make(map[string]bool)
	for tries := 0; len(l.words) < vocabulary; tries++ {
		parts := 1 + min(2, tries/100)
		var word string
		for range parts {
			if script == "Han" {
				word += string(rune(0x4e00 + r.IntN(2000)))
			} else {
				word += pick(r, strings.Fields(onsets[script])) +
					pick(r, strings.Fields(vowels[script]))
			}
		}
		if script == "Han" && parts == 3 {
			word = string([]rune(word)[:2])
		}
		if !seen[word] {
			seen[word] = true
			l.words = append(l.words, word)
		}
	}
	return l
}

// Text returns n words of a generated language, which follow Zipf's law.
func Text(script string, r *rand.Rand, n int) []string {
	return textLanguages()[script].phrase(r, n)
}

// textLanguages returns a language for each script.
var textLanguages = sync.OnceValue(func() map[string]*language {
	languages := make(map[string]*language)
	for _, script := range Scripts {
		languages[script] = newLanguage(script, 0)
	}
	return languages
})

// phrase returns n words, which follow Zipf's law.
func (l *language) phrase(r *rand.Rand, n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = l.words[int(math.Pow(vocabulary, r.Float64()))-1]
	}
	return words
}

// name returns a compound of two or three rare words, such as the name of a class.
func (l *language) name(r *rand.Rand) (name string) {
	for range 2 + r.IntN(2) {
		name += l.words[100+r.IntN(300)]
	}
	return name
}

// newRandom returns a random source for a name, so that a page does not depend on the number of
// other pages.
func newRandom(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }
