// Package store keeps the bytes of an index on disk: one Pebble database whose
// keyspaces, keys and values are laid down in docs/format.md.
//
// It guarantees that a Batch is visible and durable whole or not at all, that a
// View sees one moment of the database, and that a directory that is not an
// index of a format it knows is refused with a named error and left as it was.
// It knows nothing of Hamming distances: what a table is for is package index's
// affair.
//
// A Store, its Views and its Batches may be used from several goroutines at
// once, but any one View or Batch only by one at a time.
package store
