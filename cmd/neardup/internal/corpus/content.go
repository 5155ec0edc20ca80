package corpus

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	document "github.com/neardup/neardup/fingerprint/page"
)

// kindOf returns the kind of a document by its declared type, its name, which is a URL or a path, and its
// content. It is document.KindOf, except that text of no declared type may be code or data of a site.
func kindOf(contentType, name string, content []byte) (Kind, error) {
	kind, err := document.KindOf(contentType, content)
	if err != nil || kind != Text {
		return kind, err
	}
	if declared, _ := document.KindOf(contentType, nil); declared == Text {
		return kind, nil
	}
	media := codeByName[extension(name)]
	if media == "" {
		media = codeByContent(content)
	}
	if media != "" {
		return 0, fmt.Errorf("%w: %s", document.ErrNotText, media)
	}
	return kind, nil
}

// codeByName are the media types of text that is no document but code or data of a site, by extension.
var codeByName = map[string]string{
	".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript", ".cjs": "text/javascript",
	".map": "application/json", ".json": "application/json", ".webmanifest": "application/json", ".jsonld": "application/json",
	".svg": "image/svg+xml", ".xml": "application/xml", ".xsl": "application/xml", ".rdf": "application/xml",
	".rss": "application/rss+xml", ".atom": "application/atom+xml",
}

var (
	xmlStart  = regexp.MustCompile(`^(?s:<\?xml\b|(<!--.*?-->\s*)?<(svg|rss|feed|urlset|sitemapindex|opml|rdf:RDF)[\s>])`)
	cssStart  = regexp.MustCompile(`^(?s:/\*.*?\*/\s*)*(@(charset|import|media|font-face|namespace|keyframes)\b[^\n]*[;{]|[-\w.#:*\[\]="',>~+() ]{1,200}\{\s*[-a-z]+\s*:[^{};<>]+[;}])`)
	codeStart = regexp.MustCompile(`^(?s:/\*.*?\*/\s*|//[^\n]*\n\s*)*(["']use strict["']|[!+;]?\(?(async )?function\b *\w*\(|[!+;]?\(\(?[\w, ]*\)? *=>|(var|let|const) [\w$]+ *=|import [\w$*{}, ]+ from ["']|(window|self|module|exports|define)[.\[(][^\n]*[=(])`)
)

// codeByContent returns the media type of text that is code or data by its first bytes, "" for other text.
func codeByContent(content []byte) string {
	head := withoutSpace(content[:min(len(content), sniffBytes)])
	switch {
	case len(head) == 0:
		return ""
	case (head[0] == '{' || head[0] == '[') && isJSON(withoutSpace(content)):
		return "application/json"
	case xmlStart.Match(head):
		return "application/xml"
	case cssStart.Match(head):
		return "text/css"
	case codeStart.Match(head):
		return "text/javascript"
	}
	return ""
}

// isJSON reports whether content is JSON objects or arrays, or its beginning is, if it is cut or long.
func isJSON(content []byte) bool {
	d := newDecoder(content)
	for n := range 100 {
		if _, err := d.ReadToken(); err == io.EOF {
			return n > 2
		} else if err != nil {
			return n > 3 && errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
	return true
}

// statusSkip is the Skip of an answer whose HTTP status is not 200.
func statusSkip(status int) *Skip { return &Skip{Reason: fmt.Sprintf("status %d", status)} }

// withoutQuery returns a name up to the query that follows it, as in the files of wget.
func withoutQuery(name string) string {
	if end := strings.IndexAny(name, "?@"); end > 0 {
		return name[:end]
	}
	return name
}
