// Package corpus reads the inputs of the command: web archives, JSON, HTML and
// text files, folders, zip and tar files of them, and lists of fingerprints,
// plain or compressed with gzip, bzip2, xz or Zstandard. What it does not read it
// knows by name.
//
// It gives a stream of records. Each record is a document or a skip with a
// reason and a position, and each is counted: records == documents + skips,
// always. Broken input never stops the run, is never passed over in silence
// and never takes more memory than a small multiple of Options.MaxDocument,
// whatever lengths it declares and however far it decompresses. (One thing is
// held besides: the names in the folders on the path to the current file,
// since they are read in sorted order.) Only an input that cannot be opened
// ends the run with an error. Where a file itself is broken (cut off, a wrong
// checksum, an error of the disk), what can be read of it is read, and
// Reader.Broken says so at the end.
package corpus

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
	document "github.com/neardup/neardup/fingerprint/page"
)

// Kind says what a document is made of.
type Kind = document.Kind

const (
	HTML        = document.HTML          // Content is a page, in the encoding that it came in
	Text        = document.PlainText     // Content is plain text, in the encoding that it came in
	Fingerprint = document.PlainText + 1 // Record.Fingerprint is set, Content is nil
)

// Record is a document, or a skip where Skip is not nil.
type Record struct {
	// Source is the file, as it was given or found in a folder that was given
	// (with slashes), or "-" for standard input.
	Source string
	// Number counts the records of the source, from 1.
	Number int64
	// Offset is where the record begins: in bytes of the source file where
	// that is not compressed; in bytes of the compressed file where the record
	// begins a gzip member, as in a web archive compressed record by record;
	// else in bytes of the decompressed stream.
	Offset int64

	Key         string // URL, absolute path or ID; empty if the record has none
	Scope       string // JSON lines only
	Kind        Kind
	ContentType string // as declared by the input, with its charset
	Content     []byte // belongs to the receiver; never empty where Kind is HTML or Text
	Fingerprint fingerprint.Fingerprint

	// Original is the record as it stands in its file. It is set with Options.Originals, where the
	// record is a document or a warcinfo.
	Original *Original

	Skip *Skip
}

// Original is a record with the bytes that it has in its file, apart from the compression of the
// file.
type Original struct {
	Format     Format
	Compressed bool   // the file is compressed
	Header     []byte // of a WARC record, with the empty line that ends it
	Body       []byte // the block of a WARC record, or a line of JSON with its line end
	// Member is the gzip member that consists of the WARC record, compressed as in the file. If it is
	// set, Header and Body are not.
	Member []byte
}

func (o *Original) bytes() int {
	if o == nil {
		return 0
	}
	return len(o.Header) + len(o.Body) + len(o.Member)
}

// The reasons of the skips of malformed lines and objects.
const (
	BadJSON        = "bad json"
	BadFingerprint = "bad fingerprint"
)

// Skip says why a record is no document.
type Skip struct {
	// Reason is short and one of few: "revisit", "status 404", "too large",
	// "not text: image/png", "truncated gzip", "bad json".
	Reason string
	// Detail says more about this one record; it may be empty.
	Detail string
	// Document is true where the record was a document, or may have held
	// some, that could not be read or used. It is false where there is nothing
	// to miss: a request, a revisit, a redirect.
	Document bool
	// Broken is true if the file is damaged or could not be read, so that an
	// unknown part of it is missing. See Reader.Broken.
	Broken bool
	// Unrecognized is true if the record is a whole file whose format is unknown,
	// or is known and not read.
	Unrecognized bool
	// PassedOver is true if the record is a file that is left out on purpose, such as a
	// hidden file or a file of a crawl that repeats its archives.
	PassedOver bool
	// Err is the error behind it, if there was one.
	Err error
}

func (s *Skip) Error() string {
	if s.Detail == "" {
		return s.Reason
	}
	return s.Reason + ": " + s.Detail
}

func (s *Skip) Unwrap() error { return s.Err }

func tooLarge(limit int64) *Skip {
	return &Skip{Reason: "too large", Detail: fmt.Sprintf("more than %d bytes", limit), Document: true}
}

// DefaultMaxDocument is the default of Options.MaxDocument: 16 MiB.
const DefaultMaxDocument = 16 << 20

