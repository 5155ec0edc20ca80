// Package match says what an index knows of a page, and which of its documents match. It
// stores nothing, so what is above and below the index can share it.
package match

import (
	"time"

	"github.com/neardup/neardup/fingerprint"
)

// Document is what the index knows of a page.
type Document struct {
	// ID is given by the index: 1, 2, 3, ... in order of arrival, never twice.
	// It is ignored on the way in.
	ID uint64

	// Key is the caller's name for the page, a URL as a rule. It is optional.
	// Adding a key that is known replaces the document that has it.
	Key string

	Fingerprint fingerprint.Fingerprint

	// Shingle is the second fingerprint of an Analyzer's Signature; 0 if there is none.
	Shingle fingerprint.Fingerprint

	// Tokens is how long the text is, a Signature's Tokens; 0 if it is not known.
	Tokens int

	// Scope sets documents apart: only those of one scope are ever compared. The
	// empty scope is one like any other.
	Scope string

	// Added is when the index stored the document, in whole seconds, UTC. It is
	// ignored on the way in.
	Added time.Time
}

// Signature returns what an Analyzer has said of the page.
func (d *Document) Signature() fingerprint.Signature {
	return fingerprint.Signature{Fingerprint: d.Fingerprint, Shingle: d.Shingle, Tokens: d.Tokens}
}
