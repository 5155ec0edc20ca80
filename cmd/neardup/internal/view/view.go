// Package view renders the report of a run and the web pages of a server. The HTML has no scripts
// and loads nothing, which its Content-Security-Policy enforces. Keys and texts are untrusted.
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

	"github.com/dustin/go-humanize"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
)

//go:embed templates/*.html
var files embed.FS

//go:embed style.css
var style string

// styleHash is the source of the style in a policy.
var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// policy returns the Content-Security-Policy of a page. forms is its form-action.
func policy(forms string) string {
	return "default-src 'none'; style-src " + styleHash +
		"; img-src data:; base-uri 'none'; form-action " + forms
}

var functions = template.FuncMap{
	"style":   func() template.CSS { return template.CSS(style) },
	"count":   count,
	"percent": percent,
	"key":     shownKey,
	"text":    corpus.Escape,
	"limits":  limits,
	"bytes":   humanize.IBytes,
	"ratio":   func(r float64) string { return strconv.FormatFloat(r, 'f', 2, 64) },
}

// parsed returns a function that returns the template of a page. The first call parses it, since
// most commands show no page.
func parsed(names ...string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		t := template.New("layout.html").Funcs(functions)
		for _, name := range append([]string{"layout.html", "parts.html"}, names...) {
			t = template.Must(t.ParseFS(files, "templates/"+name))
		}
		return t
	})
}

// count formats a whole number with spaces between thousands.
func count(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

func percent(part, of int64) string {
	if of == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(part)/float64(of), 'f', 1, 64) + " %"
}

// shownKey formats a key: a long key loses its middle, and characters that are not printable are
// escaped.
func shownKey(key string) string {
	const most = 300
	if len(key) > most {
		key = strings.ToValidUTF8(key[:most*2/3], "") + " ... " +
			strings.ToValidUTF8(key[len(key)-most/3:], "")
	}
	return corpus.Escape(key)
}

// Count is a row of a table of counts.
type Count struct {
	Name   string
	N      int64
	Share  float64 // of the largest N, in percent
	Colour string
}

// countTable is a table of counts with bars.
type countTable struct {
	Caption, Name, Unit string // Name and Unit are the heads of columns
	Rows                []Count
	Keys                bool  // the names are keys
	Total               int64 // 0: no column with the share of the total
}

// tableOf returns a table, and sets the shares of its rows.
func tableOf(caption, name, unit string, rows []Count) *countTable {
	most := int64(1)
	for _, c := range rows {
		most = max(most, c.N)
	}
	for i := range rows {
		rows[i].Share = 100 * float64(rows[i].N) / float64(most)
	}
	return &countTable{Caption: caption, Name: name, Unit: unit, Rows: rows}
}

var verdictColours = map[string]string{"new": "a", "duplicate": "b", "changed": "c",
	"unchanged": "d", "skipped": "e"}

// verdictTable returns a table of counts by verdict. The rows have the names of verdicts.
func verdictTable(caption, unit string, rows []Count) *countTable {
	t := tableOf(caption, "verdict", unit, rows)
	for i := range rows {
		rows[i].Colour = verdictColours[rows[i].Name]
		t.Total += rows[i].N
	}
	return t
}

// limitRow is a limit in the comparison of two documents.
type limitRow struct {
	Name, Value, Most string
	Share             float64 // of the limit, in percent, at most 100
	Beyond            bool
	Decides           bool
	Colour            string
}

// limits returns a row for each limit that applies to a comparison.
func limits(r *compare.Result) (rows []limitRow) {
	_, nearest := r.Nearness()
	add := func(name, limit string, value, most any) {
		share, counts := r.Share(limit)
		if !counts {
			return
		}
		row := limitRow{Name: name, Value: fmt.Sprint(value), Most: fmt.Sprint(most),
			Share: min(100, 100*share), Colour: "a"}
		if row.Beyond = slices.Contains(r.Decided, limit); row.Beyond {
			row.Colour = "b"
		}
		row.Decides = row.Beyond || r.Match && limit == nearest
		rows = append(rows, row)
	}
	add("Distance in bits", compare.ByDistance, r.Distance, r.MaxDistance)
	if r.ShingleDistance != nil {
		add("Distance with the shingles", compare.ByShingle, *r.ShingleDistance, r.MaxShingle)
	}
	add("Length ratio", compare.ByLength, strconv.FormatFloat(r.LengthRatio, 'f', 2, 64),
		r.MaxLengthRatio)
	return rows
}

// Write writes the report as an HTML file.
func (r *Report) Write(w io.Writer) error { return reportTemplate().Execute(w, r.page()) }
