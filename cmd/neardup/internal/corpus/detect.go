package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	document "github.com/neardup/neardup/fingerprint/page"
)

// Format is the format of an input.
type Format string

const (
	// Detect, the zero value, finds the format of each file by its content and its name. What
	// formats says of a beginning decides, then the extension (before .gz, .bz2, .xz or .zst), then
	// what foreign says, then the form of the first lines; other text is text. What is none
	// of these is one skip, and so is what foreign lists.
	Detect       Format = ""
	WARC         Format = "warc"         // WARC 0.17, 0.18, 1.0 and 1.1
	WET          Format = "wet"          // the same: text that was taken from a WARC
	JSONL        Format = "jsonl"        // an object a line
	JSON         Format = "json"         // an array of objects, or objects over any number of lines
	HTMLFile     Format = "html"         // one page a file
	TextFile     Format = "text"         // one text a file
	Fingerprints Format = "fingerprints" // a fingerprint per line, or a fingerprint, a tab and a key; see notation
	Decimal      Format = "decimal"      // a decimal number a line, also of 16 digits; what follows it does not count
	U64LE        Format = "u64le"        // fingerprints of 8 bytes, little-endian; a file is compressed if its name ends with .gz, .bz2, .xz or .zst
)

// formats are all there are. begins is of those that are known by their first bytes, white
// space aside; of those that are certain whatever the name of the file says.
var formats = []struct {
	name       Format
	extensions []string
	begins     func(head []byte) bool
	certain    bool
	read       func(*source)
}{
	{WARC, []string{".warc", ".wet"}, recordStart, true, (*source).archive},
	{WET, nil, nil, false, (*source).archive},
	{JSONL, []string{".jsonl", ".ndjson"}, beginsLines, false, (*source).jsonLines},
	{JSON, nil, beginsJSON, false, (*source).jsonValues},
	{HTMLFile, []string{".html", ".htm", ".xhtml"}, nil, false, func(s *source) { s.wholeFile(HTML) }},
	{TextFile, []string{".txt", ".text", ".md"}, nil, false, func(s *source) { s.wholeFile(Text) }},
	{Fingerprints, []string{".fingerprints"}, nil, false, func(s *source) { s.list(Fingerprints) }},
	{Decimal, nil, nil, false, func(s *source) { s.list(Decimal) }},
	{U64LE, []string{".u64le"}, nil, false, func(s *source) { s.list(U64LE) }},
}

// ParseFormat reads the name of a format; "" is Detect.
func ParseFormat(s string) (Format, error) {
	var names []string
	for _, f := range formats {
		if Format(s) == f.name {
			return f.name, nil
		}
		names = append(names, string(f.name))
	}
	if s == "" {
		return Detect, nil
	}
	return Detect, fmt.Errorf("corpus: unknown format %q: use one of %s", s, strings.Join(names, ", "))
}

// sniffBytes is how much of a file or a document is looked at to tell what it is.
const sniffBytes = 4 << 10

// sniffLines bounds the lines of these bytes that are looked at.
const sniffLines = 100

// detect finds the format of a file.
func (s *source) detect() (Format, *Skip) {
	if f := formatByStart(s.name, s.w.chunk()); f != Detect {
		return f, nil // without waiting for more: the input may be slow
	}
	head := s.w.peek(sniffBytes)
	if c := s.w.corruption(); c != nil {
		return Detect, c.skip()
	}
	return detectFormat(s.name, head)
}

func detectFormat(name string, head []byte) (Format, *Skip) {
	if f := formatByStart(name, head); f != Detect {
		return f, nil
	}
	named := formatByName(name)
	if named == U64LE { // it may begin with any bytes
		return named, nil
	}
	for _, f := range foreign {
		if f.magic != "" && bytes.HasPrefix(head, []byte(f.magic)) {
			return Detect, f.skip()
		}
	}
	if named == HTMLFile || named == TextFile { // an image keeps its first bytes under any name
		if _, err := document.KindOf("text/plain", head); err != nil {
			return Detect, notText(err)
		}
	}
	if named != Detect && named != TextFile {
		return named, nil
	}
	lines := firstLines(string(head), sniffLines, len(head) < sniffBytes)
	if isFingerprintList(lines) {
		return Fingerprints, nil
	}
	for _, f := range foreign {
		if f.is != nil && len(lines) > 0 && f.is(lines) || slices.Contains(f.extensions, extension(name)) {
			return Detect, f.skip()
		}
	}
	switch {
	case named != Detect:
		return named, nil
	case len(head) == 0:
		return Detect, &Skip{Reason: "empty", Document: true}
	}
	kind, err := kindOf("", name, head)
	if err != nil {
		return Detect, notText(err)
	}
	return map[Kind]Format{HTML: HTMLFile, Text: TextFile}[kind], nil
}

func notText(err error) *Skip {
	detail := "if it can be read, name its format"
	if strings.HasPrefix(err.Error(), "not text: image/") {
		detail = "\"neardup import\" reads fingerprints of images that another program made, a perceptual hash"
	}
	return &Skip{Reason: err.Error(), Detail: detail, Document: true, Unrecognized: true}
}

