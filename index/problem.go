package index

import (
	"fmt"

	"github.com/neardup/neardup/internal/store"
)

// ProblemKind says what is wrong.
type ProblemKind string

const (
	// Unreadable: a file is damaged, or does not give what is stored in it.
	Unreadable ProblemKind = "unreadable"
	// Malformed: an entry does not follow docs/format.md.
	Malformed ProblemKind = "malformed"
	// Missing: an entry that another one asks for is not there.
	Missing ProblemKind = "missing"
	// Unexpected: an entry is there that nothing asks for.
	Unexpected ProblemKind = "unexpected"
	// Miscounted: a counter is not what was counted.
	Miscounted ProblemKind = "miscounted"
	// FalseNegative: a filter says no to something that is stored, so that queries miss it.
	FalseNegative ProblemKind = "false negative"
	// Unchecked: something could not be checked, because of another problem or because the
	// work was cut short; Err says why.
	Unchecked ProblemKind = "unchecked"
)

// Problem is something wrong in an index.
type Problem struct {
	Kind     ProblemKind `json:"kind"`
	Keyspace string      `json:"keyspace"`      // as docs/format.md names it; "file" for a file
	Key      string      `json:"key,omitempty"` // of the entry, in hex with its keyspace; the name of a file
	Message  string      `json:"message"`

	Err error `json:"-"` // what Message says, where it was an error; may be nil
}

func (p Problem) String() string {
	if p.Key == "" {
		return fmt.Sprintf("%s in %s: %s", p.Kind, p.Keyspace, p.Message)
	}
	return fmt.Sprintf("%s in %s, %s: %s", p.Kind, p.Keyspace, p.Key, p.Message)
}

func problemOf(f store.Corruption) Problem {
	p := Problem{Kind: Malformed, Keyspace: f.Keyspace, Key: fmt.Sprintf("%x", f.Key), Message: f.Err.Error(), Err: f.Err}
	if f.Unreadable {
		p.Kind = Unreadable
	}
	if f.Keyspace == "file" {
		p.Key = string(f.Key)
	}
	return p
}