// Options of a Reader. The zero value is ready to use.
type Options struct {
	// Format forces the format of all inputs. Default Detect.
	Format Format
	// MaxDocument is the size in bytes of the largest document, after all
	// decompression; a larger one is skipped as "too large". At worst some 10
	// times as much memory is in use (TestMemory measures it), and a
	// Zstandard window of up to 128 MiB. Default DefaultMaxDocument.
	MaxDocument int64
	// Fields names the fields of JSON lines.
	Fields Fields
	// Originals are the formats of the files whose records are wanted as they stand there, none by
	// default. A file of another one, or of another kind than the file before, ends the run with
	// ErrNoOriginals. Each record then holds some MaxDocument bytes more, or a line of JSON.
	Originals []Format
	// Stdin is read for the input "-". Default os.Stdin.
	Stdin io.Reader
	// Output is the file that what comes of the records is written to, nil for none. To read it would
	// never end: as an input it is an error, in a folder a skip.
	Output os.FileInfo
	// Opened are inputs that are open already, by name: what was read of a pipe is gone from it.
	Opened map[string]io.Reader

	names *fieldNames // of Fields
}

// Fields are the names of the fields of JSON lines. A dot leads into an object, where the name
// as a whole is not one: "response.body". An empty name stands for the usual names,
// which usualFields lists.
type Fields struct {
	Key     string // a string or a number
	Content string // a string
	Scope   string // a string or a number
}

func (o Options) withDefaults() (Options, error) {
	if _, err := ParseFormat(string(o.Format)); err != nil {
		return o, err
	}
	if o.MaxDocument < 0 || o.MaxDocument > math.MaxInt/16 {
		return o, fmt.Errorf("MaxDocument is %d: want 1 to %d, or 0 for %d", o.MaxDocument, math.MaxInt/16, DefaultMaxDocument)
	}
	if o.MaxDocument == 0 {
		o.MaxDocument = DefaultMaxDocument
	}
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	o.names = newFieldNames(&o.Fields)
	return o, nil
}

// QuoteKey returns a key as it is written in lists, for lines and for terminals: as it is,
// or, where it begins with a double quote or has anything that is not printable, such
// as a line break, a tab or an escape character, as a string in double quotes with the
// escapes of Go and C: \n, \t, \", \\, \xHH for a byte, \uHHHH for a character.
func QuoteKey(key string) string {
	if isPrintable(key) && !strings.HasPrefix(key, `"`) {
		return key
	}
	return strconv.Quote(key)
}

// KeyBytes returns a key that is not valid UTF-8, and nil for other keys. In JSON strings, U+FFFD
// replaces invalid bytes.
func KeyBytes(key string) []byte {
	if utf8.ValidString(key) {
		return nil
	}
	return []byte(key)
}

// UnquoteKey undoes QuoteKey. Columns may follow a quoted key, each after a tab. They do not
// change. A field that is not quoted correctly is returned as it is.
func UnquoteKey(field string) string {
	if !strings.HasPrefix(field, `"`) {
		return field
	}
	quoted, err := strconv.QuotedPrefix(field)
	if err != nil {
		return field
	}
	columns := field[len(quoted):]
	if columns != "" && columns[0] != '\t' {
		return field
	}
	key, err := strconv.Unquote(quoted)
	if err != nil {
		return field
	}
	return key + columns
}

// Escape returns a diagnostic with escaped control characters, so that a key or a file name
// cannot control a terminal.
func Escape(message string) string {
	if isPrintable(message) {
		return message
	}
	quoted := strconv.Quote(message)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

func isPrintable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
}

// Host is the host of a key that is a URL: lower-case, without user, port or
// final dot; empty where the key has none. It never fails: URLs of a crawl are
// often not valid ones.
func Host(key string) string {
	scheme, rest, ok := strings.Cut(key, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		rest = rest[:end]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	if strings.HasPrefix(rest, "[") { // an IPv6 address
		address, _, ok := strings.Cut(rest, "]")
		if !ok {
			return ""
		}
		return strings.ToLower(address) + "]"
	}
	rest, _, _ = strings.Cut(rest, ":")
	return strings.ToLower(strings.TrimSuffix(rest, "."))
}