// formatByStart is the format of a file if its first bytes are enough to tell: those of a web
// archive are, those of JSON where the name does not say that it is something else than text.
func formatByStart(name string, head []byte) Format {
	text, named, code := withoutSpace(head), formatByName(name), codeByName[extension(name)]
	for _, f := range formats {
		if f.begins != nil && f.begins(text) && (f.certain || named == Detect && (code == "" || strings.HasPrefix(extension(name), ".json")) || named == TextFile && (bytes.HasPrefix(text, []byte(`{"`)) || bytes.HasPrefix(text, []byte("[{")))) {
			return f.name
		}
	}
	return Detect
}

// beginsLines says whether an object begins in the first line.
func beginsLines(head []byte) bool {
	rest, ok := bytes.CutPrefix(head, []byte("{"))
	rest = bytes.TrimLeft(rest, " \t\r")
	return ok && len(rest) > 0 && rest[0] != '\n'
}

// beginsJSON says whether an array of objects begins, or an object over several lines.
func beginsJSON(head []byte) bool {
	if rest, ok := bytes.CutPrefix(head, []byte("[")); ok {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		return len(rest) > 0 && rest[0] == '{'
	}
	return len(head) > 1 && head[0] == '{' && bytes.HasPrefix(bytes.TrimLeft(head[1:], " \t\r"), []byte("\n"))
}

const byteOrderMark = "\xef\xbb\xbf"

// withoutSpace cuts a byte order mark and white space in front.
func withoutSpace(b []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(b, []byte(byteOrderMark)), " \t\r\n")
}

// compressions are the extensions of compressed files.
var compressions = []string{".gz", ".bz2", ".xz", ".zst"}

// extension returns the extension of a path or URL in lower case, without the extension of a compression and without
// the query of a URL, which wget keeps in the names of files, also after an @.
func extension(name string) string {
	name = strings.ToLower(path.Base(withoutQuery(name)))
	for _, c := range compressions {
		name = strings.TrimSuffix(name, c)
	}
	return path.Ext(name)
}

func formatByName(name string) Format {
	for _, f := range formats {
		if slices.Contains(f.extensions, extension(name)) {
			return f.name
		}
	}
	return Detect
}

type foreignFormat struct {
	name       string
	advice     string
	magic      string
	extensions []string
	is         func(lines []string) bool
}

func (f *foreignFormat) skip() *Skip {
	return &Skip{Reason: "not supported: " + f.name, Detail: f.advice, Document: true, Unrecognized: true}
}

// foreign are formats that are not read, with advice for each. A format is recognized by its first
// bytes, its extension or its first lines. Without this list, a text file of such a format would be
// one document.
var foreign = []foreignFormat{
	{"Parquet", `make JSON lines of it: go install github.com/neardup/neardup/cmd/neardup-parquet@latest; neardup-parquet FILE | neardup dedup --format jsonl -`, "PAR1", nil, nil},
	{"Arrow", `make JSON lines of it, with duckdb or pyarrow`, "ARROW1", nil, nil},
	{"Avro", `make JSON lines of it: avro-tools tojson FILE | neardup dedup --format jsonl -`, "Obj\x01", nil, nil},
	{"SQLite", `print its pages: sqlite3 -json FILE 'SELECT url, html FROM pages' | neardup dedup --format json -`, "SQLite format 3\x00", nil, nil},
	{"lz4", "decompress it: lz4 -dc FILE | neardup dedup -", "\x04\x22\x4d\x18", nil, nil},
	{"7z", "unpack it and name the folder", "7z\xbc\xaf\x27\x1c", nil, nil},
	{"RAR", "unpack it and name the folder", "Rar!\x1a\x07", nil, nil},
	{"PDF", "take the text out of it: pdftotext FILE FILE.txt", "%PDF-", nil, nil},
	{"MHTML", "take the page out of it, as Python's package email does, or save it as HTML", "", []string{".mht", ".mhtml"}, nil},
	{"CDX", "an index of web archives has no text: name the archives", "", []string{".cdx", ".cdxj"}, nil},
	{"a list of URLs", "it has no text: crawl them first, and name what the crawler saved" + orOneText, "", nil, func(lines []string) bool { return all(lines, urlLine.MatchString) }},
	{"CSV", `make JSON lines of it: python3 -c "import csv,json,sys; csv.field_size_limit(1<<30); [print(json.dumps(r)) for r in csv.DictReader(sys.stdin)]" < FILE | neardup dedup --format jsonl --content-field COLUMN -` + orOneText, "", []string{".csv", ".tsv"}, nil},
}

const orOneText = "; if it is one text all the same, --format text"

func all(lines []string, is func(string) bool) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !is(line) })
}

var urlLine = regexp.MustCompile(`^\s*(?i:https?|ftp)://\S+\s*$`)

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
