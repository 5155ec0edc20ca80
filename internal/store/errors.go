package store

import (
	"errors"

	"github.com/neardup/neardup/internal/store/block"
)

var (
	// ErrNotIndex: the directory holds something, but not an index.
	ErrNotIndex = errors.New("not a neardup index")

	// ErrVersion: the index was written in a format that this version does not know.
	ErrVersion = errors.New("unknown index format")

	// ErrLocked: another process, or another Open in this one, has the index open.
	ErrLocked = errors.New("index is open elsewhere")

	// ErrCorrupt: bytes in the index do not follow docs/format.md.
	ErrCorrupt = block.ErrCorrupt

	// ErrReadOnly: a write to an index that was opened for reading only.
	ErrReadOnly = errors.New("index is open for reading only")

	// ErrFailed: a write could not be made durable, or the work behind writes fails
	// again and again, so no further write is taken; the error says why. What is stored
	// can be read. Close the index and open it again, in this process or another: all
	// that was acknowledged is there, and what met the failure may be, whole.
	ErrFailed = errors.New("index takes no more writes after a failed one")
)
