// Package archive finds the texts of documents in web archives and files of JSON Lines. It keeps
// the position of each document, which takes 24 bytes, and reads the text when it is needed.
//
// It returns the words of a document only if the text has the signature of the document. So they
// are the words of the text that was stored, even if the files changed later.
package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/compare"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
)

// MaxDocuments is the maximum number of documents whose positions are kept.
const MaxDocuments = 8_000_000

// ErrNotSeekable is matched by the error for a file whose records cannot be read by position.
var ErrNotSeekable = errors.New("its records cannot be read by position")

var errWhole = fmt.Errorf("%w: it is compressed as a whole: pass it uncompressed, or as a web "+
	"archive that is compressed record by record", ErrNotSeekable)

// Archive is a set of open files with the positions of their documents. It is safe for concurrent
// use.
type Archive struct {
	signer *page.Signer
	files  []*os.File
	seed   maphash.Seed
	places []place // sorted by hash; of equal hashes, the last document first
	left   int64   // number of documents beyond MaxDocuments
}

// place is the position of a document.
type place struct {
	hash   uint64 // of the key
	offset int64
	file   int
}

// Open reads the files once to find the positions of their documents. Each file is a web archive,
// without compression or with one compressed member per record, or JSON Lines without compression.
// Any other file is an error. show shows the progress of a reader until stop is called.
func Open(
	ctx context.Context, files []string, signer *page.Signer,
	show func(*corpus.Reader) (stop func()),
) (*Archive, error) {
	a := &Archive{signer: signer, seed: maphash.MakeSeed()}
	for _, name := range files {
		if err := a.add(ctx, name, show); err != nil {
			return nil, errors.Join(fmt.Errorf("archive %s: %w", name, err), a.Close())
		}
	}
	slices.Reverse(a.places)
	slices.SortStableFunc(a.places, func(a, b place) int { return cmp.Compare(a.hash, b.hash) })
	a.places = slices.Clip(a.places)
	return a, nil
}

func (a *Archive) add(
	ctx context.Context, name string, show func(*corpus.Reader) (stop func()),
) error {
	// opening a pipe would wait for its writer
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return cmp.Or(err, fmt.Errorf("%w: it is not a regular file", ErrNotSeekable))
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	a.files = append(a.files, file)
	reader, err := corpus.New([]string{name}, corpus.Options{Originals: true})
	if err != nil {
		return err
	}
	defer show(reader)()
	last, key := place{offset: -1}, ""
	for raw, err := range reader.RawRecords(ctx) {
		if err != nil {
			return err
		}
		r := raw.Parse()
		if r.Skip != nil || r.Key == "" || r.Kind == corpus.Fingerprint {
			continue
		}
		if last.offset >= 0 && r.Offset <= last.offset {
			return errWhole
		}
		last, key = place{a.hash(r.Key), r.Offset, len(a.files) - 1}, r.Key
		if len(a.places) == MaxDocuments {
			a.left++
			continue
		}
		a.places = append(a.places, last)
	}
	if last.offset < 0 {
		return nil
	}
	if r, err := a.read(ctx, last); err != nil || r == nil || r.Key != key {
		return errWhole
	}
	return reader.Broken()
}

func (a *Archive) hash(key string) uint64 { return maphash.String(a.seed, key) }

// read reads the document at a position. It returns nil if there is no document.
func (a *Archive) read(ctx context.Context, at place) (*corpus.Record, error) {
	file := a.files[at.file]
	o := corpus.Options{Opened: map[string]io.Reader{
		file.Name(): io.NewSectionReader(file, at.offset, 1<<62)}}
	first := make([]byte, 16)
	n, _ := file.ReadAt(first, at.offset)
	if first = bytes.TrimLeft(first[:n], " \t\r\n"); bytes.HasPrefix(first, []byte("{")) {
		o.Format = corpus.JSONL
	}
	reader, err := corpus.New([]string{file.Name()}, o)
	if err != nil {
		return nil, err
	}
	for raw, err := range reader.RawRecords(ctx) {
		if err != nil {
			return nil, err
		}
		r := raw.Parse()
		if r.Skip != nil {
			return nil, nil
		}
		return &r, nil
	}
	return nil, ctx.Err()
}

// Documents returns the number of documents whose positions are kept.
func (a *Archive) Documents() int { return len(a.places) }

// Left returns the number of documents beyond MaxDocuments.
func (a *Archive) Left() int64 { return a.left }

// Words returns the words in the first compare.MaxText bytes of the text of a document, or nil if
// no file has the text that was stored.
func (a *Archive) Words(ctx context.Context, d *index.Document) (words []string, err error) {
	_, err = a.find(ctx, d.Key, func(r *corpus.Record) bool {
		words = a.words(r, d)
		return words != nil
	})
	return words, err
}

// Page returns the last page with a URL, or nil.
func (a *Archive) Page(ctx context.Context, url string) (*neardup.Page, error) {
	r, err := a.find(ctx, url, func(*corpus.Record) bool { return true })
	if err != nil || r == nil {
		return nil, err
	}
	return &neardup.Page{URL: r.Key, ContentType: r.ContentType, Body: r.Content, Kind: r.Kind}, nil
}

// find returns the last record with a key that is accepted, or nil. It reads at most 8 records.
func (a *Archive) find(
	ctx context.Context, key string, accepts func(*corpus.Record) bool,
) (*corpus.Record, error) {
	hash := a.hash(key)
	at, _ := slices.BinarySearchFunc(a.places, hash,
		func(p place, hash uint64) int { return cmp.Compare(p.hash, hash) })
	for tries := 0; at < len(a.places) && a.places[at].hash == hash &&
		tries < 8; at, tries = at+1, tries+1 {
		r, err := a.read(ctx, a.places[at])
		if err != nil {
			return nil, err
		}
		if r != nil && r.Key == key && accepts(r) {
			return r, nil
		}
	}
	return nil, nil
}

func (a *Archive) words(r *corpus.Record, d *index.Document) []string {
	if a.signer.SignKind(r.Kind, r.ContentType, r.Content) != d.Signature() {
		return nil
	}
	return compare.Words(a.signer.Text(r.Kind, r.ContentType, r.Content), compare.MaxText)
}

// Close closes the files.
func (a *Archive) Close() error {
	var errs []error
	for _, f := range a.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
