// Package pages keeps a crawler's pages in a folder, one of each that are nearly alike, and their
// index beside them. What Keep has returned without an error is kept, also after a kill -9.
package pages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/natefinch/atomic"
	"github.com/neardup/neardup"
)

// Folder is an open folder. Its methods may be called from any goroutine.
type Folder struct {
	dir string
	*neardup.Index
}

// Open opens a folder, and makes it where there is none.
func Open(dir string) (*Folder, error) {
	x, err := neardup.Open(filepath.Join(dir, "index"), nil)
	return &Folder{dir, x}, err
}

// File is where the page of a URL is kept.
func (f *Folder) File(url string) string {
	return filepath.Join(f.dir, fmt.Sprintf("%x.html", sha256.Sum256([]byte(url))))
}

// Keep saves a page unless there is one like it. An Unchanged one is saved too: the crawler may
// have been killed when the index had the page, and the folder not.
func (f *Folder) Keep(ctx context.Context, p neardup.Page) (neardup.Status, error) {
	v, err := f.Check(ctx, p)
	if err != nil {
		return 0, err // and no verdict
	}
	file := f.File(p.URL)
	switch v.Status {
	case neardup.New, neardup.Changed, neardup.Unchanged:
		if err := atomic.WriteFile(file, bytes.NewReader(p.Body)); err != nil {
			// The next copy shall be New again, also where the crawl is being stopped.
			_, forget := f.Delete(context.WithoutCancel(ctx), p.URL)
			return 0, errors.Join(err, forget)
		}
		fmt.Println(p.URL)
	case neardup.Duplicate: // of another page, though it may have been one of its own before
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return v.Status, nil
}
