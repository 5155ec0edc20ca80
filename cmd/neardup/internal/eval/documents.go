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
	"github.com/neardup/neardup/fingerprint/page"
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

// ReadDocuments reads all documents and signs them on all cores, with a signer for each seed; keepTexts is for
// [Labelled.Compare], and takes the memory of all texts. Records that are skipped are the
// reader's to account for.
func ReadDocuments(ctx context.Context, r *corpus.Reader, keepTexts bool, signers []*page.Signer) ([]*Document, error) {
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
			d.read(raw, keepTexts, signers)
			return nil
		})
	}
	group.Wait()
	return slices.DeleteFunc(docs, func(d *Document) bool { return d.Signatures == nil }), nil
}

// read makes the document of a record, unless that is skipped. Of a ready fingerprint nobody knows the text.
func (d *Document) read(raw *corpus.RawRecord, keepText bool, signers []*page.Signer) {
	record := raw.Parse()
	if record.Skip != nil {
		return
	}
	d.ID = record.Key
	if record.Kind == corpus.Fingerprint {
		d.Signatures = slices.Repeat([]fingerprint.Signature{{Fingerprint: record.Fingerprint, Tokens: 1}}, len(signers))
		d.tokens = digestOf([]string{"", record.Key})
		return
	}
	d.sign(signers[0].Text(record.Kind, record.ContentType, record.Content), keepText, signers)
}

func (d *Document) sign(text string, keepText bool, signers []*page.Signer) {
	for _, s := range signers {
		d.Signatures = append(d.Signatures, s.Analyzer().Text(text))
	}
	d.tokens = digestOf(fingerprint.Tokens(text))
	if keepText {
		d.Text = text
	}
}
