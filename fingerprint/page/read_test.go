package page

// Page is what Extract finds.
type Page struct {
	// Title is the text of the first title element, white space collapsed.
	// It is not part of visible Text: a browser shows it outside the page.
	Title string
	// Text has one line for each block of the page that has text; inside a
	// line, runs of ASCII white space are one space.
	Text string
	// Charset is the encoding that the body was decoded with, by its name in
	// the WHATWG Encoding Standard: "utf-8", "windows-1252", "gbk".
	Charset string
}

// Extract reads an HTML page as a Signer does. The only error is a mode that this version does
// not know.
func Extract(body []byte, contentType string, mode TextMode) (Page, error) {
	if err := mode.check(); err != nil {
		return Page{}, err
	}
	decoded, charset := decode(body, contentType)
	e := extract(decoded, mode)
	defer e.release()
	return Page{Title: e.title, Text: string(e.result()), Charset: charset}, nil
}
