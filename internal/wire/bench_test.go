package wire

import (
	"encoding/json"
	"testing"

	"github.com/neardup/neardup/internal/match"
)

// BenchmarkLine writes and reads the line of a document, and encoding/json does.
func BenchmarkLine(b *testing.B) {
	line := DocumentLine(&match.Document{Key: "https://www.example.com/12/0123456789abcdef?a=b&c=d", Fingerprint: 0xfedcba9876543210, Tokens: 100})
	raw := line.Append(nil)
	var out []byte
	for name, do := range map[string]func() error{
		"append":    func() error { out = line.Append(out[:0]); return nil },
		"marshal":   func() error { _, err := json.Marshal(&line); return err },
		"parse":     func() error { return new(Line).Parse(raw) },
		"unmarshal": func() error { return json.Unmarshal(raw, new(Line)) },
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
