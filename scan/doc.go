// Package scan compares a collection of fingerprints with many queries at once, while
// it reads the collection from beginning to end and without an index of it: the batch
// plan of Manku, Jain and Das Sarma (WWW 2007, section 3.2 and 3.3), with the tables
// over the queries in memory.
//
// It finds every pair within k bits, each once. The work is a few looks into memory for
// each fingerprint of the collection, however it is stored and ordered; a collection
// that is sorted is faster, since part of these looks are then at the same place.
package scan
