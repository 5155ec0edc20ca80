package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Open opens a file, or standard input where the name is "-", and decompresses
// it by its content, all its members as one stream.
func Open(name string, stdin io.Reader) (io.ReadCloser, error) {
	o := &opened{}
	var in io.Reader = stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("corpus: input: %w", err)
		}
		in, o.file = file, file
	}
	o.inflater = &inflater{in: newRaw(context.Background(), in, -1, new(atomic.Int64))}
	return o, nil
}

type opened struct {
	*inflater
	file *os.File // nil for standard input
}

// Read is that of the inflater. Damage is an error to the caller, who may
// not take what was read for the whole.
func (o *opened) Read(p []byte) (int, error) { return o.inflater.Read(p) }

func (o *opened) Close() error {
	o.inflater.close()
	if o.file == nil {
		return nil
	}
	return errors.Join(o.file.Close())
}
