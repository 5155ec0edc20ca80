package verify

import "fmt"

// Kind says what is wrong.
type Kind string

const (
	// Unreadable: a file is damaged, or does not give what is stored in it.
	Unreadable Kind = "unreadable"
	// Malformed: an entry does not follow docs/format.md.
	Malformed Kind = "malformed"
	// Missing: an entry that another one asks for is not there.
	Missing Kind = "missing"
	// Unexpected: an entry is there that nothing asks for.
	Unexpected Kind = "unexpected"
	// Miscounted: a counter is not what was counted.
	Miscounted Kind = "miscounted"
	// FalseNegative: a filter says no to something that is stored, so that queries miss it.
	FalseNegative Kind = "false negative"
	// Unchecked: something could not be checked, because of another problem or because the
	// work was cut short; Err says why.
	Unchecked Kind = "unchecked"
)

// Problem is something wrong in an index.
type Problem struct {
	Kind     Kind   `json:"kind"`
	Keyspace string `json:"keyspace"`      // as docs/format.md names it; "file" for a file
	Key      string `json:"key,omitempty"` // of the entry, in hex with its keyspace; the name of a file
	Message  string `json:"message"`

	Err error `json:"-"` // what Message says, where it was an error; may be nil
}

func (p Problem) String() string {
	if p.Key == "" {
		return fmt.Sprintf("%s in %s: %s", p.Kind, p.Keyspace, p.Message)
	}
	return fmt.Sprintf("%s in %s, %s: %s", p.Kind, p.Keyspace, p.Key, p.Message)
}
