package export

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/pipe"
)

// Find returns the first line of the first input that is an export, or nil if no input is an
// export. "-" is standard input. Find reads the beginning of pipes, and opened has a reader of the
// complete content of each pipe.
func Find(
	ctx context.Context, names []string, stdin io.Reader,
) (found *Index, opened map[string]io.Reader, err error) {
	opened = make(map[string]io.Reader)
	for _, name := range names {
		info, err := os.Stat(name)
		if name != "-" && (err != nil || info.IsDir()) || opened[name] != nil {
			continue // the reader of the inputs reports an error
		}
		in := stdin
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return nil, nil, fmt.Errorf("input: %w", err)
			}
			if in = file; info.Mode().IsRegular() {
				defer file.Close()
			}
		}
		var read bytes.Buffer // only the beginning: the rest of a pipe may come much later
		rest := pipe.Cancelable(ctx, in)
		begin, err := corpus.Open("-", io.TeeReader(rest, &read))
		if err != nil {
			return nil, nil, err
		}
		if found == nil {
			if found, err = firstLine(begin); err != nil {
				return nil, nil, fmt.Errorf("%w: %s: %w", corpus.ErrBroken, name, err)
			}
		}
		if name == "-" || !info.Mode().IsRegular() {
			opened[name] = io.MultiReader(&read, rest)
		}
	}
	return found, opened, nil
}
