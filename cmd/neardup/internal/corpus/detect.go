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
	"github.com/neardup/neardup/internal/mediatype"
)

// Format is the format of an input.
type Format string

const (
	// Detect, the zero value, detects the format of each file. WARC and JSON are detected by the
	// first bytes, then the extension before .gz, .bz2, .xz or .zst decides, then the first lines.
	// Other text is Text or HTML. A file of another format is one skip.
	Detect   Format = ""
	WARC     Format = "warc"  // WARC 0.17, 0.18, 1.0 and 1.1
	WET      Format = "wet"   // WARC files with the text of pages
	JSONL    Format = "jsonl" // an object per line
	JSON     Format = "json"  // an array of objects, or objects over any number of lines
	HTMLFile Format = "html"  // a page per file
	TextFile Format = "text"  // a text per file
	// a fingerprint per line, optionally with a tab and a key; see notation
	Fingerprints Format = "fingerprints"
	Decimal      Format = "decimal" // a decimal number per line; the rest of a line is ignored
	U64LE        Format = "u64le"   // fingerprints of 8 bytes, little-endian
)

// formats lists all formats.
var formats = []struct {
	name       Format
	extensions []string
	read       func(*source)
}{
	{WARC, []string{".warc", ".wet"}, (*source).archive},
	{WET, nil, (*source).archive},
	{JSONL, []string{".jsonl", ".ndjson"}, (*source).jsonLines},
	{JSON, nil, (*source).jsonValues},
	{HTMLFile, []string{".html", ".htm", ".xhtml"}, func(s *source) { s.wholeFile(HTML) }},
	{TextFile, []string{".txt", ".text", ".md"}, func(s *source) { s.wholeFile(Text) }},
	{Fingerprints, []string{".fingerprints"}, func(s *source) { s.list(Fingerprints) }},
	{Decimal, nil, func(s *source) { s.list(Decimal) }},
	{U64LE, []string{".u64le"}, func(s *source) { s.list(U64LE) }},
}

const (
	// sniffBytes is the number of bytes of a file or a document that detection reads.
	sniffBytes = mediatype.SniffBytes
	// sniffLines is the maximum number of lines in these bytes that detection reads.
	sniffLines = 100
)

// format returns Options.Format, or detects the format of the file.
func (s *source) format() (Format, *Skip) {
	if s.opts.Format != Detect {
		return s.opts.Format, nil
	}
	if f := formatByStart(s.name, s.w.chunk()); f != Detect {
		return f, nil // do not wait for more bytes: the input may be slow
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
	named, contentType := formatByName(name), ""
	switch advice, isUnsupported := unsupported[extension(name)]; {
	case bytes.HasPrefix(head, []byte("filedesc://")): // the first record of each ARC file
		return Detect, notSupported("ARC", "convert it: warcio recompress FILE.arc.gz FILE.warc.gz")
	case isUnsupported:
		return Detect, notSupported(advice[0], advice[1])
	case named == HTMLFile || named == TextFile:
		contentType = "text/plain"
	case named != Detect:
		return named, nil
	}
	if len(head) == 0 {
		return Detect, &Skip{Reason: "empty", Document: true}
	}
	kind, err := kindOf(contentType, name, head)
	if err != nil {
		return Detect, &Skip{Reason: err.Error(), Document: true, Unrecognized: true,
			Detail: "docs/inputs.md lists conversions; --format reads it as another format"}
	}
	lines := firstLines(string(head), sniffLines, len(head) < sniffBytes)
	isURL := func(line string) bool { return urlLine.MatchString(line) }
	switch {
	case named == HTMLFile:
		return HTMLFile, nil
	case isFingerprintList(lines):
		return Fingerprints, nil
	case len(lines) > 0 &&
		!slices.ContainsFunc(lines, func(line string) bool { return !isURL(line) }):
		return Detect, notSupported("a list of URLs",
			"it has no text: crawl them first, and pass the files of the crawler")
	case named == TextFile || kind == Text:
		return TextFile, nil
	}
	return HTMLFile, nil
}

// formatByStart returns the format of a file according to its first bytes, or Detect if they do not
// suffice. If the first bytes are JSON, the extension of a page or of code takes precedence.
func formatByStart(name string, head []byte) Format {
	head = withoutSpace(head)
	if recordStart(head) {
		return WARC
	}
	ext, named := extension(name), formatByName(name)
	if codeByName[ext] != "" && !strings.HasPrefix(ext, ".json") || named != Detect &&
		named != TextFile {
		return Detect
	}
	rest, isArray := bytes.CutPrefix(head, []byte("["))
	if isArray {
		rest = bytes.TrimLeft(rest, whiteSpace)
	}
	rest, isObject := bytes.CutPrefix(rest, []byte("{"))
	inObject := bytes.TrimLeft(rest, whiteSpace)
	switch {
	case !isObject || len(inObject) == 0 || inObject[0] != '"' && inObject[0] != '}':
		return Detect
	case isArray || bytes.IndexByte(rest[:len(rest)-len(inObject)], '\n') >= 0:
		return JSON
	}
	return JSONL
}

const (
	byteOrderMark = "\xef\xbb\xbf"
	whiteSpace    = " \t\r\n"
)

// withoutSpace cuts a byte order mark and white space from the start of b.
func withoutSpace(b []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(b, []byte(byteOrderMark)), whiteSpace)
}

