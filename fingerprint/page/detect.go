package page

import (
	"bytes"
	"unicode/utf8"

	"github.com/gogs/chardet"
	"golang.org/x/net/html/charset"
)

// detected lists the encodings that detect recognizes, with their names in package chardet. Of
// equally likely encodings, the first one applies.
var detected = []struct{ charset, label string }{
	{"Shift_JIS", "shift_jis"},
	{"EUC-JP", "euc-jp"},
	{"EUC-KR", "euc-kr"},
	{"GB18030", "gbk"},
	{"Big5", "big5"},
	{"windows-1251", "windows-1251"},
	{"KOI8-R", "koi8-r"},
	{"ISO-8859-5", "iso-8859-5"},
	{"ISO-8859-7", "iso-8859-7"},
	{"windows-1253", "windows-1253"},
	{"ISO-8859-8", "iso-8859-8"},
	{"ISO-8859-8-I", "iso-8859-8-i"},
	{"windows-1255", "windows-1255"},
	{"windows-1256", "windows-1256"},
	{"ISO-8859-2", "iso-8859-2"},
	{"windows-1250", "windows-1250"},
}

// minConfidence is the minimum confidence of chardet, of 100, that detect accepts.
const minConfidence = 10

// maxSample is the maximum number of bytes of text that detect reads.
const maxSample = 8 << 10

// detect returns the label of the encoding of a document that declares none and is not UTF-8, or
// "windows-1252" if it recognizes no other encoding. It compares letters and sequences of letters
// with the frequent ones of each language.
func detect(body []byte) string {
	sample := textSample(body)
	if len(sample) == 0 {
		return "windows-1252"
	}
	results, err := chardet.NewTextDetector().DetectAll(sample)
	if err != nil {
		return "windows-1252"
	}
	label, confidence := "windows-1252", 0
	for _, r := range results {
		if r.Charset == "ISO-8859-1" || r.Charset == "windows-1252" {
			confidence = max(confidence, r.Confidence)
		}
	}
	for _, d := range detected {
		for _, r := range results {
			if r.Charset != d.charset || r.Confidence < minConfidence ||
				r.Confidence <= confidence || !isValid(sample, d.label) {
				continue
			}
			label, confidence = d.label, r.Confidence
			if r.Language == "pl" && label == "iso-8859-2" && isWindowsPolish(sample) {
				label = "windows-1250"
			}
		}
	}
	if label == "windows-1252" {
		return southSlavic(sample)
	}
	return label
}

// isValid reports whether text is valid in an encoding, except for 1% of its characters that are
// not ASCII. In an encoding of a script other than Latin, it must also look like that script: at
// least half of these characters follow another one, and at most a quarter are half-width katakana.
// Letters of windows-1252 would be single characters between ASCII letters, or half-width katakana.
func isValid(text []byte, label string) bool {
	if label == "iso-8859-2" || label == "windows-1250" {
		return true
	}
	e, _ := charset.Lookup(label)
	decoded, err := e.NewDecoder().Bytes(text)
	var characters, pairs, wrong, halfWidth int
	previous := rune(0)
	for _, r := range string(decoded) {
		if r >= utf8.RuneSelf {
			characters++
			if previous >= utf8.RuneSelf {
				pairs++
			}
		}
		previous = r
		switch {
		case r == utf8.RuneError:
			wrong++
		case 0xff61 <= r && r <= 0xff9f:
			halfWidth++
		}
	}
	return err == nil && wrong*100 <= characters && halfWidth*4 <= characters &&
		pairs*2 >= characters
}

// isWindowsPolish reports whether Polish text that is valid in both encodings of
// Central Europe is windows-1250, by the letter ą.
func isWindowsPolish(sample []byte) bool {
	return bytes.IndexByte(sample, 0xb3) >= 0 &&
		bytes.Count(sample, []byte{0xb9}) > bytes.Count(sample, []byte{0xb1})
}

// southSlavic returns the encoding of text with the letters č, š and ž, as Croatian
// and Slovene have them, or "windows-1252". Package chardet does not know these
// languages. Text in windows-1252 with è (the byte of č) has neither š nor ž, and no ¹
// or ¾ within words.
func southSlavic(sample []byte) string {
	if bytes.IndexByte(sample, 0xe8) < 0 {
		return "windows-1252"
	}
	windows, latin2 := 0, 0
	for i, c := range sample {
		if i+1 == len(sample) || sample[i+1]|0x20 < 'a' || sample[i+1]|0x20 > 'z' {
			continue
		}
		switch c {
		case 0x9a, 0x9e:
			windows++
		case 0xb9, 0xbe:
			latin2++
		}
	}
	switch {
	case windows > latin2:
		return "windows-1250"
	case latin2 > 0:
		return "iso-8859-2"
	}
	return "windows-1252"
}

// textSample returns text of a document in an unknown encoding, in which ASCII bytes are ASCII
// characters: each text between two tags that has a byte outside of ASCII.
func textSample(body []byte) []byte {
	sample := make([]byte, 0, min(len(body), maxSample))
	s := scanner{doc: body}
	for token := s.next(); token != eofToken && len(sample) < maxSample; token = s.next() {
		if token == textToken && !(s.rawText && s.tag.class&omitted != 0) {
			text := s.doc[s.from:s.to]
			if isASCII(text) {
				continue
			}
			sample = append(append(sample, text[:min(len(text), maxSample-len(sample))]...), ' ')
		}
	}
	return sample
}

func isASCII(text []byte) bool {
	return countUTF8(text, 1) == utf8Count{}
}

// isISO2022JP reports whether a document of ASCII bytes has the escape sequences of
// ISO-2022-JP: one that begins characters of JIS X 0208, and one that ends them.
func isISO2022JP(body []byte) bool {
	for _, begin := range []string{"\x1b$B", "\x1b$@"} {
		if i := bytes.Index(body, []byte(begin)); i >= 0 {
			return bytes.Contains(body[i:], []byte("\x1b(B")) ||
				bytes.Contains(body[i:], []byte("\x1b(J"))
		}
	}
	return false
}
