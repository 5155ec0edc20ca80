// Package match defines documents, queries, and the rule that decides which documents match. It
// stores nothing, so the store, the index, the server and its client share it.
package match

import (
	"fmt"
	"math"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/fault"
)

// Limits of the fields of a document.
const (
	MaxKeyBytes   = 64 << 10
	MaxScopeBytes = 64 << 10
	MaxTokens     = math.MaxInt32
)

// Document is a page in an index. The comment of index.Document describes its fields.
type Document struct {
	ID          uint64
	Key         string
	Fingerprint fingerprint.Fingerprint
	Shingles    fingerprint.ShingleSignature
	Digest      fingerprint.Digest
	Tokens      int
	Scope       string
	Added       time.Time
}

// LastSecond is the last second of the year 9999. JSON has no later time.
const LastSecond = 253_402_300_799

// Second returns a time as an index stores it: the nearest Unix second from 0 to LastSecond.
func Second(t time.Time) uint64 {
	return uint64(min(max(t.Unix(), 0), LastSecond))
}

// Signature returns the Signature of the document, without Short. Two documents with equal
// Signatures count as documents with equal texts. If both have no Digest, only their other fields
// are compared.
func (d *Document) Signature() fingerprint.Signature {
	return fingerprint.Signature{Fingerprint: d.Fingerprint, Shingles: d.Shingles, Digest: d.Digest,
		Tokens: d.Tokens}
}

// Validate returns ErrTooLarge if Key, Scope or Tokens of a document is over its limit.
func Validate(d *Document) error {
	if d.Tokens < 0 || d.Tokens > MaxTokens {
		return fmt.Errorf("%w: %d tokens, want 0 to %d", fault.ErrTooLarge, d.Tokens, MaxTokens)
	}
	if len(d.Key) > MaxKeyBytes {
		return fmt.Errorf("%w: key %.40q... has %d bytes, at most %d are allowed",
			fault.ErrTooLarge, d.Key, len(d.Key), MaxKeyBytes)
	}
	if len(d.Scope) > MaxScopeBytes {
		return fmt.Errorf("%w: scope %.40q... has %d bytes, at most %d are allowed",
			fault.ErrTooLarge, d.Scope, len(d.Scope), MaxScopeBytes)
	}
	return nil
}
