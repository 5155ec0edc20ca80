// Package compare holds the main text of package page to that of
// github.com/markusmobius/go-trafilatura, a Go port of the extractor that is
// the usual yardstick. It is a module of its own so that nothing else needs
// that library and the modules behind it.
//
// The comparison is by what counts for near-duplicates: how well the pairs of
// the shared data's re-crawled pages are told from others by the fingerprints
// of the text (TestFingerprints), and how much of the words is that of a main
// text that a person chose (TestWords); and by speed (BenchmarkMainText).
package compare
