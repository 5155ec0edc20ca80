package api

import (
	"errors"

	"github.com/neardup/neardup/internal/fault"
)

// Errors to match with errors.Is. All except the first two are the errors of package index.
var (
	// ErrBusy: the server is at a limit. Nothing was done; try again later.
	ErrBusy = errors.New("server is busy")
	// ErrUnauthorized: the request has no token, or a wrong one.
	ErrUnauthorized = errors.New("token is missing or wrong")

	ErrClosed   = fault.ErrClosed
	ErrCorrupt  = fault.ErrCorrupt
	ErrDistance = fault.ErrDistance
	ErrFailed   = fault.ErrFailed
	ErrMismatch = fault.ErrMismatch
	ErrNoText   = fault.ErrNoText
	ErrReadOnly = fault.ErrReadOnly
	ErrTooLarge = fault.ErrTooLarge
)
