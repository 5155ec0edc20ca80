package fingerprint

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkText measures Text with many different texts of about 6 kB, a usual page, and with
// short and long texts.
func BenchmarkText(b *testing.B) {
	a := newAnalyzer(b, Options{})
	run := func(name string, l language, size int) {
		text := l.write(rand.New(rand.NewPCG(3, 4)), 4<<20)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for at := 0; b.Loop(); at = (at + size) % (len(text) - 2*size) {
				a.Text(text[at : at+size])
			}
		})
	}
	for _, l := range languages {
		run(l.name, l, 6<<10)
	}
	run("english/1MB", languages[0], 1<<20)
	run("english/600B", languages[0], 600)
}
