// Package match says what an index knows of a page, which of its documents match, and what it
// can be asked. It stores nothing, so what is above and below the index, and a client far from it, can
// share it.
package match

import (
	"fmt"
	"math"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/fault"
)

// Limits of what is stored with a document.
const (
	MaxKeyBytes   = 64 << 10
	MaxScopeBytes = 64 << 10
	MaxTokens     = math.MaxInt32
)

// Document is what the index knows of a page.
type Document struct {
	// ID is given by the index: 1, 2, 3, ... in order of arrival, never twice.
	// It is ignored on the way in.
	ID uint64

	// Key is the caller's name for the page, a URL as a rule. It is optional.
	// Adding a key that is known replaces the document that has it. At most 64 KiB.
	Key string

	Fingerprint fingerprint.Fingerprint

	// Shingle is the second fingerprint of an Analyzer's Signature; 0 if there is none.
	Shingle fingerprint.Fingerprint

	// Digest identifies the text, a Signature's Digest; 0 if there is none.
	Digest fingerprint.Digest

	// Tokens is how long the text is, a Signature's Tokens, up to 2^31-1; 0 if it is not known.
	Tokens int

	// Scope sets documents apart: only those of one scope are ever compared. The
	// empty scope is one like any other. At most 64 KiB.
	Scope string

	// Added is when the index stored the document, in whole seconds, UTC. It is
	// ignored on the way in.
	Added time.Time
}

// LastSecond is the last second of the year 9999. JSON has no later time.
const LastSecond = 253_402_300_799

// Second is a time as the clock of an index has it: the nearest Unix second from 0 to LastSecond.
func Second(t time.Time) uint64 {
	return uint64(min(max(t.Unix(), 0), LastSecond))
}

// Signature returns the Signature of the document, without Short. If the Signatures of two
// documents are equal, so are their texts as far as is known: a document without a Digest, which
// somebody has stored by its fingerprint alone, has only its other fields to compare.
func (d *Document) Signature() fingerprint.Signature {
	return fingerprint.Signature{Fingerprint: d.Fingerprint, Shingle: d.Shingle, Digest: d.Digest, Tokens: d.Tokens}
}

// Validate checks a document as every call that stores one does. Error: ErrTooLarge.
func Validate(d *Document) error {
	if d.Tokens < 0 || d.Tokens > MaxTokens {
		return fmt.Errorf("%w: %d tokens, want 0 to %d", fault.ErrTooLarge, d.Tokens, MaxTokens)
	}
	if len(d.Key) > MaxKeyBytes {
		return fmt.Errorf("%w: key %.40q... has %d bytes, at most %d are kept", fault.ErrTooLarge, d.Key, len(d.Key), MaxKeyBytes)
	}
	if len(d.Scope) > MaxScopeBytes {
		return fmt.Errorf("%w: scope %.40q... has %d bytes, at most %d are kept", fault.ErrTooLarge, d.Scope, len(d.Scope), MaxScopeBytes)
	}
	return nil
}
