package verify

import "fmt"

// Kind says what is wrong.
type Kind string

const (
	// Unreadable: a file or an entry cannot be read. Nothing else was looked at after it.
	Unreadable Kind = "unreadable"
	// Malformed: an entry can be read, and is none that an index can have.
	Malformed Kind = "malformed"
	// Missing: an entry that another one asks for is not there.
	Missing Kind = "missing"
	// Unexpected: an entry is there that nothing asks for.
	Unexpected Kind = "unexpected"
	// Miscounted: a counter is not what was counted.
	Miscounted Kind = "miscounted"
	// FalseNegative: a filter says no to something that is stored, so that queries miss it.
	FalseNegative Kind = "false negative"
	// Unchecked: the work was cut short; Err says why.
	Unchecked Kind = "unchecked"
)

// Problem is something wrong in an index.
type Problem struct {
	Kind     Kind   `json:"kind"`
	Keyspace string `json:"keyspace"`      // as docs/format.md names it; "file" for a file
	Key      string `json:"key,omitempty"` // of the entry, in hex with its keyspace
	Message  string `json:"message"`

	Err error `json:"-"` // what Message says, where it was an error; may be nil
}

func (p Problem) String() string {
	if p.Key == "" {
		return fmt.Sprintf("%s in %s: %s", p.Kind, p.Keyspace, p.Message)
	}
	return fmt.Sprintf("%s in %s, %s: %s", p.Kind, p.Keyspace, p.Key, p.Message)
}

// Keys of entries, as docs/format.md has them.

func clockKey(id uint64) string    { return fmt.Sprintf("%x%016x", 'c', id) }
func documentKey(id uint64) string { return fmt.Sprintf("%x%016x", 'd', id) }
func keyKey(hash uint64) string    { return fmt.Sprintf("%x%016x", 'k', hash) }

func tableKey(keyspace rune, table int, permuted uint64) string {
	return fmt.Sprintf("%x%04x%016x", keyspace, table, permuted)
}
