// Command neardup-beam finds pairs, clusters and matches of queries in files of
// fingerprints, on a runner of Apache Beam.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/spark"

	neardup "github.com/neardup/neardup/distributed/beam"
)

const usage = `usage: neardup-beam pairs    [-k 3] -o FILE [flags] FILES...
       neardup-beam clusters [-k 3] -o FILE [flags] FILES...
       neardup-beam scan     [-k 3] -o FILE [flags] -queries FILES FILES...

Read fingerprints from FILES, and write JSON Lines to FILE: pairs as "neardup
pairs" prints them, without IDs and keys; or members of clusters, each with the
smallest fingerprint of its cluster; or matches of queries. FILES are names and
patterns of files that the workers can open. -runner is prism (in this process),
or flink, spark or universal with -endpoint. See docs/distributed.md. The flags
of neardup-beam and of Beam are:

`

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-") {
		flag.Parse() // a worker that a runner started, or -h
		beam.Init()
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "neardup-beam: %v\n", err)
		if errors.Is(err, errUsage) || errors.Is(err, neardup.ErrOptions) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// job has the flags.
type job struct {
	neardup.Options
	format, queries, output string
	files                   int
}

var asked job

func init() {
	flag.IntVar(&asked.MaxDistance, "k", 3, "largest Hamming `distance`")
	flag.IntVar(&asked.Groups, "groups", 0, "`number` of groups per table, a power of two: about "+
		"one group per million fingerprints (default 16)")
	flag.Func("memory", "memory in `MiB` of a worker for a group or for clusters (default 1024)",
		func(text string) error {
			n, err := strconv.ParseInt(text, 10, 64-20)
			asked.MemoryBytes = n << 20
			return err
		})
	flag.StringVar(&asked.format, "format", string(neardup.U64LE),
		"`format` of the files: u64le, fingerprints or jsonl")
	flag.StringVar(&asked.queries, "queries", "",
		"`files` of the queries of scan, in the same format")
	flag.StringVar(&asked.output, "o", "", "`file` to write, or prefix of the files with -files")
	flag.IntVar(&asked.files, "files", 1,
		"`number` of files to write, named FILE-00000-of-00004 and so on")
	flag.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		flag.PrintDefaults()
	}
}

// errUsage means that the arguments are wrong.
var errUsage = errors.New("run neardup-beam -h for usage")

func run(args []string) error {
	if len(args) == 0 {
		flag.Usage()
		return errUsage
	}
	if err := flag.CommandLine.Parse(args[1:]); err != nil {
		return err
	}
	if flag.NArg() == 0 || asked.output == "" {
		return fmt.Errorf("-o FILE and files to read are required; %w", errUsage)
	}
	if *runners.Runner == "" {
		*runners.Runner = "prism"
	}
	if *runners.Runner == "prism" {
		log.SetupLogging("warn", log.LogKind)
		if os.Getenv("GOGC") == "" {
			// Prism keeps all shuffled data in memory, so garbage is collected early. The ballast
			// prevents constant collections of a small heap. It takes no memory, since it is never
			// touched.
			ballast := make([]byte, 256<<20)
			defer runtime.KeepAlive(ballast)
			debug.SetGCPercent(15)
		}
	}
	beam.Init()
	p, err := pipeline(args[0], flag.Args())
	if err != nil {
		return err
	}
	result, err := beam.Run(context.Background(), *runners.Runner, p)
	if err != nil {
		return err
	}
	report(result)
	return nil
}

// pipeline builds the pipeline of a job. The transforms panic if an option is invalid.
func pipeline(name string, files []string) (p *beam.Pipeline, err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			if err, _ = wrong.(error); err == nil {
				err = fmt.Errorf("%v", wrong)
			}
		}
	}()
	p, s := beam.NewPipelineWithRoot()
	read := func(files ...string) beam.PCollection {
		return neardup.Read(s, neardup.Format(asked.format), files...)
	}
	var found beam.PCollection
	switch name {
	case "pairs":
		found = neardup.Pairs(s, asked.Options, read(files...))
	case "clusters":
		found = neardup.Clusters(s, asked.Options, read(files...))
	case "scan":
		if asked.queries == "" {
			return nil, fmt.Errorf("scan requires -queries; %w", errUsage)
		}
		found = neardup.Scan(s, asked.Options, read(asked.queries), read(files...))
	default:
		return nil, fmt.Errorf("unknown command %q, want pairs, clusters or scan; %w", name,
			errUsage)
	}
	neardup.Write(s, asked.output, asked.files, neardup.JSON(s, found))
	return p, nil
}

// report prints the number of shuffled bytes, if the runner counts them.
func report(result beam.PipelineResult) {
	if result == nil {
		return
	}
	for _, c := range result.Metrics().Query(func(r beam.MetricResult) bool {
		return r.Name() == neardup.ShuffledBytes
	}).Counters() {
		fmt.Fprintf(os.Stderr, "neardup-beam: %d bytes of fingerprints shuffled\n", c.Committed)
	}
}
