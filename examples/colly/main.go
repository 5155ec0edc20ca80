// Command colly crawls a site with the colly library and saves one page of each group of
// near-duplicates.
//
//	go run ./colly http://localhost:8080/ crawl
//
// The crawler can be killed and started again: every page whose URL it printed is saved.
package main

import (
	"context"
	"errors"
	"log"
	"mime"
	"net/url"
	"os"

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

// crawl saves the pages of the site of a URL in a folder.
func crawl(ctx context.Context, start, folder string) (err error) {
	u, err := url.Parse(start)
	if err != nil {
		return err
	}
	saved, err := pages.Open(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, saved.Close()) }()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := colly.NewCollector(colly.Async(), colly.StdlibContext(ctx),
		colly.AllowedDomains(u.Hostname()))
	c.IgnoreRobotsTxt = false
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: 4}); err != nil {
		return err
	}
	c.OnRequest(func(r *colly.Request) {
		if ctx.Err() != nil {
			r.Abort()
		}
	})
	c.OnResponse(func(r *colly.Response) {
		if _, err := saved.Save(ctx, neardup.Page{URL: r.Request.URL.String(),
			ContentType: contentType(r), Body: r.Body}); err != nil {
			stop(err)
		}
	})
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		_ = e.Request.Visit(e.Attr("href")) // The usual errors are a visited URL and another site.
	})
	c.OnError(func(r *colly.Response, err error) { log.Printf("%s: %v", r.Request.URL, err) })
	if err := c.Visit(start); err != nil {
		return err
	}
	c.Wait()
	return context.Cause(ctx)
}

// contentType returns the Content-Type header. colly has converted the body to UTF-8 if the header
// names a charset.
func contentType(r *colly.Response) string {
	header := r.Headers.Get("Content-Type")
	media, params, err := mime.ParseMediaType(header)
	if err == nil && params["charset"] != "" {
		return media + "; charset=utf-8"
	}
	return header
}
