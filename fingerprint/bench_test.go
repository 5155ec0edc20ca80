package fingerprint

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkAccumulator(b *testing.B) {
	const n = 4096
	rng := rand.New(rand.NewPCG(1, 2))
	hashes, weights := make([]uint64, n), make([]int, n)
	for i := range hashes {
		hashes[i], weights[i] = rng.Uint64(), 1+rng.IntN(40)
	}
	// One op is one feature: b.Loop would keep Add from being inlined.
	b.Run("weight=1", func(b *testing.B) {
		var a Accumulator
		b.ReportAllocs()
		for i := range b.N {
			a.Add(hashes[i%n], 1)
		}
	})
	b.Run("weight=1..40", func(b *testing.B) {
		var a Accumulator
		b.ReportAllocs()
		for i := range b.N {
			a.Add(hashes[i%n], weights[i%n])
		}
	})
	// One op is one slice.
	for _, n := range []int{100, 530, 4000} {
		b.Run(fmt.Sprintf("slice=%d", n), func(b *testing.B) {
			var a Accumulator
			b.ReportAllocs()
			b.SetBytes(int64(8 * n))
			for b.Loop() {
				a.addAll(hashes[:n])
			}
		})
	}
	// One op is all that a text of 600 bytes needs.
	b.Run("short", func(b *testing.B) {
		var a Accumulator
		b.ReportAllocs()
		for b.Loop() {
			a.Reset()
			a.addAll(hashes[:100])
			a.Fingerprint()
		}
	})
	b.Run("fingerprint", func(b *testing.B) {
		var a Accumulator
		a.addAll(hashes[:1000])
		b.ReportAllocs()
		for b.Loop() {
			a.Add(hashes[0], 1)
			a.Fingerprint()
		}
	})
}

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
