// The command colly crawls a site with the colly library and keeps its pages, one of each that are
// nearly alike. It stops asking for URLs of a pattern whose pages keep coming back as duplicates.
//
//	go run ./colly http://localhost:8080/ crawl
//
// It may be killed and started again: what it has printed is kept.
package main

import (
	"context"
	"errors"
	"log"
	"mime"
	"net/url"
	"os"
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/gocolly/colly/v2"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/examples/pages"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: colly URL FOLDER")
	}
	if err := crawl(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// crawl keeps the pages of the site of a URL in a folder, and their index beside them.
func crawl(ctx context.Context, start, folder string) (err error) {
	u, err := url.Parse(start)
	if err != nil {
		return err
	}
	kept, err := pages.Open(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := colly.NewCollector(colly.Async(), colly.StdlibContext(ctx), colly.AllowedDomains(u.Hostname()))
	c.IgnoreRobotsTxt = false
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: 4}); err != nil {
		return err
	}
	var patterns sync.Map
	duplicates := func(u *url.URL) *atomic.Int32 { // one after another
		n, _ := patterns.LoadOrStore(pattern(u), new(atomic.Int32))
		return n.(*atomic.Int32)
	}
	c.OnRequest(func(r *colly.Request) {
		if ctx.Err() != nil || duplicates(r.URL).Load() >= maxDuplicates {
			r.Abort()
		}
	})
	c.OnResponse(func(r *colly.Response) {
		status, err := kept.Keep(ctx, neardup.Page{URL: r.Request.URL.String(), ContentType: contentType(r), Body: r.Body})
		switch {
		case err != nil:
			stop(err)
		case status == neardup.Duplicate:
			duplicates(r.Request.URL).Add(1)
		case status != neardup.Skipped:
			duplicates(r.Request.URL).Store(0)
		}
	})
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		_ = e.Request.Visit(e.Attr("href")) // most of its errors: visited already, another site
	})
	c.OnError(func(r *colly.Response, err error) { log.Printf("%s: %v", r.Request.URL, err) })
	if err := c.Visit(start); err != nil {
		return err
	}
	c.Wait()
	return context.Cause(ctx)
}

// contentType is the header's, but names the charset that colly has made of the one there.
func contentType(r *colly.Response) string {
	header := r.Headers.Get("Content-Type")
	media, params, err := mime.ParseMediaType(header)
	if err == nil && params["charset"] != "" {
		return media + "; charset=utf-8"
	}
	return header
}

// maxDuplicates is the budget: how many duplicates one after another end a pattern.
const maxDuplicates = 10

var number = regexp.MustCompile(`\d+`)

// pattern is a URL with # for each number of its path, and of its query only the names:
// /calendar/#?day&view.
func pattern(u *url.URL) string {
	names := u.Query()
	for name := range names {
		names[name] = []string{""}
	}
	return u.Host + number.ReplaceAllString(u.Path, "#") + "?" + names.Encode()
}
