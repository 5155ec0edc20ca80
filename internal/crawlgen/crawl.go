package crawlgen

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Names of what Write makes inside its folder. The expectations lie outside the
// crawl, since everything inside is deduplicated.
const (
	Folder       = "crawl"
	ExpectedFile = "crawl-expected.tsv"
)

// DefaultSeed is the seed of the committed crawl.
const DefaultSeed = 1

// Options of Generate. The zero value gives the committed crawl.
type Options struct {
	// Seed picks counters, session ids, prices and the sentences of generated
	// pages. 0 means DefaultSeed. What a Document expects was checked for
	// DefaultSeed only.
	Seed uint64
}

// File is one file of the crawl.
type File struct {
	Path string // relative to the crawl folder, parted by slashes
	Data []byte
}

// Crawl is the generated crawl: its files and the documents in them, both in
// the order in which a sorted walk of the folder meets them.
type Crawl struct {
	Files     []File
	Documents []Document
}

// Generate builds the crawl in memory; it is about half a megabyte.
func Generate(opts Options) (*Crawl, error) {
	if opts.Seed == 0 {
		opts.Seed = DefaultSeed
	}
	ads, err := readAds()
	if err != nil {
		return nil, err
	}
	b := &builder{seed: opts.Seed, ads: ads}
	for _, site := range []func(*builder) error{
		gazetteSite, postSite, nurserySite, manualSite, forumSite,
		languageSites, plainTextSite, notesFeed, archiveFile,
	} {
		if err := site(b); err != nil {
			return nil, err
		}
	}
	return b.crawl(), nil
}

// Write replaces dir/crawl and dir/crawl-expected.tsv. It refuses to replace a
// folder that has files which Generate did not name.
func (c *Crawl) Write(dir string) error {
	root := filepath.Join(dir, Folder)
	if err := c.refuseStrangers(root); err != nil {
		return err
	}
	for _, f := range c.Files {
		path := filepath.Join(root, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return fmt.Errorf("crawlgen: %w", err)
		}
		if err := os.WriteFile(path, f.Data, 0o666); err != nil {
			return fmt.Errorf("crawlgen: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ExpectedFile), FormatExpected(c.Documents), 0o666); err != nil {
		return fmt.Errorf("crawlgen: %w", err)
	}
	return nil
}

func (c *Crawl) refuseStrangers(root string) error {
	paths, err := ListFiles(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !slices.ContainsFunc(c.Files, func(f File) bool { return f.Path == path }) {
			return fmt.Errorf("crawlgen: %s is not part of the crawl; remove it first", filepath.Join(root, path))
		}
	}
	return nil
}

// ListFiles returns the files under root in the order of a sorted walk, which
// is the order in which the command meets them. Paths are relative to root and
// parted by slashes.
func ListFiles(root string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		paths = append(paths, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("crawlgen: list %s: %w", root, err)
	}
	return paths, nil
}
