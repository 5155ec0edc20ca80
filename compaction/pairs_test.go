package compaction

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/index/join"
)

// Pairs and clusters of an index that is part packed, part live, and part deleted.
func TestPairsOfPackedAndLiveDocuments(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "ix")
	r := rand.New(rand.NewPCG(1, 1))
	var loaded []index.Document
	for i := range 600 {
		d := index.Document{Fingerprint: fingerprint.Fingerprint(r.Uint64())}
		if i > 0 && i%3 > 0 {
			d.Fingerprint = loaded[r.IntN(i)].Fingerprint ^ 1<<r.IntN(64)
		}
		if i%5 == 0 {
			d.Key = string(rune('a'+i%26)) + d.Fingerprint.String()
		}
		loaded = append(loaded, d)
	}
	source := func(yield func(index.Document, error) bool) {
		for _, d := range loaded[:400] {
			if !yield(d, nil) {
				return
			}
		}
	}
	if _, err := Load(ctx, dir, source, LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(dir, &index.Options{Durability: index.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Add(ctx, loaded[400:]...); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Delete(ctx, loaded[5].Key, loaded[10].Key, loaded[405].Key); err != nil {
		t.Fatal(err)
	}
	var docs []index.Document
	for d, err := range x.Documents(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	want := 0
	for i := range docs {
		for k := range docs[:i] {
			if docs[i].Fingerprint.Distance(docs[k].Fingerprint) <= 2 {
				want++
			}
		}
	}
	got := 0
	for p, err := range x.Pairs(ctx, join.Options{MaxDistance: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		if n := p.First.Documents; p.First.ID == p.Second.ID {
			got += n * (n - 1) / 2
		} else {
			got += n * p.Second.Documents
		}
	}
	if got != want || want == 0 {
		t.Errorf("%d pairs, want %d", got, want)
	}
	var clustered []uint64
	for c, err := range x.Clusters(ctx, join.Options{MaxDistance: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Members {
			for d, err := range c.Members[i].All() {
				if err != nil {
					t.Fatal(err)
				}
				clustered = append(clustered, d.ID)
			}
		}
	}
	slices.Sort(clustered)
	var near []uint64
	for i := range docs {
		if slices.ContainsFunc(docs, func(d index.Document) bool {
			return d.ID != docs[i].ID && d.Fingerprint.Distance(docs[i].Fingerprint) <= 2
		}) {
			near = append(near, docs[i].ID)
		}
	}
	slices.Sort(near)
	if !slices.Equal(clustered, near) {
		t.Errorf("%d documents in clusters, want %d", len(clustered), len(near))
	}
}
