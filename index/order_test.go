package index

import (
	"context"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
)

// A query without a view looks at the number of changes to know whether what it saw is of
// one moment.
func TestEveryChangeIsCounted(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{})
	changes := []struct {
		name string
		do   func() error
	}{
		{"Add", func() error { return x.Add(ctx, Document{Key: "a", Fingerprint: 1}, Document{Fingerprint: 1 << 40}) }},
		{"CheckAndAdd", func() error {
			_, err := x.CheckAndAdd(ctx, Document{Key: "b", Fingerprint: ^fingerprint.Fingerprint(0)})
			return err
		}},
		{"Delete", func() error { _, err := x.Delete(ctx, "a"); return err }},
		{"DeleteIDs", func() error { _, err := x.DeleteIDs(ctx, 2); return err }},
		{"DeleteBefore", func() error { _, err := x.DeleteBefore(ctx, time.Now().Add(time.Hour)); return err }},
	}
	for _, c := range changes {
		before, documents := x.applied.Load(), x.Stats().Documents
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if x.Stats().Documents == documents {
			t.Errorf("%s changed nothing", c.name)
		}
		if x.applied.Load() == before {
			t.Errorf("%s is not counted", c.name)
		}
	}
}
