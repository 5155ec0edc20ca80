// Package eval measures how well fingerprints distinguish near-duplicates from other documents. It
// computes precision and recall for each Hamming distance k from labelled pairs, as in figure 1 of
// Manku, Jain and Das Sarma (WWW 2007).
//
// A pair of documents is positive (a near-duplicate) if its similarity is at least PositiveAt. It
// is negative if its similarity is below NegativeBelow, or if it has no label. Pairs with a
// similarity in between are ignored. Precision and recall are computed over all pairs of documents.
// Pairs whose texts have equal tokens are left out, because any hash finds them.
//
// The result of one hash function on some thousand pairs depends on chance. Therefore each value is
// measured with several hash seeds, and reported as mean and standard deviation.
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

// Document has the signatures of a document and, on request, its text.
type Document struct {
	ID         string
	Signatures []fingerprint.Signature // one per seed
	Text       string                  // only if ReadDocuments keeps texts
	tokens     digest
}

// digest identifies a token sequence.
type digest [16]byte

func digestOf(tokens []string) (d digest) {
	sum := sha256.Sum256([]byte(strings.Join(tokens, " ")))
	copy(d[:], sum[:])
	return d
}

// empty reports whether the document has no tokens. Such a document is not compared.
func (d *Document) empty() bool { return d.Signatures[0].Tokens == 0 }

// ReadDocuments reads all documents and signs them on all cores, with one signer per seed. If
// keepTexts is set, it keeps the texts in memory for [Labelled.Compare]. The reader counts
// skipped records.
func ReadDocuments(
	ctx context.Context, r *corpus.Reader, keepTexts bool, signers []*page.Signer,
) ([]*Document, error) {
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

// read sets d to the document of a record that is not skipped. A record with a fingerprint has no
// text.
func (d *Document) read(raw *corpus.RawRecord, keepText bool, signers []*page.Signer) {
	record := raw.Parse()
	if record.Skip != nil {
		return
	}
	d.ID = record.Key
	if record.Kind == corpus.Fingerprint {
		d.Signatures = slices.Repeat(
			[]fingerprint.Signature{{Fingerprint: record.Fingerprint, Tokens: 1}}, len(signers))
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
