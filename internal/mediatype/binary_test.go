package mediatype

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"image"
	"image/gif"
	"image/png"
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
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	compressed := func(write func(*bytes.Buffer)) string {
		var b bytes.Buffer
		write(&b)
		return b.String()
	}
	words := strings.Repeat("some words of a page, ", 100)
	for want, body := range map[string]string{
		"application/x-ole-storage": "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" +
			strings.Repeat("\x00", 16) + "\x3e\x00\x03\x00\xfe\xff\x09\x00" +
			strings.Repeat("\x00", 40) + words,
		"application/x-7z-compressed":                   "7z\xbc\xaf\x27\x1c\x00\x04" + random(500),
		"application/x-bzip2":                           "BZh91AY&SY" + random(500),
		"application/x-xz":                              "\xfd7zXZ\x00\x00\x04" + random(500),
		"application/zstd":                              "\x28\xb5\x2f\xfd" + random(500),
		"application/x-shockwave-flash":                 "CWS\x09" + random(500),
		"application/vnd.microsoft.portable-executable": "MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff\x00\x00" + strings.Repeat("\x00", 40) + "This program cannot be run in DOS mode.",
		"application/x-executable": "\x7fELF\x02\x01\x01" +
			strings.Repeat("\x00", 9) + random(100),
		"application/java-vm": "\xca\xfe\xba\xbe\x00\x00\x00\x34\x00\x1d\x0a\x00\x06" +
			random(200),
		"application/vnd.sqlite3": "SQLite format 3\x00\x10\x00\x01\x01\x00\x40\x20\x20" +
			strings.Repeat("\x00", 60),
		"application/octet-stream": random(2000),
		"application/wasm":         "\x00asm\x01\x00\x00\x00" + random(100),
		"application/zip": "PK\x03\x04\x14\x00\x00\x00\x08\x00" +
			random(100),
		"font/woff2": "wOF2\x00\x01\x00\x00" + random(100),
		"audio/mpeg": "ID3\x03\x00\x00\x00\x00\x00\x21" +
			random(100),
		"video/mp4":       "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + random(100),
		"application/pdf": "%PDF-1.4\n1 0 obj << /Type /Catalog >>\n",
		"image/tiff":      "II*\x00\x08\x00\x00\x00" + random(100),
		"image/png": compressed(func(b *bytes.Buffer) {
			png.Encode(b, image.NewGray(image.Rect(0, 0, 9, 9)))
		}),
		"image/gif": compressed(func(b *bytes.Buffer) {
			gif.Encode(b, image.NewGray(image.Rect(0, 0, 9, 9)), nil)
		}),
		"application/x-gzip": compressed(func(b *bytes.Buffer) {
			z := gzip.NewWriter(b)
			z.Write([]byte(words))
			z.Close()
		}),
	} {
		if media, yes := Binary([]byte(body)); !yes || media != want {
			t.Errorf("%.20q is %s, %v, want %s", body, media, yes, want)
		}
	}
	deflated := compressed(func(b *bytes.Buffer) {
		z, _ := flate.NewWriter(b, 9)
		z.Write([]byte(random(3000)))
		z.Close()
	})
	for name, body := range map[string]string{"deflate": deflated,
		"a marked binary": "\xff\xfe" + random(2000),
		"MPEG audio":      "\xff\xfb\x90\x64\x00" + random(2000),
		"UTF-16 of zeros": strings.Repeat("\x00\x00", 500)} {
		if media, yes := Binary([]byte(body)); !yes {
			t.Errorf("%s is text, %s", name, media)
		}
	}
}

// Text in the encodings of the web is not binary, nor is text with a few control characters.
func TestBinaryOfText(t *testing.T) {
	const russian, japanese1, chinese, korean1, western = "Съешь же ещё этих " +
		"мягких французских булок. ", "いろはにほへと ちりぬるを わかよたれそ ", "天地玄黃宇宙洪荒日月盈昃辰宿列張",
		"키스의 고유조건은 입술끼리 만나야 한다. ", "Voix ambiguë d’un cœur qui préfère. "
	for _, c := range []struct {
		name string
		enc  encoding.Encoding
		text string
	}{
		{"windows-1251", charmap.Windows1251, russian}, {"koi8-r", charmap.KOI8R, russian},
		{"ibm866", charmap.CodePage866, russian}, {"windows-1252", charmap.Windows1252, western},
		{"shift_jis", japanese.ShiftJIS, japanese1}, {"euc-jp", japanese.EUCJP, japanese1},
		{"iso-2022-jp", japanese.ISO2022JP, japanese1},
		{"euc-kr", korean.EUCKR, korean1}, {"gb18030", simplifiedchinese.GB18030, chinese},
		{"hz", simplifiedchinese.HZGB2312, "天地宇宙洪荒日月"}, {"big5", traditionalchinese.Big5, chinese},
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
