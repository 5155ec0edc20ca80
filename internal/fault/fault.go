// Package fault has the errors of an index that a caller tells apart with errors.Is. They are values
// of a package of their own so that what does not link the store, such as a client at the other end of a
// connection, returns the same ones. The packages that callers know give them names: index, client.
package fault

import (
	"errors"
	"io/fs"
	"syscall"
)

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

// Denied reports whether an error is that the system refuses something to the process, such as one file more. That says nothing
// of what is in the file, so it is no damage.
func Denied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
