package neardup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
)

// checkAndSave is the README's first snippet; TestREADME compares them.
func checkAndSave(
	ctx context.Context, url, contentType string, body []byte,
	save func(url string, body []byte) error,
) error {
	x, err := neardup.Open("pages.neardup", nil) // creates the index if there is none
	if err != nil {
		return err
	}
	defer x.Close()

	v, err := x.Check(ctx, neardup.Page{URL: url, ContentType: contentType, Body: body})
	if err != nil {
		return err // no verdict
	}
	if v.Status == neardup.Duplicate {
		return nil // v.Of is like this page; if v.Removed, delete your earlier copy of url
	}
	// Unchanged too: the last run may have died before it saved
	if err := save(url, body); err != nil {
		_, undo := x.Delete(context.WithoutCancel(ctx), url) // the next visit is New again
		return errors.Join(err, undo)
	}
	return nil
}

// A crawler checks every page before it saves it.
func Example() {
	dir, err := os.MkdirTemp("", "neardup-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	x, err := neardup.Open(filepath.Join(dir, "pages.neardup"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()

	for _, p := range []neardup.Page{
		{URL: "http://a.example/", Body: []byte(
			"<p>The ferry leaves at nine, at noon and at five.</p>")},
		{URL: "http://a.example/?session=1", Body: []byte(
			"<p>The ferry leaves at <b>nine</b>, at noon and at five.</p>")},
		{URL: "http://b.example/", ContentType: "text/html; charset=utf-8",
			Body: []byte("<p>The museum is closed on Mondays.</p>")},
		{URL: "http://b.example/", ContentType: "text/html; charset=utf-8",
			Body: []byte("<p>The museum is closed on Tuesdays.</p>")},
		{URL: "http://b.example/map.png", ContentType: "image/png",
			Body: []byte("\x89PNG\r\n\x1a\n")},
		{URL: "http://b.example/app", Body: []byte("<html><script>start()</script></html>")},
	} {
		v, err := x.Check(context.Background(), p)
		if err != nil {
			log.Fatal(err) // there is no verdict
		}
		fmt.Printf("%s: %v %q\n", p.URL, v.Status, v.Of.Key+v.Reason)
	}
	// Output:
	// http://a.example/: new ""
	// http://a.example/?session=1: duplicate "http://a.example/"
	// http://b.example/: new ""
	// http://b.example/: changed "http://b.example/"
	// http://b.example/map.png: skipped "not text: image/png"
	// http://b.example/app: skipped "no text"
}

// A query with the Signature of a page finds the pages that match it by the rule of Check.
func ExampleIndex_Signer() {
	dir, err := os.MkdirTemp("", "neardup-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	x, err := neardup.Open(filepath.Join(dir, "pages.neardup"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	ctx := context.Background()
	if _, err := x.Check(ctx, neardup.Page{URL: "http://a.example/",
		Body: []byte("The ferry leaves at nine.")}); err != nil {
		log.Fatal(err)
	}

	signature, err := x.Signer().Sign("text/plain", []byte("The ferry leaves at nine!"))
	if err != nil {
		log.Fatal(err)
	}
	matches, err := x.Query(ctx, index.Query{Signature: signature, Limit: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(matches[0].Key, matches[0].Distance)
	// Output: http://a.example/ 0
}

// Fingerprints of any kind can be compared with each other without an index.
func ExampleStars() {
	images := []fingerprint.Fingerprint{0xff00, 0x0123456789abcdef, 0xff01, 0xff00}
	for group, err := range neardup.Stars(context.Background(), images, 3) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("keep", group[0], "leave out", group[1:])
	}
	// Output: keep 0 leave out [2 3]
}
