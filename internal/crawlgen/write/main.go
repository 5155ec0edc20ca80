// Command write writes the small crawl and its expectations into a folder, or a large
// archive of made-up pages, for measuring speed, into a file.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neardup/neardup/internal/crawlgen"
)

func main() {
	seed := flag.Uint64("seed", crawlgen.DefaultSeed, "seed of the generated parts")
	pages := flag.Int("pages", 0, "`number` of pages of a large archive")
	bytes := flag.Int("bytes", 60_000, "about the size of each in `bytes` of HTML")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: write [-seed n] folder\n       write [-seed n] -pages n [-bytes n] file.%s\n", strings.Join(crawlgen.ArchiveForms, "|"))
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	run := writeCrawl
	if *pages > 0 {
		run = func(file string, seed uint64) error { return writeArchive(file, seed, *pages, *bytes) }
	}
	if err := run(flag.Arg(0), *seed); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func writeCrawl(folder string, seed uint64) error {
	crawl, err := crawlgen.Generate(crawlgen.Options{Seed: seed})
	if err != nil {
		return err
	}
	return crawl.Write(folder)
}

func writeArchive(file string, seed uint64, pages, bytes int) error {
	_, form, _ := strings.Cut(filepath.Base(file), ".")
	if !slices.Contains(crawlgen.ArchiveForms, form) {
		return fmt.Errorf("%s: the name must end with one of %s", file, strings.Join(crawlgen.ArchiveForms, ", "))
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(crawlgen.WriteArchive(f, crawlgen.ArchiveOptions{Seed: seed, Pages: pages, Bytes: bytes, Form: form}), f.Close())
}
