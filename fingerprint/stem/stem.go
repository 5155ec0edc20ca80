// Package stem reduces words to their stems with Snowball stemmers. It accepts the tokens that
// package fingerprint produces. The script of a token selects its stemmer. A token in a script
// without a stemmer does not change.
package stem

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
)

type language struct {
	code   string
	script script
	stem   func(*snowballstem.Env) bool
}

type script int

const (
	other script = iota
	latin
	cyrillic
	arabicScript
	tamilScript
)

// scriptOf returns the script of a character by its Unicode block. Blocks never change,
// so stems do not change either.
func scriptOf(r rune) script {
	switch {
	case 'a' <= r && r <= 'z' || 0xDF <= r && r <= 0x24F || 0x1E00 <= r && r <= 0x1EFF:
		return latin
	case 0x400 <= r && r <= 0x52F:
		return cyrillic
	case 0x620 <= r && r <= 0x6FF:
		return arabicScript
	case 0xB80 <= r && r <= 0xBFF:
		return tamilScript
	}
	return other
}

// Turkish is missing, since its stemmer needs the difference between i and dotless i,
// which tokens do not have.
var languages = []language{
	{"ar", arabicScript, arabic.Stem},
	{"da", latin, danish.Stem},
	{"de", latin, german.Stem},
	{"en", latin, english.Stem},
	{"es", latin, spanish.Stem},
	{"fi", latin, finnish.Stem},
	{"fr", latin, french.Stem},
	{"ga", latin, irish.Stem},
	{"hu", latin, hungarian.Stem},
	{"it", latin, italian.Stem},
	{"nl", latin, dutch.Stem},
	{"no", latin, norwegian.Stem},
	{"pt", latin, portuguese.Stem},
	{"ro", latin, romanian.Stem},
	{"ru", cyrillic, russian.Stem},
	{"sv", latin, swedish.Stem},
	{"ta", tamilScript, tamil.Stem},
}

// known returns the codes that For accepts (ISO 639-1), sorted.
func known() []string {
	codes := make([]string, len(languages))
	for i, l := range languages {
		codes[i] = l.code
	}
	return codes
}

// Stemmer stems words of some languages. It is safe for concurrent use.
type Stemmer struct{ languages []language }

// For returns a stemmer for the languages. At most one language per script is allowed:
// "en" and "ru", but not "en" and "de", since the language of a token is not known.
func For(codes ...string) (*Stemmer, error) {
	s := new(Stemmer)
	for _, code := range codes {
		i := slices.IndexFunc(languages, func(l language) bool { return l.code == code })
		if i < 0 {
			return nil, fmt.Errorf("stem: unknown language %q: want one of %s", code,
				strings.Join(known(), ", "))
		}
		for _, l := range s.languages {
			if l.script == languages[i].script {
				return nil, fmt.Errorf("stem: %q and %q have the same script: use only one of them",
					l.code, code)
			}
		}
		s.languages = append(s.languages, languages[i])
	}
	if len(s.languages) == 0 {
		return nil, fmt.Errorf("stem: no language: want one or more of %s",
			strings.Join(known(), ", "))
	}
	return s, nil
}

// longest is the length in bytes of the longest token that is stemmed. No word is longer, and the
// time of some stemmers is not linear in the length of the word.
const longest = 200

// Stem returns the stem of a token in normal form. The stem is empty only if the token is empty.
func (s *Stemmer) Stem(token string) string {
	if len(token) <= longest {
		r, _ := utf8.DecodeRuneInString(token)
		for _, l := range s.languages {
			if scriptOf(r) == l.script {
				return stem(l, token)
			}
		}
	}
	return token
}

// stem returns the stem of a token in language l. It returns the token itself if the generated code
// panics or returns an empty stem.
func stem(l language, token string) (stemmed string) {
	defer func() {
		if recover() != nil || stemmed == "" {
			stemmed = token
		}
	}()
	env := snowballstem.NewEnv(token)
	l.stem(env)
	return env.Current()
}
