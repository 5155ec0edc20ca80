package match_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
	"github.com/neardup/neardup/internal/sitegen"
)

// TestEditedTexts measures the part of edited texts of 400 words that match the original by the
// default rule with k = 7. It must not be below a minimum per kind of edit.
func TestEditedTexts(t *testing.T) {
	const words, texts = 400, 500
	edits := []struct {
		name string
		edit func(r *rand.Rand, text, other []string) []string
		min  float64
	}{
		{"5 % of the words replaced", func(r *rand.Rand, text, other []string) []string {
			for _, i := range r.Perm(len(text))[:len(text)/20] {
				text[i] = other[i]
			}
			return text
		}, 0.9},
		{"5 % of the text replaced by one passage", func(_ *rand.Rand, text,
			other []string) []string {
			return slices.Concat(text[:200], other[:20], text[220:])
		}, 0.97},
		{"20 % of another text inserted in the middle",
			func(_ *rand.Rand, text, other []string) []string {
				return slices.Concat(text[:200], other[:80], text[200:])
			}, 0},
		{"halves swapped", func(_ *rand.Rand, text, _ []string) []string {
			return slices.Concat(text[200:], text[:200])
		}, 0.99},
		{"text repeated", func(_ *rand.Rand, text, _ []string) []string {
			return slices.Concat(text, text)
		}, 0},
	}
	for _, e := range edits {
		line := fmt.Sprintf("%s:", e.name)
		for n, script := range sitegen.Scripts {
			analyzer, err := fingerprint.NewAnalyzer(fingerprint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			rule, found := match.Default(7), 0
			for i := range texts {
				r := rand.New(rand.NewPCG(uint64(n), uint64(i)))
				text, other := sitegen.Text(script, r, words), sitegen.Text(script, r, words)
				a := analyzer.Text(strings.Join(text, " "))
				b := analyzer.Text(strings.Join(e.edit(r, slices.Clone(text), other), " "))
				if d := a.Fingerprint.Distance(b.Fingerprint); d <= rule.MaxDistance &&
					rule.Allows(d, a, b) {
					found++
				}
			}
			part := float64(found) / texts
			if line += fmt.Sprintf(" %s %.3f", script, part); part < e.min {
				t.Errorf("%s, %s: %.3f found, want %.2f", e.name, script, part, e.min)
			}
		}
		t.Log(line)
	}
}
