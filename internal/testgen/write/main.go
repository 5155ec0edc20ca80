// Command write writes an archive of made-up pages, for measuring speed, into a file.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neardup/neardup/internal/testgen"
)

func main() {
	o := testgen.ArchiveOptions{}
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the pages")
	flag.IntVar(&o.Pages, "pages", 1000, "`number` of pages")
	flag.IntVar(&o.Bytes, "bytes", 60_000, "about the size of each in `bytes` of HTML")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: write [-seed n] [-pages n] [-bytes n] file.%s\n", strings.Join(testgen.ArchiveForms, "|"))
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(flag.Arg(0), o); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func write(file string, o testgen.ArchiveOptions) error {
	if _, o.Form, _ = strings.Cut(filepath.Base(file), "."); !slices.Contains(testgen.ArchiveForms, o.Form) {
		return fmt.Errorf("%s: the name must end with one of %s", file, strings.Join(testgen.ArchiveForms, ", "))
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(testgen.WriteArchive(f, o), f.Close())
}
