package index_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// TestStoreStats tests that the figures of the store follow reads and writes.
func TestStoreStats(t *testing.T) {
	x, err := index.Open(filepath.Join(t.TempDir(), "ix"), nil)
	must(t, err)
	before := x.StoreStats()
	var docs []index.Document
	for n := range 2000 {
		docs = append(docs, index.Document{Key: fmt.Sprint(n),
			Fingerprint: fingerprint.Fingerprint(uint64(n) * 0x9e3779b97f4a7c15)})
	}
	must(t, x.Add(t.Context(), docs...))
	after := x.StoreStats()
	if written := after.WALBytesWritten - before.WALBytesWritten; written < 2000*20 ||
		after.WALBytes < before.WALBytes+2000*20 || after.MemTableBytes == 0 ||
		after.WriteStalls != 0 || after.WriteStallTime != 0 {
		t.Errorf("%+v, and then %+v", before, after)
	}
	must(t, x.Close())
	if s := x.StoreStats(); s != (index.StoreStats{}) {
		t.Errorf("closed: %+v", s)
	}
}
