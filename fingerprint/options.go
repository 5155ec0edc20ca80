package fingerprint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Options choose how an [Analyzer] computes a Signature. The zero value is the default.
type Options struct {
	// Method selects how 64 bits are computed from a text. Default: MethodMinHash.
	Method Method

	// Window is the number of consecutive tokens in a feature of MethodSimhash. The window moves
	// one token at a time. A text with fewer tokens has one feature with all its tokens. 0 means 1.
	Window int

	// Seed selects another hash function if it is not 0. Fingerprints of different seeds are
	// unrelated. A measurement with one seed depends on chance, so use several seeds.
	Seed uint64
}

// Method is a way to compute 64 bits from a text.
type Method int

const (
	// MethodMinHash computes the MinHash of the set of words.
	MethodMinHash Method = iota

	// MethodSimhash computes the simhash of all words, or windows of words, weighted by their
	// frequency, as section 2 of the paper does and simhash-cpp does for windows.
	MethodSimhash
)

// ErrOptions is wrapped by the errors of [NewAnalyzer] and [ParseAnalyzer] about invalid options.
var ErrOptions = errors.New("invalid fingerprint options")

const maxWindow = 1 << 10

func (o *Options) check() error {
	switch {
	case o.Method != MethodMinHash && o.Method != MethodSimhash:
		return fmt.Errorf("%w: unknown method %d: use MethodMinHash or MethodSimhash",
			ErrOptions, int(o.Method))
	case o.Window < 0 || o.Window > maxWindow:
		return fmt.Errorf("%w: Window is %d, want 0 to %d", ErrOptions, o.Window, maxWindow)
	case o.Window > 1 && o.Method != MethodSimhash:
		return fmt.Errorf("%w: Window is %d, which requires MethodSimhash", ErrOptions, o.Window)
	}
	return nil
}

// Version begins the name of every Analyzer with MethodMinHash. It changes if the tables, the
// tokens, the hashes or the signature of any text change.
const Version = "text/5"

// simhashVersion is the Version of MethodSimhash.
const simhashVersion = "simhash/2"

// name returns the version, and the options that differ from the defaults in a fixed order.
func (o *Options) name() string {
	name := Version
	if o.Method == MethodSimhash {
		name = simhashVersion
	}
	if o.Window > 1 {
		name += " window=" + strconv.Itoa(o.Window)
	}
	if o.Seed != 0 {
		name += " seed=" + strconv.FormatUint(o.Seed, 16)
	}
	return name
}

// ParseAnalyzer returns the Analyzer whose [Analyzer.Name] is name. If name is invalid or has a
// version that this package does not know, the error wraps [ErrOptions].
func ParseAnalyzer(name string) (*Analyzer, error) {
	fail := func(format string, args ...any) (*Analyzer, error) {
		return nil, fmt.Errorf("%w: analyzer %q: "+format,
			append([]any{ErrOptions, name}, args...)...)
	}
	parts := strings.Split(name, " ")
	var o Options
	switch parts[0] {
	case Version:
	case simhashVersion:
		o.Method = MethodSimhash
	default:
		return fail("unknown version, want %q or %q", Version, simhashVersion)
	}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		var err error
		switch key {
		case "window":
			o.Window, err = strconv.Atoi(value)
		case "seed":
			o.Seed, err = strconv.ParseUint(value, 16, 64)
		default:
			err = errors.New("unknown option")
		}
		if err != nil {
			return fail("%s: %w", part, err)
		}
	}
	a, err := NewAnalyzer(o)
	if err != nil {
		return nil, err
	}
	if a.Name() != name {
		return fail("want the form %q", a.Name())
	}
	return a, nil
}

// shortWords is the number of words below which a text is Short.
func (o *Options) shortWords() int {
	if o.Method == MethodSimhash {
		return 50
	}
	return 5
}
