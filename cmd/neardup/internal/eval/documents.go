package eval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"golang.org/x/sync/errgroup"
)

// Document is what is kept of a document: not its text.
type Document struct {
	ID         string
	Signatures []fingerprint.Signature // one for each seed
	content    [16]byte                // a hash of what was read
}

// empty documents are compared with nothing.
func (d *Document) empty() bool { return d.Signatures[0].Tokens == 0 }

// Documents are those that were read, in order.
type Documents struct {
	All  []Document
	byID map[string]int
}

// Find returns the place of a document.
func (d *Documents) Find(id string) (int, bool) {
	i, ok := d.byID[id]
	return i, ok
}

// Sign makes the signatures of a record, one for each seed.
type Sign func(*corpus.Record) ([]fingerprint.Signature, error)

// ErrDocuments is wrapped by errors that tell of documents that make no sense.
var ErrDocuments = errors.New("invalid documents")

// ReadDocuments reads all documents and has them signed on all cores. Records that are
// skipped are the reader's to account for. Two documents of one ID, and none without one,
// are ErrDocuments.
func ReadDocuments(ctx context.Context, r *corpus.Reader, sign Sign) (*Documents, error) {
	var places []*Document
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for raw, err := range r.RawRecords(ctx) {
		if err != nil {
			return nil, cmp.Or(group.Wait(), err)
		}
		d := new(Document)
		places = append(places, d)
		group.Go(func() error { return d.read(raw, sign) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return collect(slices.DeleteFunc(places, func(d *Document) bool { return d.Signatures == nil }))
}

// read makes the document of a record, unless that is skipped.
func (d *Document) read(raw *corpus.RawRecord, sign Sign) (err error) {
	record := raw.Parse()
	if record.Skip != nil {
		return nil
	}
	d.ID = record.Key
	if d.Signatures, err = sign(&record); err != nil {
		return fmt.Errorf("%s record %d: %w", record.Source, record.Number, err)
	}
	content := record.Content
	if content == nil { // a ready fingerprint: nobody knows what it was made of
		content = []byte(record.Key)
	}
	sum := sha256.Sum256(content)
	copy(d.content[:], sum[:])
	return nil
}

func collect(places []*Document) (*Documents, error) {
	docs := &Documents{byID: make(map[string]int, len(places))}
	for i, d := range places {
		if d.ID == "" {
			return nil, fmt.Errorf("%w: document %d has no id", ErrDocuments, i+1)
		}
		if _, twice := docs.byID[d.ID]; twice {
			return nil, fmt.Errorf("%w: the id %.80q comes twice", ErrDocuments, d.ID)
		}
		docs.byID[d.ID] = i
		docs.All = append(docs.All, *d)
	}
	return docs, nil
}
