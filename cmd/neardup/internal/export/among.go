package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/pipe"
	"github.com/neardup/neardup/index"
)

// ErrMixed: some inputs are exports, and some are not.
var ErrMixed = errors.New("they are of different kinds: import them one after the other")

// Among returns what the first lines of the inputs say if Write wrote them, else none. What was opened is
// pipes that were looked into, "-" for standard input, and begins where they did.
func Among(ctx context.Context, names []string, stdin io.Reader) (exports []Index, opened map[string]io.Reader, err error) {
	opened = make(map[string]io.Reader)
	for n, name := range names {
		x, found, err := at(ctx, name, stdin, opened)
		if err != nil {
			return nil, nil, err
		}
		if found != (len(exports) == n) && n > 0 {
			return nil, nil, fmt.Errorf("%s and %s: %w", names[0], name, ErrMixed)
		}
		if found {
			exports = append(exports, x)
		}
		if found && x.Analyzer != exports[0].Analyzer {
			return nil, nil, fmt.Errorf("%s has fingerprints of analyzer %q, %s of %q: %w", names[0], exports[0].Analyzer, name, x.Analyzer, index.ErrMismatch)
		}
	}
	return exports, opened, nil
}

// at looks at how an input begins. A pipe stays open, with what was looked at.
func at(ctx context.Context, name string, stdin io.Reader, opened map[string]io.Reader) (x Index, found bool, err error) {
	info, err := os.Stat(name)
	if name != "-" && (err != nil || info.IsDir()) || opened[name] != nil {
		return x, false, nil // its reader says why
	}
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return x, false, fmt.Errorf("input: %w", err)
		}
		if in = file; info.Mode().IsRegular() {
			defer file.Close()
		}
	}
	if name == "-" || !info.Mode().IsRegular() {
		var read bytes.Buffer // no more than it takes to tell: the rest may come much later
		rest := pipe.Cancelable(ctx, in)
		in = io.TeeReader(rest, &read)
		defer func() { opened[name] = io.MultiReader(&read, rest) }()
	}
	begin, err := corpus.Open("-", in)
	if err == nil {
		x, found = begins(begin)
	}
	return x, found, err
}
