package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup/internal/sitegen"
)

// TestSiteTexts crawls sites whose products share templates. If sites are ignored, other products
// match one stored page. The summary, the report and stats must name this page. Otherwise the
// products are stored.
func TestSiteTexts(t *testing.T) {
	const products = 8 * 40
	var crawl strings.Builder
	for _, p := range sitegen.Crawl(sitegen.Product, 1, 40) {
		if strings.HasPrefix(p.Host, "product-latin") {
			line, err := json.Marshal(map[string]string{"url": "http://" + p.ID, "text": p.Text})
			must(t, err)
			crawl.Write(append(line, '\n'))
		}
	}
	pages := writeFile(t, "pages.jsonl", crawl.String())
	for _, ignored := range []bool{true, false} {
		dir, report := filepath.Join(t.TempDir(), "ix"), filepath.Join(t.TempDir(), "report.html")
		args := []string{"dedup", "--index", dir, "--report", report, pages}
		if ignored {
			args = append(args, "--site-texts", "-1")
		}
		code, out, errs := runHere("", args...)
		kept := make(map[string]bool) // products with a stored page
		for _, line := range linesOf(t, out) {
			if product, _, _ := strings.Cut(line.Key, "?"); line.Verdict == "new" {
				kept[product] = true
			}
		}
		if code != exitDone || ignored && len(kept) > products/4 ||
			!ignored && (len(kept) < products*9/10 || len(kept) > products) {
			t.Errorf("sites are ignored: %t; %d of %d products are kept; exit code %d", ignored,
				len(kept), products, code)
		}
		const warning = "different texts of one site"
		stats := mustRun(t, "stats", "--index", dir) // after a restart
		for _, warned := range []bool{
			strings.Contains(errs, warning+" are duplicates of \"http://product-latin-"),
			strings.Contains(errs, "set a smaller SiteTexts (--site-texts)"),
			strings.Contains(readFile(t, report), warning),
			strings.Contains(stats, `"crowded":"about `),
		} {
			if warned != ignored {
				t.Errorf("sites are ignored: %t, want the same in the summary, the report and "+
					"stats:\n%s%s", ignored, errs, stats)
			}
		}
	}
}
