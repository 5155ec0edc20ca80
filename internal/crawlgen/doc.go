// Package crawlgen writes the small crawl in testdata/crawl and says which of
// its documents are near-duplicates.
//
// The pages are built from sentences kept under text/ and markup kept under
// layout/; nothing in them was taken from a real site, and every host has a
// reserved name (RFC 2606). The same Options always give the same bytes, on any
// platform and with any Go release, except for the gzip members of the WARC
// file, whose content is fixed but whose compression is not.
//
// What the crawl must show is written beside each document as a group and an
// Expect value; see Document. A test holds the committed files to the generator
// and the fingerprints to the expectations.
package crawlgen

//go:generate go run ./write ../../testdata
