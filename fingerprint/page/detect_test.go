package page

import (
	"archive/tar"
	"bytes"
	"html"
	"io"
	"math/bits"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testgen"
	"golang.org/x/net/html/charset"
)

// TestDetectShortTexts decodes a sentence or two in each encoding that detect
// recognizes, as a page and as plain text, and sentences in windows-1252.
func TestDetectShortTexts(t *testing.T) {
	const (
		russian  = "Паром отходит от причала в девять часов утра, а обратно возвращается вечером."
		polish   = "Prom odpływa o dziewiątej rano i wraca dopiero późnym wieczorem, więc weźcie ze sobą coś do jedzenia."
		czech    = "Přívoz odplouvá v devět hodin ráno a vrací se až večer, takže si vezměte něco k jídlu."
		hungary  = "A komp reggel kilenckor indul, és csak késő este tér vissza, ezért vigyenek magukkal ennivalót és tűzőgépet."
		slovene  = "Trajekt odpelje ob devetih zjutraj in se vrne šele zvečer, zato vzemite s seboj še kaj za žejo."
		japanese = "渡し船は朝九時に出発し、夕方まで戻りませんので、食べ物をお持ちください。"
		korean   = "배는 아침 아홉 시에 떠나서 저녁에야 돌아오므로 먹을 것을 가지고 오십시오."
		chinese  = "渡船早上九点出发，晚上才回来，所以请大家带一些吃的东西，也不要忘记带水。"
		greek    = "Το πλοίο αναχωρεί στις εννέα το πρωί και επιστρέφει μόνο το βράδυ."
	)
	for _, test := range []struct{ label, text string }{
		{"windows-1251", russian}, {"koi8-r", russian}, {"iso-8859-5", russian},
		{"windows-1250", polish}, {"iso-8859-2", polish}, {"windows-1250", czech}, {"iso-8859-2", czech},
		{"windows-1250", hungary}, {"iso-8859-2", hungary}, {"windows-1250", slovene}, {"iso-8859-2", slovene},
		{"shift_jis", japanese}, {"euc-jp", japanese}, {"iso-2022-jp", japanese}, {"euc-kr", korean}, {"gbk", chinese},
		{"iso-8859-7", greek},
		{"windows-1252", "Le bac part à neuf heures et ne revient que le soir : prévoyez de quoi manger, s’il vous plaît."},
		{"windows-1252", "Die Fähre legt um neun ab und kehrt erst am Abend zurück, darum bitte etwas für den Hunger mitnehmen."},
		{"windows-1252", "El barco sale a las nueve de la mañana y no vuelve hasta la noche, así que traigan algo de comer."},
		{"windows-1252", "The ferry leaves at nine – don’t be late. © Harbour Office"},
		{"windows-1252", "März"}, {"windows-1252", "café · crème brûlée"}, {"windows-1252", "Größe 20²"},
	} {
		body := encode(t, test.text, test.label)
		for _, page := range []string{body, "<!DOCTYPE html><title>Ferry</title><style>p{color:red}</style><div class=main><p>" + body + "</p></div>"} {
			got, _ := decode([]byte(page), "")
			if !strings.Contains(string(got), test.text) {
				t.Errorf("%s: %q", test.label, got)
			}
		}
	}
}

var paragraph = regexp.MustCompile(`<para>([^<]*)`)

// TestDetectDeclarations takes parts of the Universal Declaration of Human Rights in
// each encoding. The fingerprint of a page that does not declare its encoding is that
// of the page in UTF-8.
func TestDetectDeclarations(t *testing.T) {
	languages := map[string][]string{
		"windows-1251": {"rus", "ukr", "bul", "srp_cyrl"}, "koi8-r": {"rus", "bul"},
		"windows-1250": {"pol", "ces", "hun", "hrv", "slk", "slv"}, "iso-8859-2": {"pol", "ces", "hun", "hrv", "slk", "slv"},
		"shift_jis": {"jpn"}, "euc-jp": {"jpn"}, "iso-2022-jp": {"jpn"}, "euc-kr": {"kor"}, "gbk": {"cmn_hans"}, "big5": {"cmn_hant"},
		"windows-1252": {"deu_1996", "fra", "spa", "por_PT", "ita", "swe", "fin", "dan", "isl", "cat", "nob"},
	}
	texts := map[string][]rune{}
	for archive := tar.NewReader(testgen.SharedGzip(t, "udhr/udhr-xml.tar.gz")); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		file, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, match := range paragraph.FindAllSubmatch(file, -1) {
			b.WriteString(html.UnescapeString(string(match[1])) + "\n")
		}
		texts[strings.TrimSuffix(strings.TrimPrefix(path.Base(header.Name), "udhr_"), ".xml")] = []rune(b.String())
	}
	signer := newSigner(t, Visible, fingerprint.Options{})
	for label, keys := range languages {
		encoding, _ := charset.Lookup(label)
		for _, key := range keys {
			text := texts[key]
			for _, size := range []int{120, 400, 2000} {
				found, parts, far, before := 0, 0, 0, 0
				for from := 0; from+size <= len(text) && parts < 20; from += max(size, len(text)/20) {
					var known strings.Builder // without the few characters that the encoding lacks
					for _, r := range text[from : from+size] {
						if _, err := encoding.NewEncoder().String(string(r)); err == nil {
							known.WriteRune(r)
						}
					}
					body, err := encoding.NewEncoder().Bytes([]byte(known.String()))
					if err != nil {
						t.Fatal(err)
					}
					if isASCII(body) && label != "iso-2022-jp" {
						continue
					}
					parts++
					want := signer.SignKind(HTML, "", []byte(known.String())).Fingerprint
					distance := bits.OnesCount64(uint64(want ^ signer.SignKind(HTML, "", body).Fingerprint))
					if distance == 0 {
						found++
					}
					far = max(far, distance)
					before += bits.OnesCount64(uint64(want ^ signer.SignKind(HTML, "text/html; charset=windows-1252", body).Fingerprint))
				}
				t.Logf("%s, %s, %d characters: %d of %d recognized, at most %d bits off; %d bits on average as windows-1252", label, key, size, found, parts, far, before/max(1, parts))
				if found*100 < parts*85 {
					t.Errorf("%s, %s: %d of %d texts of %d characters are recognized", label, key, found, parts, size)
				}
			}
		}
	}
}

// TestDetectRealPages encodes real pages in windows-1252. They stay windows-1252, but
// for a page in a hundred.
func TestDetectRealPages(t *testing.T) {
	windows, _ := charset.Lookup("windows-1252")
	for _, set := range []string{"pages", "recrawls"} {
		pages, wrong := 0, 0
		for i, page := range realPages(t, set, oneOf(4)) {
			body, err := windows.NewEncoder().Bytes(page)
			if err != nil || isASCII(body) {
				continue
			}
			pages++
			if got, name := decode(textSample(body), ""); !bytes.Equal(got, decoded(t, textSample(body))) {
				t.Logf("%s: page %d is %s", set, i, name)
				wrong++
			}
		}
		if wrong*100 > pages {
			t.Errorf("%s: %d of %d pages are not windows-1252", set, wrong, pages)
		}
	}
}

func decoded(t *testing.T, body []byte) []byte {
	t.Helper()
	windows, _ := charset.Lookup("windows-1252")
	text, err := windows.NewDecoder().Bytes(body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
