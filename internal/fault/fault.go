// Package fault has the errors of an index that a caller tells apart with errors.Is. They are values
// of a package of their own so that what does not link the store, such as a client at the other end of a
// connection, returns the same ones. The packages that callers know give them names: index, client.
package fault

import "errors"

// What each means is said at its name in package index.
var (
	ErrClosed   = errors.New("index is closed")
	ErrMismatch = errors.New("index was made with other options")
	ErrDistance = errors.New("distance out of range")
	ErrNoText   = errors.New("document without text")
	ErrTooLarge = errors.New("over the limit")
	ErrCorrupt  = errors.New("corrupt index")
	ErrReadOnly = errors.New("index is open for reading only")
	ErrFailed   = errors.New("index takes no more writes after a failed one")
)
