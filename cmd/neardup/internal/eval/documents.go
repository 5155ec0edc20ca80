// Package eval measures how well fingerprints tell near-duplicates from other
// documents: precision and recall against the Hamming distance k, the figure 1 of
// Manku, Jain and Das Sarma (WWW 2007), from labelled pairs.
//
// A pair of documents is positive, a near-duplicate, when its similarity is at
// least PositiveAt; it is negative when the similarity is below NegativeBelow, and
// so is every pair without a label; what lies between counts as neither. Precision
// and recall are over all pairs of documents. Pairs whose texts have equal tokens are
// left out: any hash finds them.
//
// What one hash function makes of some thousand pairs is partly luck, so everything
// is measured with several seeds, and given as mean and standard deviation.
package eval

import (
	"context"
	"crypto/sha256"
	"runtime"
	"slices"
	"strings"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"golang.org/x/sync/errgroup"
)

// Document is what is kept of a document.
type Document struct {
	ID         string
	Signatures []fingerprint.Signature // one for each seed
	Text       string                  // only if it was asked for
	tokens     digest
}

// digest tells sequences of tokens apart.
type digest [16]byte

func digestOf(tokens []string) (d digest) {
	sum := sha256.Sum256([]byte(strings.Join(tokens, " ")))
	copy(d[:], sum[:])
	return d
}

// empty documents are compared with nothing.
func (d *Document) empty() bool { return d.Signatures[0].Tokens == 0 }

// Sign finds the text of a record, unless it is a ready fingerprint, and makes its signatures,
// one for each seed.
type Sign func(*corpus.Record) (text string, signatures []fingerprint.Signature)

// ReadDocuments reads all documents and has them signed on all cores; keepTexts is for
// [Labelled.Compare], and takes the memory of all texts. Records that are skipped are the
// reader's to account for.
func ReadDocuments(ctx context.Context, r *corpus.Reader, keepTexts bool, sign Sign) ([]*Document, error) {
	var docs []*Document
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for raw, err := range r.RawRecords(ctx) {
		if err != nil {
			group.Wait()
			return nil, err
		}
		d := new(Document)
		docs = append(docs, d)
		group.Go(func() error {
			d.read(raw, keepTexts, sign)
			return nil
		})
	}
	group.Wait()
	return slices.DeleteFunc(docs, func(d *Document) bool { return d.Signatures == nil }), nil
}

// read makes the document of a record, unless that is skipped.
func (d *Document) read(raw *corpus.RawRecord, keepText bool, sign Sign) {
	record := raw.Parse()
	if record.Skip != nil {
		return
	}
	var text string
	d.ID = record.Key
	text, d.Signatures = sign(&record)
	if record.Kind == corpus.Fingerprint { // nobody knows what it was made of
		d.tokens = digestOf([]string{"", record.Key})
		return
	}
	d.tokens = digestOf(fingerprint.Tokens(text))
	if keepText {
		d.Text = text
	}
}
