package index

import (
	"errors"

	"github.com/neardup/neardup/index/plan"
	"github.com/neardup/neardup/internal/store"
)

// Errors of the store that a caller can act on; match them with errors.Is. An
// index that is not there is fs.ErrNotExist.
var (
	ErrNotIndex = store.ErrNotIndex
	ErrVersion  = store.ErrVersion
	ErrLocked   = store.ErrLocked
	ErrCorrupt  = store.ErrCorrupt
	ErrReadOnly = store.ErrReadOnly
	ErrFailed   = store.ErrFailed
)

// ErrPlan: no plan is as was asked for: k is too large, the limits are too tight, or its
// tables would miss matches.
var ErrPlan = plan.ErrUnusable

var (
	// ErrClosed: the index was closed.
	ErrClosed = errors.New("index is closed")

	// ErrMismatch: the index was made with another k, plan or analyzer than it is
	// opened with.
	ErrMismatch = errors.New("index was made with other options")

	// ErrDistance: a query asks for a larger distance than the index was made for.
	ErrDistance = errors.New("distance beyond that of the index")

	// ErrTooLarge: a key, a scope or a batch is over its limit.
	ErrTooLarge = errors.New("over the limit")
)
