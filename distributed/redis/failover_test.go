package redis

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// TestPauseAtFailover measures the longest call during a failover, with a node timeout of 2 s.
// There are two replicas, since the new master needs one. The call may take as long as the
// detection, the election and a few tries: 5 s, or 10 s on a shared machine.
func TestPauseAtFailover(t *testing.T) {
	c := startCluster(t, t.TempDir(), 3, 2, 2*time.Second)
	x, err := Open(t.Context(), c.client(t), Options{Name: "pause", Bare: true})
	must(t, err)
	r, longest := rand.New(rand.NewPCG(1, 1)), time.Duration(0)
	c.master(r).kill()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		start := time.Now()
		docs := make([]index.Document, 16) // of all nodes
		for i := range docs {
			docs[i].Fingerprint = fingerprint.Fingerprint(r.Uint64())
		}
		_, err := x.checkAndAdd(context.Background(), docs)
		must(t, err)
		longest = max(longest, time.Since(start))
	}
	t.Logf("the longest call took %v", longest)
	if longest > 10*time.Second {
		t.Errorf("a call took %v", longest)
	}
}
