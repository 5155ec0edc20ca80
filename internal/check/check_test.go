package check

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/neardup/neardup/client/api"
)

// TestPagesAfterCancel tests that no page is analyzed after the context ends. Without a Signer, the
// analysis would panic.
func TestPagesAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if verdicts, err := Pages(ctx, nil, 10, []api.Page{{Body: []byte("words")}},
		nil); len(verdicts) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", verdicts, err)
	}
}

// TestParallelPanics tests that the caller of Parallel can recover from a panic in any goroutine.
func TestParallelPanics(t *testing.T) {
	defer func() {
		if cause, ok := recover().(string); !ok || !strings.Contains(cause, "page 7") {
			t.Errorf("recovered %q", cause)
		}
	}()
	Parallel(1000, func(i int) {
		if i == 7 {
			panic("page 7")
		}
	})
}
