package store

import (
	"os"
	"strings"
	"testing"
)

// TestPebbleVersion: with another version of Pebble, look at everything that pebble.go names, and then at
// the tests that hold it: FatalFault, OpenWithEveryOperationFailing, StatisticsOfATable, MissingLogAfterCrash,
// MissingOrCutTable, UnreadableEdge, DiskIsWhatItHolds.
func TestPebbleVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/cockroachdb/pebble/v2 "+pebbleVersion+"\n") {
		t.Errorf("pebble.go is for %s", pebbleVersion)
	}
}
