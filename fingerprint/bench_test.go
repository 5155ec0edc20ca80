package fingerprint

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkText measures Text with many different texts of about 6 kB, a usual page, and with
// long texts.
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

// benchmarkTexts analyzes one text per operation, in turn. SetBytes gets their mean size.
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
