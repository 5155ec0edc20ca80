// Package block lays ascending fingerprints, and the documents of each, into blocks of about 1 KB
// (docs/format-blocks.md), and lists of document IDs (docs/format.md).
//
// It guarantees that what is read back is what was written, and that bytes which no writer could have
// made are ErrCorrupt and never a panic or memory without bound. A Block over given bytes does not
// change and may be read from several goroutines at once; a Writer is for one.
package block

import "errors"

// ErrCorrupt: bytes do not follow the format.
var ErrCorrupt = errors.New("corrupt index")
