// Package eval measures how well fingerprints tell near-duplicates from other
// documents: precision and recall against the Hamming distance k, the figure 1 of
// Manku, Jain and Das Sarma (WWW 2007), from labelled pairs.
//
// A pair of documents is positive, a near-duplicate, when its similarity is at
// least PositiveAt; it is negative when the similarity is below NegativeBelow, and
// so is every pair without a label; what lies between counts as neither. Precision
// and recall are over all pairs of documents. Pairs whose texts are identical are
// left out: any hash finds them.
//
// What one hash function makes of some thousand pairs is partly luck, so everything
// is measured with several seeds, and given as mean and standard deviation.
package eval
