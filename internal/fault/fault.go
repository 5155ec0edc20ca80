// Package fault defines the sentinel errors of an index. They have their own package so that
// packages that do not link the store, such as the client, return the same errors. The public
// packages index and client export them.
package fault

import (
	"errors"
	"io/fs"
	"syscall"
)

// Package index documents each error.
var (
	ErrNotIndex = errors.New("not a neardup index")
	ErrVersion  = errors.New("unknown index format")
	ErrLocked   = errors.New("index is open elsewhere")
	ErrClosed   = errors.New("index is closed")
	ErrMismatch = errors.New("index was made with other options")
	ErrDistance = errors.New("distance out of range")
	ErrNoText   = errors.New("document without text")
	ErrTooLarge = errors.New("over the limit")
	ErrCorrupt  = errors.New("corrupt index")
	ErrReadOnly = errors.New("index is open for reading only")
	ErrFailed   = errors.New("index accepts no writes after a failed write")
)

// Denied reports whether an error means that the system denied the process a resource, such as
// another open file. Such an error does not indicate a damaged file.
func Denied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
