package compare

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/markusmobius/go-trafilatura"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
)

const shared = "../../../../shared/data/"

// document is a page that was crawled again and again, with the main text that
// a person's CSS selectors pick.
type document struct{ ID, Group, Site, HTML, Main string }

func open(t testing.TB, name string) io.Reader {
	t.Helper()
	f, err := os.Open(shared + name)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("skipped: the folder ../shared/data of real pages is missing")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// recrawls reads one document in so many.
func recrawls(t testing.TB, every int) (docs []document) {
	t.Helper()
	lines := json.NewDecoder(bufio.NewReader(open(t, "recrawls/docs.jsonl.gz")))
	for i := 0; ; i++ {
		var d document
		if err := lines.Decode(&d); err == io.EOF {
			return docs
		} else if err != nil {
			t.Fatal(err)
		}
		if i%every == 0 {
			docs = append(docs, d)
		}
	}
}

func ours(t testing.TB, mode page.TextMode, body string) string {
	t.Helper()
	p, err := page.Extract([]byte(body), "", page.Options{Text: mode})
	if err != nil {
		t.Fatal(err)
	}
	return p.Text
}

// library is the library's main text, and like ours the visible text where it
// finds too little.
func library(t testing.TB, body string) string {
	t.Helper()
	r, err := trafilatura.Extract(strings.NewReader(body), trafilatura.Options{ExcludeComments: true})
	if err != nil || len(r.ContentText) < 200 {
		return ours(t, page.Visible, body)
	}
	return r.ContentText
}

// every is one in how many documents a test takes that runs the library.
func every() int {
	switch {
	case os.Getenv("NEARDUP_LONG") != "":
		return 1
	case testing.Short():
		return 43
	}
	return 17
}

// TestWords compares the words of main texts with those that a person chose.
func TestWords(t *testing.T) {
	docs := recrawls(t, every())
	var oursF, libraryF float64
	for _, d := range docs {
		p, r := overlap(ours(t, page.Main, d.HTML), d.Main)
		lp, lr := overlap(library(t, d.HTML), d.Main)
		oursF += harmonic(p, r) / float64(len(docs))
		libraryF += harmonic(lp, lr) / float64(len(docs))
	}
	t.Logf("%d pages: mean F1 of words %.3f, the library's %.3f", len(docs), oursF, libraryF)
	if oursF < libraryF-0.01 {
		t.Errorf("the library finds more of the main text: %.3f against %.3f", libraryF, oursF)
	}
}

func harmonic(p, r float64) float64 {
	if p+r == 0 {
		return 0
	}
	return 2 * p * r / (p + r)
}

// overlap is how much of the words of got are in want, and of want in got.
func overlap(got, want string) (precision, recall float64) {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	counts := map[string]int{}
	a, b := words(got), words(want)
	for _, w := range a {
		counts[w]++
	}
	common := 0.0
	for _, w := range b {
		if counts[w]--; counts[w] >= 0 {
			common++
		}
	}
	return common / float64(max(1, len(a))), common / float64(max(1, len(b)))
}

// TestFingerprints is the table of docs/quality.md: what the fingerprints of
// each text find among the pages that were crawled again.
func TestFingerprints(t *testing.T) {
	if os.Getenv("NEARDUP_LONG") == "" {
		t.Skip("skipped: set NEARDUP_LONG=1 to run the library over all pages")
	}
	docs := recrawls(t, 1)
	texts := map[string]func(d document) string{
		"visible": func(d document) string { return ours(t, page.Visible, d.HTML) },
		"main":    func(d document) string { return ours(t, page.Main, d.HTML) },
		"library": func(d document) string { return library(t, d.HTML) },
		"given":   func(d document) string { return d.Main },
	}
	visible, main := similarities(t, "visible"), similarities(t, "main")
	for _, name := range []string{"visible", "main", "library", "given"} {
		var of []string
		for _, d := range docs {
			of = append(of, texts[name](d))
		}
		for _, rule := range []rule{{3, 64}, {3, 14}, {6, 14}} {
			var sums [4]float64
			const seeds = 20
			for seed := range uint64(seeds) {
				s := signatures(t, of, seed)
				p, r := rule.score(docs, s, visible, nil)
				sums[0], sums[1] = sums[0]+p/seeds, sums[1]+r/seeds
				p, r = rule.score(docs, s, main, visible)
				sums[2], sums[3] = sums[2]+p/seeds, sums[3]+r/seeds
			}
			t.Logf("%-8s k=%d shingle<=%d  by visible text: precision %.3f recall %.3f F1 %.3f  by main text: precision %.3f recall %.3f F1 %.3f",
				name, rule.k, rule.shingle, sums[0], sums[1], harmonic(sums[0], sums[1]), sums[2], sums[3], harmonic(sums[2], sums[3]))
		}
	}
}

func signatures(t *testing.T, texts []string, seed uint64) (s []fingerprint.Signature) {
	t.Helper()
	a, err := fingerprint.NewAnalyzer(fingerprint.Options{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		s = append(s, a.Text(text))
	}
	return s
}

// similarities are the labels, by the identifiers of both documents.
func similarities(t *testing.T, text string) map[[2]string]float64 {
	t.Helper()
	labels := map[[2]string]float64{}
	lines := bufio.NewScanner(open(t, "recrawls/pairs."+text+".tsv.gz"))
	for lines.Scan() {
		fields := bytes.Split(lines.Bytes(), []byte{'\t'})
		s, err := strconv.ParseFloat(string(fields[0]), 64)
		if err != nil || len(fields) != 3 {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		labels[pair(string(fields[1]), string(fields[2]))] = s
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return labels
}

func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

type rule struct{ k, shingle int }

// score is precision and recall of a rule. Pairs of one text are left out, and
// so are different documents that are one page by the labels in samePage: a
// site shows four of its policies on one page, which no text of it can tell
// apart.
func (r rule) score(docs []document, s []fingerprint.Signature, labels, samePage map[[2]string]float64) (precision, recall float64) {
	var hit, found, positive float64
	for i := range docs {
		for j := range i {
			p := pair(docs[i].ID, docs[j].ID)
			label := labels[p]
			switch {
			case label >= 0.8 && label < 0.9, label == 1:
				continue
			case samePage != nil && docs[i].Group != docs[j].Group && samePage[p] >= 0.8:
				continue
			}
			match := s[i].Fingerprint.Distance(s[j].Fingerprint) <= r.k && s[i].Shingle.Distance(s[j].Shingle) <= r.shingle
			if match {
				found++
			}
			if label >= 0.9 {
				positive++
				if match {
					hit++
				}
			}
		}
	}
	return hit / max(1, found), hit / max(1, positive)
}

func BenchmarkMainText(b *testing.B) {
	docs := recrawls(b, 17)
	size := 0
	for _, d := range docs {
		size += len(d.HTML)
	}
	run := func(name string, text func(string) string) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				for _, d := range docs {
					text(d.HTML)
				}
			}
		})
	}
	run("ours", func(body string) string { return ours(b, page.Main, body) })
	run("library", func(body string) string { return library(b, body) })
}
