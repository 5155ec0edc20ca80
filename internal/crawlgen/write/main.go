// Command write writes the small crawl and its expectations into a folder.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/neardup/neardup/internal/crawlgen"
)

func main() {
	seed := flag.Uint64("seed", crawlgen.DefaultSeed, "seed of the generated parts")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: write [-seed n] folder")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *seed); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func run(folder string, seed uint64) error {
	crawl, err := crawlgen.Generate(crawlgen.Options{Seed: seed})
	if err != nil {
		return err
	}
	return crawl.Write(folder)
}
