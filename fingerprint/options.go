package fingerprint

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Options choose what an [Analyzer] takes from a text. The zero value is the
// default pipeline; docs/quality.md has what it was chosen from.
type Options struct {
	// Method says how features become fingerprints. The default is MethodMinHash, unless Window,
	// Weight or Cap is set: these are options of MethodSimhash.
	Method Method

	// Window is the number of consecutive tokens in a feature: 1 for single tokens, k
	// for k-shingles taken by a window that moves one token at a time. A text of fewer
	// than k tokens has one feature, all of them.
	//
	// 0, the default of MethodSimhash, is for single tokens and, where Weight is capped, pairs: wherever
	// four tokens stand that have not stood in a row before, the first two are a feature of
	// weight 1. The tokens say what a page is about, the pairs tell pages about the same thing apart.
	Window int

	// Weight says what a feature weighs that occurs n times: "capped", the default, is min(n, Cap);
	// "count" is n, the term frequency; "sqrt" and "log" are 16 times the square root of n, and
	// 1 + ln n, to the nearest integer; "once" is 1, for the set of features.
	Weight string

	// Cap is the most that a capped weight gives a feature; 0 means 100, or 16 where Window
	// is not 0.
	Cap int

	// Seed, if not 0, turns every hash into another one, so that fingerprints of
	// different seeds have nothing to do with each other. What a measurement says
	// of one seed may be luck; of several it is not.
	Seed uint64

	// ShortWords is the number of words below which a text is Short: its
	// fingerprint is then a hash of its tokens, and only equal texts meet.
	// 0 means 5, with MethodSimhash 50; a negative number means that no text is Short. For how
	// characters count in scripts without spaces see [Signature].
	ShortWords int
}

// Method is how a set of features, or one with weights, becomes 64 bits.
type Method int

const (
	// MethodMinHash makes MinHashes of the set of words, and of the set of windows of four words.
	MethodMinHash Method = iota

	// MethodSimhash is what the default was up to analyzers named text/3: Charikar's, as the paper uses it.
	MethodSimhash
)

// method is the one that the options ask for.
func (o *Options) method() Method {
	if o.Window != 0 || o.Weight != "" || o.Cap != 0 {
		return MethodSimhash
	}
	return o.Method
}

// capped is the default of Options.Weight, which NewAnalyzer leaves empty.
const capped = "capped"

var weights = []string{capped, "count", "sqrt", "log", "once"}

// ErrOptions is what [NewAnalyzer] and [ParseAnalyzer] wrap when an option makes no sense.
var ErrOptions = errors.New("invalid fingerprint options")

// These bounds keep a mistaken option from turning into memory or time.
const (
	maxWindow     = 1 << 10
	maxShortWords = 1 << 20
)

func (o *Options) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...)
	}
	switch {
	case o.Method != MethodMinHash && o.Method != MethodSimhash:
		return bad("Method(%d) is none of the constants", int(o.Method))
	case o.Window < 0 || o.Window > maxWindow:
		return bad("Window is %d, want 0 to %d", o.Window, maxWindow)
	case o.Weight != "" && !slices.Contains(weights, o.Weight):
		return bad("Weight is %.40q, want one of %s", o.Weight, strings.Join(weights, ", "))
	case o.Cap < 0:
		return bad("Cap is %d, want 0 for the default or a positive number", o.Cap)
	case o.Cap > 0 && o.Weight != "":
		return bad("Cap is %d, but only capped weights have one", o.Cap)
	case o.ShortWords > maxShortWords:
		return bad("ShortWords is %d, want at most %d", o.ShortWords, maxShortWords)
	}
	return nil
}

// Version begins the name of an Analyzer that has MethodMinHash; that of others begins with "text/3". It changes with any
// change of the tables, the tokens, the hashes or the weights that some text can show.
const Version = "text/4"

// simhashVersion begins the names of the others, and changes as Version does.
const simhashVersion = "text/3"

// name lists what differs from the defaults, in a fixed order.
func (o *Options) name() string {
	parts := []string{simhashVersion}
	if o.method() == MethodMinHash {
		parts[0] = Version
	}
	add := func(key, value string) { parts = append(parts, key+"="+value) }
	if o.Window > 0 {
		add("window", strconv.Itoa(o.Window))
	}
	switch {
	case o.Weight != "":
		add("weight", o.Weight)
	case o.Cap != 0 && o.cap() != (&Options{Window: o.Window}).cap():
		add("cap", strconv.Itoa(o.Cap))
	}
	if o.Seed != 0 {
		add("seed", strconv.FormatUint(o.Seed, 16))
	}
	if n := o.shortWords(); n != (&Options{Method: o.method()}).shortWords() {
		add("short", strconv.Itoa(n))
	}
	return strings.Join(parts, " ")
}

// ParseAnalyzer makes the Analyzer of a name that [Analyzer.Name] gave. Names of
// another version are errors, which wrap [ErrOptions].
func ParseAnalyzer(name string) (*Analyzer, error) {
	fail := func(format string, args ...any) (*Analyzer, error) {
		return nil, fmt.Errorf("%w: analyzer %q: "+format, append([]any{ErrOptions, name}, args...)...)
	}
	parts := strings.Split(name, " ")
	var o Options
	switch parts[0] {
	case Version:
	case simhashVersion:
		o.Method = MethodSimhash
	default:
		return fail("this version of the package knows %q and %q", Version, simhashVersion)
	}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		if err := o.set(key, value); err != nil {
			return fail("%s: %w", part, err)
		}
	}
	a, err := NewAnalyzer(o)
	if err != nil {
		return nil, err
	}
	if a.Name() != name {
		return fail("its name would be %q", a.Name())
	}
	return a, nil
}

// set is the reverse of name for one part.
func (o *Options) set(key, value string) (err error) {
	switch key {
	case "window":
		o.Window, err = strconv.Atoi(value)
	case "weight":
		o.Weight = value
	case "cap":
		o.Cap, err = strconv.Atoi(value)
	case "seed":
		o.Seed, err = strconv.ParseUint(value, 16, 64)
	case "short":
		if o.ShortWords, err = strconv.Atoi(value); o.ShortWords == 0 {
			o.ShortWords = -1
		}
	default:
		err = errors.New("no option is called that")
	}
	return err
}

const (
	defaultCap       = 100
	defaultWindowCap = 16

	defaultShortWords        = 5
	defaultSimhashShortWords = 50
)

func (o *Options) cap() int {
	switch {
	case o.Cap != 0:
		return o.Cap
	case o.pairs():
		return defaultCap
	}
	return defaultWindowCap
}

// pairs reports whether pairs of tokens are features as well.
func (o *Options) pairs() bool {
	return o.Window == 0 && o.Weight == ""
}

func (o *Options) shortWords() int {
	switch {
	case o.ShortWords == 0 && o.method() == MethodMinHash:
		return defaultShortWords
	case o.ShortWords == 0:
		return defaultSimhashShortWords
	}
	return max(o.ShortWords, 0)
}

// weightScale makes sqrt and log fine enough as integers.
const weightScale = 16

// weight is that of a feature that occurs n times.
func (o *Options) weight(n int) int {
	switch x := float64(n); o.Weight {
	case "count":
		return n
	case "sqrt":
		return int(math.Round(weightScale * math.Sqrt(x)))
	case "log":
		// The conversion keeps a processor from fusing, and so rounding otherwise.
		return int(math.Round(weightScale + float64(weightScale*math.Log(x))))
	case "once":
		return 1
	}
	return min(n, o.cap())
}
