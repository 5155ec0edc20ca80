package check

import (
	"context"
	"errors"
	"testing"

	"github.com/neardup/neardup/client/api"
)

// TestPagesOfAContextThatIsOver tests that no page is analyzed after the context ends. Without a
// Signer that would panic.
func TestPagesOfAContextThatIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if verdicts, err := Pages(ctx, nil, 10, []api.Page{{Body: []byte("words")}},
		nil); len(verdicts) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", verdicts, err)
	}
}
