package wire

import (
	"testing"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/match"
)

// BenchmarkLine writes and reads the line of a document.
func BenchmarkLine(b *testing.B) {
	line := OfDocument(&match.Document{Key: "https://www.example.com/12/0123456789abcdef?a=b&c=d", Fingerprint: 0xfedcba9876543210, Tokens: 100})
	raw, err := Encode(&line)
	if err != nil {
		b.Fatal(err)
	}
	var out []byte
	for name, do := range map[string]func() error{
		"append": func() error { out, err = Append(out[:0], &line); return err },
		"parse":  func() error { return Parse(raw, new(api.Document)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
