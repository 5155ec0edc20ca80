// Command workers crawls a site with net/http and a pool of workers, and saves one page of each
// group of near-duplicates. It does not read robots.txt and does not limit its rate, so use it on
// your own site.
//
//	go run ./workers http://localhost:8080/ crawl
//
// The crawler can be killed and started again: every page whose URL it printed is saved.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"sync"

	"github.com/PuerkitoBio/goquery"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/examples/pages"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: workers URL FOLDER")
	}
	if err := crawl(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// workers is the number of concurrent requests.
const workers = 8

// crawl saves the pages of the site of a URL in a folder.
func crawl(ctx context.Context, start, folder string) (err error) {
	saved, err := pages.Open(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, saved.Close()) }()

	group, ctx := errgroup.WithContext(ctx)
	slots := semaphore.NewWeighted(workers)
	var seen sync.Map
	var visit func(u string)
	visit = func(u string) {
		if _, known := seen.LoadOrStore(u, true); known {
			return
		}
		group.Go(func() error {
			if err := slots.Acquire(ctx, 1); err != nil {
				return err
			}
			defer slots.Release(1)
			p, err := fetch(ctx, u)
			if err != nil {
				log.Print(err)
				return ctx.Err()
			}
			if _, err := saved.Save(ctx, p); err != nil {
				return err
			}
			for _, link := range links(p) {
				visit(link)
			}
			return nil
		})
	}
	visit(start)
	return group.Wait()
}

func fetch(ctx context.Context, u string) (p neardup.Page, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return p, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return p, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Request.URL.Host != request.URL.Host {
		return p, fmt.Errorf("%s: %s from %s", u, response.Status, response.Request.URL.Host)
	}
	// With one byte more than the limit, neardup skips the page as too large.
	body, err := io.ReadAll(io.LimitReader(response.Body, neardup.DefaultMaxBody+1))
	return neardup.Page{URL: response.Request.URL.String(),
		ContentType: response.Header.Get("Content-Type"), Body: body}, err
}

func links(p neardup.Page) (found []string) {
	base, err := url.Parse(p.URL)
	if err != nil {
		return nil
	}
	document, err := goquery.NewDocumentFromReader(bytes.NewReader(p.Body))
	if err != nil {
		return nil
	}
	document.Find("a[href]").Each(func(_ int, a *goquery.Selection) {
		if u, err := base.Parse(a.AttrOr("href", "")); err == nil && u.Host == base.Host {
			u.Fragment = ""
			found = append(found, u.String())
		}
	})
	return found
}