// compressions are the extensions of compressed files.
var compressions = []string{".gz", ".bz2", ".xz", ".zst"}

// extension returns the extension of a path or URL in lower case, without the extension of a
// compression and without the query of a URL. In the file names of wget, a query may follow an @.
func extension(name string) string {
	if end := strings.IndexAny(name, "?@"); end > 0 {
		name = name[:end]
	}
	name = strings.ToLower(path.Base(name))
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

// unsupported has the names of formats that are not read, and advice, by extension. Without it, a
// text file of such a format would be one document.
var unsupported = map[string][2]string{
	".csv": csv, ".tsv": csv, ".mht": mhtml, ".mhtml": mhtml, ".cdx": cdx, ".cdxj": cdx,
	".parquet": parquet,
}

var (
	csv = [2]string{"CSV",
		`convert it to JSON Lines: python3 -c "import csv,json,sys; csv.field_size_limit(1<<30); ` +
			`[print(json.dumps(r)) for r in csv.DictReader(sys.stdin)]" < FILE | neardup dedup --format jsonl --content-field COLUMN -`}
	mhtml   = [2]string{"MHTML", "save the page as HTML"}
	cdx     = [2]string{"CDX", "an index of web archives has no text: pass the archives"}
	parquet = [2]string{"Parquet", "convert it to JSON Lines: go install " +
		"github.com/neardup/neardup/cmd/neardup-parquet@latest; " +
		"neardup-parquet FILE | neardup dedup --format jsonl -"}
)

func notSupported(name, advice string) *Skip {
	return &Skip{Reason: "not supported: " + name, Detail: advice, Document: true,
		Unrecognized: true}
}

var urlLine = regexp.MustCompile(`^\s*(?i:https?|ftp)://\S+\s*$`)

// kindOf returns the kind of a document according to its declared type, its name, which is a URL or
// a path, and its content. It differs from document.KindOf for text without a declared type, which
// may be code or data of a site.
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
		media = dataByContent(content)
	}
	if media != "" {
		return 0, fmt.Errorf("%w: %s", document.ErrNotText, media)
	}
	return kind, nil
}

// codeByName has the media types of code and data of a site by extension.
var codeByName = map[string]string{
	".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
	".cjs": "text/javascript",
	".map": "application/json", ".json": "application/json", ".webmanifest": "application/json",
	".jsonld": "application/json",
	".svg":    "image/svg+xml", ".xml": "application/xml", ".xsl": "application/xml",
	".rdf": "application/xml",
	".rss": "application/rss+xml", ".atom": "application/atom+xml",
}

var xmlStart = regexp.MustCompile(
	`^(?s:<\?xml\b|(<!--.*?-->\s*)?<(svg|rss|feed|urlset|sitemapindex|opml|rdf:RDF)[\s>])`)

// dataByContent returns the media type of JSON and XML, or "" for other text.
func dataByContent(content []byte) string {
	content = withoutSpace(content)
	switch {
	case len(content) > 0 && (content[0] == '{' || content[0] == '[') && isJSON(content):
		return "application/json"
	case xmlStart.Match(content[:min(len(content), sniffBytes)]):
		return "application/xml"
	}
	return ""
}

// isJSON reports whether the first tokens of content are JSON. Content may be truncated.
func isJSON(content []byte) bool {
	d := newDecoder(content)
	for range 100 {
		if _, err := d.ReadToken(); err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
	return true
}

// statusSkip returns the Skip of a response whose HTTP status is not 200.
func statusSkip(status int) *Skip { return &Skip{Reason: fmt.Sprintf("status %d", status)} }
