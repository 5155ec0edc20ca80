package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/documents"
	"github.com/neardup/neardup/internal/sitegen"
)

// TestSiteTexts crawls sites whose products share templates. If sites are ignored, other products
// match one stored page. The summary, the report, stats and the groups must name this page.
// Otherwise the products are stored.
func TestSiteTexts(t *testing.T) {
	var crawl strings.Builder
	contents := make(map[string]bool)
	for _, p := range sitegen.Crawl(sitegen.Product, 1, 40) {
		if !strings.HasPrefix(p.Host, "product-latin") {
			continue
		}
		contents[p.Content] = true
		line, err := json.Marshal(map[string]string{"url": "http://" + p.ID, "text": p.Text})
		must(t, err)
		crawl.Write(append(line, '\n'))
	}
	pages := writeFile(t, "pages.jsonl", crawl.String())
	kept := make(map[bool]int) // products with a stored page
	for _, separate := range []bool{false, true} {
		dir, report := filepath.Join(t.TempDir(), "ix"), filepath.Join(t.TempDir(), "report.html")
		args := []string{"dedup", "--index", dir, "--report", report, pages}
		if !separate {
			args = append(args, "--site-texts", "-1")
		}
		code, out, errs := runHere("", args...)
		stored := make(map[string]bool)
		for line := range strings.Lines(out) {
			var v documents.Line
			must(t, json.Unmarshal([]byte(line), &v))
			if content, _, _ := strings.Cut(strings.TrimPrefix(v.Key, "http://"),
				"?"); v.Verdict == "new" {
				stored[content] = true
			}
		}
		kept[separate] = len(stored)
		const warning, advice = "different texts of one site are duplicates of " +
			"\"http://product-latin-", "set a smaller SiteTexts (--site-texts)"
		if code != exitDone || strings.Contains(errs, warning) == separate ||
			strings.Contains(errs, advice) == separate {
			t.Errorf("separate %v: %d, %s", separate, code, errs)
		}
		if text := readFile(t, report); strings.Contains(text,
			"different texts of one site") == separate {
			t.Errorf("separate %v: the report does not say the same as the summary: %.2000s",
				separate, text)
		}
		if _, out, _ := runHere("", "stats", "--index", dir); strings.Contains(out,
			`"crowded":"about `) == separate {
			t.Errorf("separate %v: stats after a restart: %s", separate, out)
		}
	}
	if len(contents) != 8*40 || kept[false] > len(contents)/4 || kept[true] < len(contents)*9/10 {
		t.Errorf("%d products are kept with --site-texts -1, %d by default, of %d", kept[false],
			kept[true], len(contents))
	}
	t.Logf("%d products are kept with --site-texts -1, %d by default, of %d", kept[false],
		kept[true], len(contents))
}
