package main

import (
	"errors"

	"github.com/neardup/neardup/compaction"
)

// whenInterrupted says what holds after a subcommand that was interrupted with an error.
func whenInterrupted(name string, err error) string {
	switch {
	case errors.Is(err, compaction.ErrDone):
		return "the work is done"
	case name == "import":
		return "nothing was stored"
	case name == "compact":
		return "no document is changed; run it again to do the rest"
	}
	return "what was printed is done"
}
