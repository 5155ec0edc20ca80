// Package pages saves the pages of a crawler in a folder, one of each group of near-duplicates,
// with their index. A page is on disk when Save returns without an error.
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

// Folder is an open folder. Its methods can be called from any goroutine.
type Folder struct {
	dir string
	*neardup.Index
}

// Open opens a folder. It creates the folder if it does not exist.
func Open(dir string) (*Folder, error) {
	x, err := neardup.Open(filepath.Join(dir, "index"), nil)
	return &Folder{dir, x}, err
}

// File returns the path of the page with a URL.
func (f *Folder) File(url string) string {
	return filepath.Join(f.dir, fmt.Sprintf("%x.html", sha256.Sum256([]byte(url))))
}

// Save saves a page unless it is a near-duplicate of a stored one. It saves an Unchanged page too:
// the crawler may have been killed between Check and the write of the file. These crawlers have no
// use for a Skipped page, which was not compared.
func (f *Folder) Save(ctx context.Context, p neardup.Page) (neardup.Status, error) {
	v, err := f.Check(ctx, p)
	if err != nil {
		return 0, err
	}
	file := f.File(p.URL)
	switch v.Status {
	case neardup.New, neardup.Changed, neardup.Unchanged:
		if err := atomic.WriteFile(file, bytes.NewReader(p.Body)); err != nil {
			// Without its record, the page is New at the next try.
			_, failed := f.Delete(context.WithoutCancel(ctx), p.URL)
			return 0, errors.Join(err, failed)
		}
		fmt.Println(p.URL)
	case neardup.Duplicate: // An earlier version of the page may have been saved.
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return v.Status, nil
}
