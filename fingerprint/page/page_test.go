package page

import (
	"bytes"
	"strings"
	"testing"
)

// TestXHTML reads pages as a browser does: as XML by the media type, or by the XML
// declaration if there is no media type.
func TestXHTML(t *testing.T) {
	const page = `<?xml version="1.0"?><html><head><title/><script src="a.js" /><style><![CDATA[ x ]]></style></head>` +
		`<body><p><![CDATA[a <b> & c]]></p><div hidden="hidden"/><iframe/><svg><title/></svg><p>d &amp; e]]></p></body></html>`
	for contentType, want := range map[string]string{
		"application/xhtml+xml": "a <b> & c\nd & e]]>", "": "a <b> & c\nd & e]]>", "text/html": "",
	} {
		if _, got := titleAndText([]byte(page), contentType, Visible); got != want {
			t.Errorf("%q: %q, want %q", contentType, got, want)
		}
	}
	if _, got := titleAndText([]byte(strings.ReplaceAll(page, "/>", "></i>")), "text/html",
		Visible); strings.Contains(got, "& c") {
		t.Errorf("%q has a CDATA section", got)
	}
}

// titleAndText returns the title and the text of an HTML page, read as a Signer does.
func titleAndText(body []byte, contentType string, mode TextMode) (title, text string) {
	decoded, _ := decode(body, contentType)
	e := extract(decoded, mode, isXHTML(contentType, decoded))
	defer e.release()
	return e.title, string(e.result())
}

// collapse returns s with each run of ASCII white space replaced by one space, and none at either
// end.
func collapse(s []byte) string {
	return string(bytes.Join(bytes.FieldsFunc(s, isSpace), []byte{' '}))
}

func isSpace(r rune) bool {
	return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f'
}
