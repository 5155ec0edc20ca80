// Package scan compares a collection of fingerprints with many queries at once, while
// it reads the collection from beginning to end and without an index of it: the batch
// plan of Manku, Jain and Das Sarma (WWW 2007, section 3.2 and 3.3), with the tables
// over the queries in memory.
//
// It finds every pair within k bits, each once. The work is a few looks into memory for
// each fingerprint of the collection, however it is stored and ordered; a collection
// that is sorted is faster, since part of these looks are then at the same place.
//
// # Memory
//
// A query takes 12 bytes, 4 more if some are equal, and in each table 12 and up to 8 for
// the table's buckets: 92 to 96 bytes with the four tables of k = 3, 12 + 20 (k+1) at
// most. Filters take at most Options.FilterBytes, by default 1 GiB: 256 MiB in all for a
// million queries, k = 3 and a collection of a hundred million, half of that for one of
// ten million. A scan itself takes 24 KiB for each goroutine.
//
// # Queries that have much in common
//
// What shares a bucket is compared one by one, which takes a nanosecond or two for each
// fingerprint that the filter lets through and query. So a scan for queries that all begin
// alike, or are numbers in a row, is slower than one for as many that are spread.
package scan
