// Package corpus reads the inputs of the command: web archives, JSON, HTML and text files, folders,
// zip and tar files, and lists of fingerprints, plain or compressed with gzip, bzip2, xz or
// Zstandard.
//
// A Reader returns a stream of records. Each record is a document, or a skip with a reason and a
// position. The totals count each record, and records = documents + skips. Damaged input never
// stops the run: the reader returns what it can read of a damaged file, and Reader.Broken reports
// the damage at the end. Only an input that cannot be opened ends the run with an error.
//
// The reader needs at most a small multiple of Options.MaxDocument of memory. This bound does not
// depend on the lengths that the input declares, or on its size after decompression. In addition,
// it keeps the names in the folders on the path to the current file, because it reads folders in
// sorted order.
package corpus

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/neardup/neardup/fingerprint"
	document "github.com/neardup/neardup/fingerprint/page"
)

// Kind is the kind of a document.
type Kind = document.Kind

const (
	HTML        = document.HTML          // Content is a page in its original encoding
	Text        = document.PlainText     // Content is plain text in its original encoding
	Fingerprint = document.PlainText + 1 // Record.Fingerprint is set, and Content is nil
)

// Record is a document, or a skip if Skip is not nil.
type Record struct {
	// Source is the path of the file with slashes, as it was given or found in a folder that was
	// given, or "-" for standard input.
	Source string
	// Number is the number of the record in the source, from 1.
	Number int64
	// Offset is the position of the record: in bytes of the compressed file if the record begins a
	// gzip member, or else in bytes of the decompressed stream.
	Offset int64

	Key         string // URL, absolute path or ID; empty if the record has none
	Scope       string // of JSON records only
	Kind        Kind
	ContentType string // as declared by the input, with its charset
	Content     []byte // belongs to the receiver; never empty if Kind is HTML or Text
	Fingerprint fingerprint.Fingerprint

	// Original is set for documents and warcinfo records, with Options.Originals.
	Original *Original

	Skip *Skip
}

// Original has the bytes of a record in its file. Only Member is compressed.
type Original struct {
	Format     Format
	Compressed bool   // the file is compressed
	Header     []byte // of a WARC record, with the empty line that ends it
	Body       []byte // the block of a WARC record, or a line of JSON with its line end
	// Member is the gzip member that consists of the WARC record, compressed as in the file. If it
	// is set, Header and Body are not.
	Member []byte
}

func (o *Original) bytes() int {
	if o == nil {
		return 0
	}
	return len(o.Header) + len(o.Body) + len(o.Member)
}

// OriginalFormats are the formats of records with an Original. WARC and WET are one format.
var OriginalFormats = []Format{WARC, WET, JSONL}

// The skip reasons of malformed lines and objects.
const (
	BadJSON        = "bad json"
	BadFingerprint = "bad fingerprint"
)

// Skip states why a record is not a document. It is an error.
type Skip struct {
	// Reason is one of few short texts: "revisit", "status 404", "too large",
	// "not text: image/png", "truncated gzip", "bad json".
	Reason string
	// Detail describes this record; it may be empty.
	Detail string
	// Document is true if a document may have been lost. It is false for records that are not
	// documents by their type, such as requests, revisits and redirects.
	Document bool
	// Broken is true if the file is damaged or could not be read, so that an unknown part of it is
	// missing. See Reader.Broken.
	Broken bool
	// Unrecognized is true if the record is a whole file whose format is unknown or not supported.
	Unrecognized bool
	// PassedOver is true if the record is a file that is left out on purpose, such as a hidden file
	// or a file of a crawl that repeats its archives.
	PassedOver bool
	// Err is the cause, or nil.
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
	return &Skip{Reason: "too large", Detail: fmt.Sprintf("more than %d bytes", limit),
		Document: true}
}

// DefaultMaxDocument is the default of Options.MaxDocument: 16 MiB.
const DefaultMaxDocument = 16 << 20

// Options are the options of a Reader. The zero value is ready to use.
type Options struct {
	// Format is the format of all inputs. The default is Detect.
	Format Format
	// MaxDocument is the size in bytes of the largest document after decompression. A larger
	// document is the skip "too large". Reading needs at most about 10 times as much memory, and a
	// Zstandard window of up to 128 MiB. The default is DefaultMaxDocument.
	MaxDocument int64
	// Fields are the names of the fields of JSON records.
	Fields Fields
	// Originals sets Record.Original. A file whose format is not in OriginalFormats, or is not the
	// format of the first file, ends the run with ErrNoOriginals. Each record then takes about
	// MaxDocument bytes more at most, or a line of JSON.
	Originals bool
	// Stdin is the input "-". The default is os.Stdin.
	Stdin io.Reader
	// Output is the output file of the command, or nil. Since reading it might never end, it is an
	// error as an input, and a skip in a folder.
	Output os.FileInfo
	// Opened has inputs that are already open, by name.
	Opened map[string]io.Reader

	names *fieldNames // of Fields
}

// Fields are the names of the fields of JSON records. A dot selects a field of an object, unless
// the record has a field with the whole name: "response.body". The defaults are in usualFields.
type Fields struct {
	Key     string // a string or a number
	Content string // a string
	Scope   string // a string or a number
}

func (o Options) withDefaults() Options {
	o.MaxDocument = cmp.Or(o.MaxDocument, DefaultMaxDocument)
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	o.names = newFieldNames(&o.Fields)
	return o
}
