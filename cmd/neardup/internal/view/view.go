// Package view makes what people look at: the report of a run, one file that needs no network, and
// the pages of a server. They are HTML without scripts and without anything from elsewhere, and say
// so in a Content-Security-Policy; every URL and text in them is taken to be hostile.
package view

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

//go:embed templates/*.html
var files embed.FS

//go:embed style.css
var style string

// styleHash is what a policy lets the style in by.
var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// policy lets the style in, and forms where a page has them, and nothing else.
func policy(forms string) string {
	return "default-src 'none'; style-src " + styleHash + "; img-src data:; base-uri 'none'; form-action " + forms
}

var functions = template.FuncMap{
	"style":   func() template.CSS { return template.CSS(style) },
	"count":   count,
	"percent": percent,
	"key":     shownKey,
	"text":    corpus.Escape,
	"limits":  limits,
	"bits":    newBits,
	"bytes":   humanize.IBytes,
	"ratio":   func(r float64) string { return strconv.FormatFloat(r, 'f', 2, 64) },
}

// parsed is the template of a page, with the parts that it is made of. It is parsed when it is first
// asked for: most commands show no page.
func parsed(names ...string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		t := template.New("layout.html").Funcs(functions)
		for _, name := range append([]string{"layout.html", "parts.html"}, names...) {
			t = template.Must(t.ParseFS(files, "templates/"+name))
		}
		return t
	})
}

// count is a whole number with its thousands set apart.
func count(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// shortCount is a number in few characters.
func shortCount(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if v >= unit.of {
			if unit.name == "k" {
				unit.of = 1e3
			}
			return strconv.FormatFloat(v/unit.of, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func percent(part, of int64) string {
	if of == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(part)/float64(of), 'f', 1, 64) + " %"
}

func durationText(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// shownKey is a key as it is shown: long ones without their middle, and what is not printable escaped.
func shownKey(key string) string {
	const most = 300
	if len(key) > most {
		key = strings.ToValidUTF8(key[:most*2/3], "") + " ... " + strings.ToValidUTF8(key[len(key)-most/3:], "")
	}
	return corpus.Escape(key)
}

// Count is how often something was.
type Count struct {
	Name   string
	N      int64
	Share  float64 // of the largest, for a bar
	Colour string
}

// setShares gives each its share of the largest.
func setShares(counts []Count) {
	most := int64(1)
	for _, c := range counts {
		most = max(most, c.N)
	}
	for i := range counts {
		counts[i].Share = 100 * float64(counts[i].N) / float64(most)
	}
}

// limitRow is a limit of two documents that are beside each other.
type limitRow struct {
	Name, Value, Most string
	Share             float64 // of the limit, at most 100
	Beyond            bool
	Decides           bool
	Colour            string
}

// limits are those of a comparison.
func limits(r *compare.Result) (rows []limitRow) {
	_, nearest := r.Nearness()
	add := func(name, limit string, value, most any) {
		share, counts := r.Share(limit)
		if !counts {
			return
		}
		row := limitRow{Name: name, Value: fmt.Sprint(value), Most: fmt.Sprint(most), Share: min(100, 100*share), Colour: "a"}
		if row.Beyond = slices.Contains(r.Decided, limit); row.Beyond {
			row.Colour = "b"
		}
		row.Decides = row.Beyond || r.Match && limit == nearest
		rows = append(rows, row)
	}
	add("Bits that differ", compare.ByDistance, r.Distance, r.MaxDistance)
	if r.ShingleDistance != nil {
		add("Bits, with the shingles", compare.ByShingle, *r.ShingleDistance, r.MaxShingle)
	}
	add("Times as long", compare.ByLength, strconv.FormatFloat(r.LengthRatio, 'f', 2, 64), r.MaxLengthRatio)
	return rows
}

// Write writes one file.
func (r *Report) Write(w io.Writer) error { return reportTemplate().Execute(w, r.page()) }
