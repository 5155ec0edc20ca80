package page

import (
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestDetectShortTexts decodes a sentence or two in each encoding that detect
// recognizes, as a page and as plain text, and sentences in windows-1252.
func TestDetectShortTexts(t *testing.T) {
	const (
		russian = "Паром отходит от причала в девять часов утра, а обратно возвращается вечером."
		polish  = "Prom odpływa o dziewiątej rano i wraca dopiero późnym wieczorem, więc " +
			"weźcie ze sobą coś do jedzenia."
		czech = "Přívoz odplouvá v devět hodin ráno a vrací se až večer, takže si " +
			"vezměte něco k jídlu."
		hungary = "A komp reggel kilenckor indul, és csak késő este tér vissza, ezért " +
			"vigyenek magukkal ennivalót és tűzőgépet."
		slovene = "Trajekt odpelje ob devetih zjutraj in se vrne šele zvečer, zato vzemite s " +
			"seboj še kaj za žejo."
		japanese = "渡し船は朝九時に出発し、夕方まで戻りませんので、食べ物をお持ちください。"
		korean   = "배는 아침 아홉 시에 떠나서 저녁에야 돌아오므로 먹을 것을 가지고 오십시오."
		chinese  = "渡船早上九点出发，晚上才回来，所以请大家带一些吃的东西，也不要忘记带水。"
		greek    = "Το πλοίο αναχωρεί στις εννέα το πρωί και επιστρέφει μόνο το βράδυ."
	)
	for _, test := range []struct{ label, text string }{
		{"windows-1251", russian}, {"koi8-r", russian}, {"iso-8859-5", russian},
		{"windows-1250", polish}, {"iso-8859-2", polish}, {"windows-1250", czech},
		{"iso-8859-2", czech},
		{"windows-1250", hungary}, {"iso-8859-2", hungary}, {"windows-1250", slovene},
		{"iso-8859-2", slovene},
		{"shift_jis", japanese}, {"euc-jp", japanese}, {"iso-2022-jp", japanese},
		{"euc-kr", korean}, {"gbk", chinese},
		{"iso-8859-7", greek},
		{"windows-1252", "Le bac part à neuf heures et ne revient que le soir : prévoyez de " +
			"quoi manger, s’il vous plaît."},
		{"windows-1252", "Die Fähre legt um neun ab und kehrt erst am Abend zurück, darum " +
			"bitte etwas für den Hunger mitnehmen."},
		{"windows-1252", "El barco sale a las nueve de la mañana y no vuelve hasta la noche, " +
			"así que traigan algo de comer."},
		{"windows-1252", "The ferry leaves at nine – don’t be late. © Harbour Office"},
		{"windows-1252", "März"}, {"windows-1252", "café · crème brûlée"},
		{"windows-1252", "Größe 20²"},
	} {
		body, err := encode(test.label, test.text)
		testenv.Must(t, err)
		for _, page := range []string{body,
			"<!DOCTYPE html><title>Ferry</title><style>p{color:red}</style><div class=main><p>" +
				body + "</p></div>"} {
			got, _ := decode([]byte(page), "")
			if !strings.Contains(string(got), test.text) {
				t.Errorf("%s: %q", test.label, got)
			}
		}
	}
}
