// The command workers crawls a site with net/http and a pool of workers, and keeps its pages, one of
// each that are nearly alike. It asks for pages as fast as they come, and for no robots.txt: it is
// for sites of one's own.
//
//	go run ./workers http://localhost:8080/ crawl
//
// It may be killed and started again: what it has printed is kept.
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

const workers = 8 // that are at work at once

// crawl keeps the pages of the site of a URL in a folder, and their index beside them.
func crawl(ctx context.Context, start, folder string) (err error) {
	kept, err := pages.Open(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()

	group, ctx := errgroup.WithContext(ctx)
	atWork := semaphore.NewWeighted(workers)
	var seen sync.Map
	var visit func(u string)
	visit = func(u string) {
		if _, known := seen.LoadOrStore(u, true); known {
			return
		}
		group.Go(func() error {
			if err := atWork.Acquire(ctx, 1); err != nil {
				return err
			}
			defer atWork.Release(1)
			p, err := fetch(ctx, u)
			if err != nil {
				log.Print(err) // and on with the others
				return ctx.Err()
			}
			if _, err := kept.Keep(ctx, p); err != nil {
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
	// One byte more than neardup takes, so that it is Skipped as too large, and not cut off.
	body, err := io.ReadAll(io.LimitReader(response.Body, neardup.DefaultMaxBody+1))
	return neardup.Page{URL: response.Request.URL.String(), ContentType: response.Header.Get("Content-Type"), Body: body}, err
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
