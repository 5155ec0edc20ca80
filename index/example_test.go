package index_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
)

// A crawler checks whether a page like the current one is stored.
func Example() {
	dir, err := os.MkdirTemp("", "neardup-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	signer, err := page.NewSigner(page.Visible, fingerprint.Options{})
	if err != nil {
		log.Fatal(err)
	}
	x, err := index.Open(filepath.Join(dir, "pages"), &index.Options{Analyzer: signer.Name()})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()

	for _, p := range []struct{ url, html string }{
		{"http://a.example/", "<p>The ferry leaves at nine, at noon and at five.</p>"},
		{"http://a.example/?session=1",
			"<p>The ferry leaves at <b>nine</b>, at noon and at five.</p>"},
		{"http://b.example/", "<p>The museum is closed on Mondays.</p>"},
		{"http://b.example/", "<p>The museum is closed on Tuesdays.</p>"},
	} {
		s, err := signer.Sign("text/html; charset=utf-8", []byte(p.html))
		if err != nil { // an image, for instance
			log.Fatal(err)
		}
		if s.Tokens == 0 {
			continue // no text, so nothing to compare
		}
		v, err := x.CheckAndAdd(context.Background(),
			index.Document{Key: p.url, Fingerprint: s.Fingerprint, Shingles: s.Shingles,
				Digest: s.Digest, Tokens: s.Tokens})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(p.url, v.Status)
	}
	// Output:
	// http://a.example/ new
	// http://a.example/?session=1 duplicate
	// http://b.example/ new
	// http://b.example/ known
}

// The index accepts 64-bit fingerprints of any kind, such as perceptual hashes of images.
func ExampleIndex_Query() {
	dir, err := os.MkdirTemp("", "neardup-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	x, err := index.Open(filepath.Join(dir, "images"), &index.Options{MaxDistance: 6})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	ctx := context.Background()
	images := []index.Document{{Key: "cat.jpg", Fingerprint: 0xff00ff00ff00ff00},
		{Key: "dog.jpg", Fingerprint: 0x0123456789abcdef}}
	if err := x.Add(ctx, images...); err != nil {
		log.Fatal(err)
	}
	matches, err := x.Query(ctx, index.Query{
		Signature: fingerprint.Signature{Fingerprint: 0xff00ff00ff00ff0f},
		Limit:     1,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(matches[0].Key, matches[0].Distance)
	// Output: cat.jpg 4
}
