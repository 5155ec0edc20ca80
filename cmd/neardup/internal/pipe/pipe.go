// Package pipe reads pipes and terminals, whose reads can block forever.
package pipe

import (
	"context"
	"io"
	"os"
	"sync"
)

// Cancelable returns a reader of in that returns the error of ctx after ctx is done, even if a read
// of in blocks. If in is a regular file, Cancelable returns in.
func Cancelable(ctx context.Context, in io.Reader) io.Reader {
	if file, ok := in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return in
		}
	}
	r, w := io.Pipe()
	begin := sync.OnceFunc(func() {
		go func() {
			_, err := io.CopyBuffer(w, struct{ io.Reader }{in}, make([]byte, 256<<10))
			w.CloseWithError(err)
		}()
		context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	})
	return readerFunc(func(p []byte) (int, error) {
		begin()
		return r.Read(p)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
