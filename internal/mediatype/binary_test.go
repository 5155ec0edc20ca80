package mediatype

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

func TestBinary(t *testing.T) {
	random := make([]byte, 2000)
	rand.NewChaCha8([32]byte{1}).Read(random)
	for prefix, want := range map[string]string{
		"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":   "application/x-ole-storage",
		"7z\xbc\xaf\x27\x1c\x00\x04":         "application/x-7z-compressed",
		"BZh91AY&SY":                         "application/x-bzip2",
		"\xfd7zXZ\x00\x00\x04":               "application/x-xz",
		"\x28\xb5\x2f\xfd":                   "application/zstd",
		"CWS\x09":                            "application/x-shockwave-flash",
		"MZ\x90\x00\x03\x00\x00\x00\x04\x00": "application/vnd.microsoft.portable-executable",
		"\x7fELF\x02\x01\x01":                "application/x-executable",
		"\xca\xfe\xba\xbe\x00\x00\x00\x34":   "application/java-vm",
		"SQLite format 3\x00\x10\x00":        "application/vnd.sqlite3",
		"II*\x00\x08\x00\x00\x00":            "image/tiff",
		"\x00asm\x01\x00\x00\x00":            "application/wasm",
		"PK\x03\x04\x14\x00":                 "application/zip",
		"wOF2\x00\x01\x00\x00":               "font/woff2",
		"ID3\x03\x00":                        "audio/mpeg",
		"\x00\x00\x00\x18ftypmp42":           "video/mp4",
		"%PDF-1.4\n":                         "application/pdf",
		"\x89PNG\r\n\x1a\n":                  "image/png",
		"GIF89a":                             "image/gif",
		"\x1f\x8b\x08":                       "application/x-gzip",
		"":                                   "application/octet-stream",
		"\xff\xfe":                           "application/octet-stream", // not UTF-16
		"\xff\xfb\x90\x64\x00":               "application/octet-stream", // MPEG audio
	} {
		if media, yes := Binary(append([]byte(prefix), random...)); !yes || media != want {
			t.Errorf("%q is %s, %v, want %s", prefix, media, yes, want)
		}
	}
	for body, want := range map[string]string{
		"%PDF-1.4\n1 0 obj << /Type /Catalog >>\n": "application/pdf",
		"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 80) +
			strings.Repeat("words ", 100): "application/x-ole-storage",
		strings.Repeat("\x00\x00", 500): "application/octet-stream", // as UTF-16
	} {
		if media, yes := Binary([]byte(body)); !yes || media != want {
			t.Errorf("%.20q is %s, %v, want %s", body, media, yes, want)
		}
	}
}

// Text in the encodings of the web is not binary, nor is text with a few control characters.
func TestBinaryOfText(t *testing.T) {
	const russian = "Съешь же ещё этих мягких французских булок. "
	const hiragana = "いろはにほへと ちりぬるを わかよたれそ "
	const chinese = "天地玄黃宇宙洪荒日月盈昃辰宿列張"
	for _, c := range []struct {
		name string
		enc  encoding.Encoding
		text string
	}{
		{"windows-1251", charmap.Windows1251, russian}, {"koi8-r", charmap.KOI8R, russian},
		{"ibm866", charmap.CodePage866, russian},
		{"windows-1252", charmap.Windows1252, "Voix ambiguë d’un cœur qui préfère. "},
		{"shift_jis", japanese.ShiftJIS, hiragana}, {"euc-jp", japanese.EUCJP, hiragana},
		{"iso-2022-jp", japanese.ISO2022JP, hiragana},
		{"euc-kr", korean.EUCKR, "키스의 고유조건은 입술끼리 만나야 한다. "},
		{"gb18030", simplifiedchinese.GB18030, chinese},
		{"hz", simplifiedchinese.HZGB2312, "天地宇宙洪荒日月"},
		{"big5", traditionalchinese.Big5, chinese},
	} {
		body, err := c.enc.NewEncoder().String(strings.Repeat(c.text, 30))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, body := range []string{body, "<html><p>" + body, body[:7]} {
			if media, yes := Binary([]byte(body)); yes {
				t.Errorf("%s: %.40q is %s", c.name, body, media)
			}
		}
	}
	for _, text := range []string{"<html><p>words", russian, chinese, "𐍈𐍈𐍈 words"} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			for _, mark := range []string{"\ufeff", ""} {
				var body []byte
				for _, unit := range utf16.Encode([]rune(mark + strings.Repeat(text, 20))) {
					body = order.AppendUint16(body, unit)
				}
				if media, yes := Binary(body); yes && (mark != "" || text[0] == '<') {
					t.Errorf("%v, mark %q: %q is %s", order, mark, text, media)
				}
			}
		}
	}
	words := strings.Repeat("some words of a page, ", 100)
	for name, body := range map[string]string{
		"nothing": "", "a zero": "<p>a\x00b</p>", "zeros": "\x00" + words[:300] + "\x00" +
			words[:300] + "\x00", "zeros at the end": words + strings.Repeat("\x00", 500),
		"words of magic numbers": "BZh is a prefix, and MZ, FWS, II*, BMW and 7z are too",
		"form feeds":             strings.Repeat("\f\v\t\r\n", 50),
	} {
		if media, yes := Binary([]byte(body)); yes {
			t.Errorf("%s: %s", name, media)
		}
	}
}
