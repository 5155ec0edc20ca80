package fingerprint

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// BenchmarkText takes many different texts of some 6 kB each, a usual page, and
// long ones. It covers Text from end to end.
func BenchmarkText(b *testing.B) {
	for _, l := range languages {
		rng := rand.New(rand.NewPCG(3, 4))
		all := l.write(rng, 4<<20)
		b.Run(l.name, func(b *testing.B) { benchmarkTexts(b, cut(all, 6<<10)) })
	}
	long := languages[0].write(rand.New(rand.NewPCG(3, 4)), 4<<20)
	b.Run("english/1MB", func(b *testing.B) { benchmarkTexts(b, cut(long, 1<<20)) })
	b.Run("english/600B", func(b *testing.B) { benchmarkTexts(b, cut(long, 600)) })
}

// BenchmarkRealText takes the real texts of the shared data.
func BenchmarkRealText(b *testing.B) {
	b.Run("revisions", func(b *testing.B) { benchmarkTexts(b, revisions(b)) })
	all := declarations(b)
	var texts []string
	for _, d := range all {
		texts = append(texts, d.text)
		switch d.key {
		case "eng", "deu_1996", "rus", "cmn_hans", "jpn", "arb", "hin", "tha", "kor", "vie", "ben", "tam", "mya", "ell_monotonic", "tur", "pes_1", "heb":
			b.Run(d.key, func(b *testing.B) { benchmarkTexts(b, []string{d.text}) })
		}
	}
	b.Run("udhr", func(b *testing.B) { benchmarkTexts(b, texts) })
}

// BenchmarkSpellings takes real texts with all marks as characters of their own.
func BenchmarkSpellings(b *testing.B) {
	for _, d := range declarations(b) {
		switch d.key {
		case "vie", "yor", "nav", "lit", "deu_1996", "ell_polytonic", "ces", "arb", "kor", "jpn":
			b.Run(d.key, func(b *testing.B) { benchmarkTexts(b, []string{norm.NFD.String(d.text)}) })
		}
	}
}

// cut cuts a text into parts of about size bytes, at spaces or full stops.
func cut(text string, size int) (parts []string) {
	for len(text) > size {
		end := size
		for end < len(text) && text[end]&0xC0 == 0x80 {
			end++
		}
		parts = append(parts, text[:end])
		text = text[end:]
	}
	return parts
}

// benchmarkTexts has one op for each text, in turn; SetBytes is their mean size.
func benchmarkTexts(b *testing.B, texts []string) {
	a, err := NewAnalyzer(Options{})
	if err != nil {
		b.Fatal(err)
	}
	size := 0
	for _, s := range texts {
		size += len(s)
		a.Text(s)
	}
	b.SetBytes(int64(size / len(texts)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		a.Text(texts[i])
		if i++; i == len(texts) {
			i = 0
		}
	}
}
