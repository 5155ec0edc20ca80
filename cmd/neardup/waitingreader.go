package main

import (
	"context"
	"io"
	"os"
)

// waitingReader ends a read with the context, although a read of a pipe or a terminal on
// which nothing comes does not end. It is for one goroutine at a time.
type waitingReader struct {
	ctx    context.Context
	in     io.Reader
	buffer []byte
	unread []byte // of buffer
	err    error  // behind unread
	read   chan readResult
}

type readResult struct {
	n   int
	err error
}

// readUntilDone returns a reader of in that fails once ctx is done. Files do not need it.
func readUntilDone(ctx context.Context, in io.Reader) io.Reader {
	if file, ok := in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return in
		}
	}
	return &waitingReader{ctx: ctx, in: in, read: make(chan readResult, 1)}
}

func (w *waitingReader) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, w.ctx.Err() // a read into the buffer may be under way
	}
	if len(w.unread) == 0 && w.err == nil {
		if w.buffer == nil {
			w.buffer = make([]byte, 256<<10)
		}
		go func() {
			n, err := w.in.Read(w.buffer)
			w.read <- readResult{n, err}
		}()
		select {
		case r := <-w.read:
			w.unread, w.err = w.buffer[:r.n], r.err
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
	n := copy(p, w.unread)
	if w.unread = w.unread[n:]; n == 0 && len(w.unread) == 0 {
		return 0, w.err
	}
	return n, nil
}
