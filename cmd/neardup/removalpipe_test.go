package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// The pipe of docs/batch.md deletes what clusters lists, although delete starts while clusters
// has the index open, or before.
func TestRemovalPipe(t *testing.T) {
	t.Parallel()
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	const copies = 3000
	dir := filepath.Join(t.TempDir(), "ix")
	for round := range rounds {
		x, err := index.Open(dir, &index.Options{Durability: index.NoSync})
		must(t, err)
		docs := make([]index.Document, copies)
		for i := range docs {
			docs[i] = index.Document{Key: fmt.Sprintf("http://a.example/%d/%d", round, i), Fingerprint: fingerprint.Fingerprint(1)}
		}
		must(t, x.Add(context.Background(), docs...), x.Close())
		list := process("clusters", "--index", dir, "--removals")
		remove := process("delete", "--index", dir, "--ids", "-")
		var listing, out bytes.Buffer
		list.Stderr, remove.Stdout, remove.Stderr = &listing, &out, &out
		if remove.Stdin, err = list.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
		if err := remove.Start(); err != nil { // the race is lost on purpose, now and then
			t.Fatal(err)
		}
		if err := list.Run(); err != nil {
			t.Fatalf("round %d: clusters: %v\n%s", round, err, &listing)
		}
		want := copies - 1
		if round > 0 {
			want++ // one was left by the round before
		}
		if err := remove.Wait(); err != nil || !strings.Contains(out.String(), fmt.Sprintf(`{"deleted":%d}`, want)) {
			t.Fatalf("round %d: %v, want %d deleted\n%s", round, err, want, &out)
		}
	}
}
