package main

import (
	"strings"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
)

// inputFlags say what to read and how to make fingerprints of it.
type inputFlags struct {
	call        *call
	format      string
	maxDocument int64
	fields      corpus.Fields
	scope       string
	text        string
	window      int
	weight      string
	cap         int
	shortWords  int
}

func (c *call) inputFlags() *inputFlags {
	f := &inputFlags{call: c}
	c.flags.StringVar(&f.format, "format", "", "`format` of all inputs: warc, wet, jsonl, html, text, fingerprints, decimal or u64le (default: found by content and name)")
	c.flags.Int64Var(&f.maxDocument, "max-document", 16, "largest document in `MiB`; larger ones are skipped")
	c.flags.StringVar(&f.fields.Key, "key-field", "", "JSON `field` of the key (default url, id or key)")
	c.flags.StringVar(&f.fields.Content, "content-field", "", "JSON `field` of the content (default html, main, text or content)")
	c.flags.StringVar(&f.fields.Scope, "scope-field", "", "JSON `field` of the scope (default scope)")
	c.flags.StringVar(&f.fields.Fingerprint, "fingerprint-field", "", "JSON `field` of a ready fingerprint (default fingerprint)")
	return f
}

func (f *inputFlags) scopeFlag() *inputFlags {
	f.call.flags.StringVar(&f.scope, "scope", "none", "compare only documents of one `scope`: none, host (of the key) or field (of JSON lines)")
	return f
}

func (f *inputFlags) analyzerFlags() *inputFlags {
	f.call.flags.StringVar(&f.text, "text", "visible", "`text` of an HTML page: visible, or main (without navigation and the like)")
	f.call.flags.IntVar(&f.window, "window", 0, "`words` a feature: 1, or k for k-shingles (default 0: single words, and the first two of each new row of four)")
	f.call.flags.StringVar(&f.weight, "weight", "capped", "`weight` of a feature: capped (count, at most -cap), count, sqrt, log or once")
	f.call.flags.IntVar(&f.cap, "cap", 0, "most that a feature `counts` with -weight capped (0: 100, or 16 with -window)")
	f.call.flags.IntVar(&f.shortWords, "min-words", 0, "`words` below which only equal texts meet (0: 50, -1: never)")
	return f
}

func (f *inputFlags) reader() (*corpus.Reader, error) { return f.readerOf(f.call.args) }

// readerOf returns a reader of inputs that are not the arguments.
func (f *inputFlags) readerOf(inputs []string) (*corpus.Reader, error) {
	if len(inputs) == 0 {
		return nil, usagef("no input; - is standard input")
	}
	format, err := corpus.ParseFormat(f.format)
	if err != nil {
		return nil, usagef("%v", err)
	}
	if f.maxDocument < 1 || f.maxDocument > 1<<20 {
		return nil, usagef("-max-document is %d MiB, want 1 to %d", f.maxDocument, 1<<20)
	}
	if f.scope != "" && f.scope != "none" && f.scope != "host" && f.scope != "field" {
		return nil, usagef("-scope is %q, want none, host or field", f.scope)
	}
	return corpus.New(inputs, corpus.Options{
		Format:      format,
		MaxDocument: f.maxDocument << 20,
		Fields:      f.fields,
		Stdin:       f.call.in,
	})
}

// analyzer makes fingerprints of documents.
type analyzer struct {
	*page.Signer
	name string // what the index records; "" where the inputs bring fingerprints
}

var weights = map[string]fingerprint.Weight{
	"capped": fingerprint.CappedCount,
	"count":  fingerprint.Count,
	"sqrt":   fingerprint.Sqrt,
	"log":    fingerprint.Log,
	"once":   fingerprint.Once,
}

// texts are the modes of -text, by name.
var texts = map[string]page.TextMode{"visible": page.Visible, "main": page.Main}

func (f *inputFlags) analyzer() (*analyzer, error) { return f.seededAnalyzer(0) }

// seededAnalyzer is the analyzer with another hash.
func (f *inputFlags) seededAnalyzer(seed uint64) (*analyzer, error) {
	weight, known := weights[f.weight]
	if !known {
		return nil, usagef("-weight is %q, want capped, count, sqrt, log or once", f.weight)
	}
	mode, known := texts[f.text]
	if !known {
		return nil, usagef("-text is %q, want visible or main", f.text)
	}
	signer, err := page.NewSigner(page.Options{Text: mode}, fingerprint.Options{
		Window: f.window, Weight: weight, Cap: f.cap, ShortWords: f.shortWords, Seed: seed,
	})
	if err != nil {
		return nil, usagef("%v", err)
	}
	if f.ready() {
		return &analyzer{signer, ""}, nil
	}
	return &analyzer{signer, signer.Name()}, nil
}

// ready reports whether the inputs bring fingerprints.
func (f *inputFlags) ready() bool {
	format := corpus.Format(f.format)
	return format == corpus.Fingerprints || format == corpus.Decimal || format == corpus.U64LE
}

// signature returns the signature of a document, and takes its content off it, so that
// the memory is free once the text is found.
func (a *analyzer) signature(r *corpus.Record) fingerprint.Signature {
	if r.Kind == corpus.Fingerprint {
		return fingerprint.Signature{Fingerprint: r.Fingerprint, Features: 1}
	}
	content := r.Content
	r.Content = nil
	return a.SignKind(kindOf(r), r.ContentType, content)
}

func kindOf(r *corpus.Record) page.Kind {
	if r.Kind == corpus.HTML {
		return page.HTML
	}
	return page.PlainText
}

// scopeOf returns the scope of a record as -scope says.
func (f *inputFlags) scopeOf(r *corpus.Record) string {
	switch f.scope {
	case "host":
		return corpus.Host(r.Key)
	case "field":
		return strings.Clone(r.Scope)
	}
	return ""
}
