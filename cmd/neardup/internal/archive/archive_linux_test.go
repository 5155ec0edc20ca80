package archive

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/check"
)

// Open returns an error for a named pipe, and does not wait for a writer.
func TestPipeIsRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	refused := make(chan error, 1)
	go func() {
		_, err := Open(context.Background(), []string{pipe}, check.DefaultSigner(), hidden)
		refused <- err
	}()
	select {
	case err := <-refused:
		if !errors.Is(err, ErrNotSeekable) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Open waits for a writer")
	}
}
