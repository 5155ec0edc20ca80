package verify

import "fmt"

// Kind is the kind of a Problem.
type Kind string

const (
	// Unreadable: a file is damaged, or an entry cannot be read. The check ends there.
	Unreadable Kind = "unreadable"
	// Missing: an entry that does not exist, although another entry refers to it.
	Missing Kind = "missing"
	// Unexpected: an entry that no other entry refers to, or that contradicts another entry.
	Unexpected Kind = "unexpected"
	// Miscounted: a counter differs from the number of entries.
	Miscounted Kind = "miscounted"
	// Unchecked: the check ended early because its context ended or the store failed. Err is the
	// reason.
	Unchecked Kind = "unchecked"
)

// Problem is an inconsistency in an index.
type Problem struct {
	Kind Kind `json:"kind"`

	// Keyspace is a keyspace of docs/format.md, "tables" for live and packed entries together,
	// "file" for a file, or "index".
	Keyspace string `json:"keyspace"`

	// Key is the key of the entry in hexadecimal, or "" if the problem is not in a single entry.
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`

	Err error `json:"-"` // the error that Message describes; may be nil
}

func (p Problem) String() string {
	if p.Key == "" {
		return fmt.Sprintf("%s in %s: %s", p.Kind, p.Keyspace, p.Message)
	}
	return fmt.Sprintf("%s in %s, %s: %s", p.Kind, p.Keyspace, p.Key, p.Message)
}
