// Command neardup-redis checks documents in JSON Lines against an index on a Redis Cluster, and
// maintains the index.
//
//	neardup-redis dedup -redis 10.0.0.1:6379,10.0.0.2:6379 -name pages < pages.jsonl
//
// Run it without arguments for its usage.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/distributed/redis"
	"github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/index"
	pages "github.com/neardup/neardup/internal/check"
	"github.com/neardup/neardup/internal/ordered"
	"github.com/neardup/neardup/internal/wire"
)

const usage = `usage: neardup-redis COMMAND -redis ADDRESS[,ADDRESS...] -name NAME [flags] [arguments]

  dedup             check documents from standard input and print a verdict on
                    each. Documents and verdicts are the JSON Lines of POST
                    /v1/check (docs/reference/http.md), such as
                    {"key":"http://example.org/","html":"<p>..."}
  delete KEY...     remove the documents with these keys
  expire -before D  remove the documents that were added longer ago than D
  sweep             free the memory of removed and replaced documents
  stats             print the properties of the index and of Redis

The environment variable REDISCLI_AUTH has the password of Redis.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	logging.Disable()            // errors are reported at the end, or are temporary
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "neardup-redis:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// errUsage means that the arguments are wrong.
var errUsage = errors.New("run neardup-redis -h for usage")

// settings has the flags.
type settings struct {
	addresses, user string
	options         redis.Options
	before          time.Duration
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command; %w\n%s", errUsage, usage)
	}
	var s settings
	flags := flag.NewFlagSet("neardup-redis "+args[0], flag.ContinueOnError)
	flags.StringVar(&s.addresses, "redis", "127.0.0.1:6379",
		"comma-separated `addresses` of nodes of a cluster, or the address of one server")
	flags.StringVar(&s.user, "user", "", "`name` of the Redis user")
	flags.StringVar(&s.options.Name, "name", "", "`name` of the index, the prefix of its keys")
	flags.Func("k", "largest Hamming `distance` of near-duplicates in a new index (default 7, or "+
		"3 with -bare)", func(text string) error {
		k, err := strconv.Atoi(text)
		switch {
		case err != nil || k < 0 || k > 64:
			return errors.New("want a number from 0 to 64")
		case k == 0:
			k = index.Exact
		}
		s.options.MaxDistance = k
		return nil
	})
	flags.Int64Var(&s.options.Expected, "expected", 0,
		"expected `number` of documents of a new index (default 1,000,000)")
	flags.IntVar(&s.options.Replicas, "replicas", 0,
		"`number` of replicas that must confirm each write (default 1 for a cluster, 0 for one "+
			"server; below 0: none, see docs/distributed.md)")
	flags.BoolVar(&s.options.Bare, "bare", false, "compare fingerprints of any kind, and no pages")
	flags.BoolVar(&s.options.NoRestart, "no-restart", false,
		"no supervisor restarts failed nodes, so they need no append-only file (AOF)")
	flags.DurationVar(&s.before, "before", 0, "`age` of the documents that expire removes")
	flags.SetOutput(io.Discard) // the error describes the wrong flag
	err := flags.Parse(args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp) ||
		slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]):
		fmt.Fprint(out, usage, "\n")
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w; %w", err, errUsage)
	case !slices.Contains([]string{"dedup", "delete", "expire", "sweep", "stats"}, args[0]):
		return fmt.Errorf("unknown command %q; %w\n%s", args[0], errUsage, usage)
	case args[0] == "expire" && s.before <= 0:
		return fmt.Errorf("expire requires -before with a duration above 0; %w", errUsage)
	case args[0] == "delete" && flags.NArg() == 0:
		return fmt.Errorf("delete requires a KEY; %w", errUsage)
	case args[0] != "delete" && flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q of %s; %w", flags.Arg(0), args[0], errUsage)
	case s.options.Name == "":
		return fmt.Errorf("-name is required; %w", errUsage)
	}
	client := s.client(ctx)
	defer client.Close()
	if args[0] != "dedup" { // only dedup creates an index
		if n, err := client.Exists(ctx, s.options.Name+":m").Result(); err == nil && n == 0 {
			return fmt.Errorf("no index %q in redis; dedup creates one", s.options.Name)
		}
	}
	x, err := redis.Open(ctx, client, s.options)
	if err != nil {
		return err
	}
	defer x.Close()
	switch args[0] {
	case "dedup":
		return dedup(ctx, x, in, out)
	case "delete":
		n, err := x.Delete(ctx, flags.Args()...)
		return report(out, map[string]int{"deleted": n}, err)
	case "expire":
		n, err := x.DeleteBefore(ctx, time.Now().Add(-s.before))
		return report(out, map[string]int{"deleted": n}, err)
	case "sweep":
		swept, err := x.Sweep(ctx)
		return report(out, swept, err)
	default:
		stats, err := x.Stats(ctx)
		return report(out, stats, err)
	}
}

// client returns a cluster client, unless the first address is a server outside of a cluster.
func (s *settings) client(ctx context.Context) goredis.UniversalClient {
	o := &goredis.UniversalOptions{Addrs: strings.Split(s.addresses, ","), Username: s.user,
		Password: os.Getenv("REDISCLI_AUTH")}
	single := goredis.NewClient(o.Simple())
	if info, _ := single.Info(ctx, "cluster").Result(); strings.Contains(info,
		"cluster_enabled:0") {
		return single
	}
	single.Close()
	return goredis.NewClusterClient(o.Cluster())
}

func report(out io.Writer, v any, err error) error {
	return errors.Join(json.NewEncoder(out).Encode(v), err)
}

const (
	batchLines = 256
	// lineBytes is the longest line: a page in base64, with the longest key and scope
	lineBytes = neardup.DefaultMaxBody/3*4 + 512<<10
)

// dedup checks the document of each line, and writes the verdict as a line after it is durable. It
// does not wait for further lines before it answers, since the writer may wait for the answer.
func dedup(ctx context.Context, x *redis.Index, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // does not wait for a blocked read
	items := ordered.New(ctx, runtime.GOMAXPROCS(0), batchLines,
		func(p *ordered.Pipe[item]) error { return send(p, in, x.Signer()) })
	for batch := []item(nil); ; {
		i, ok, err := items.Next()
		if ok {
			batch = append(batch, i)
		}
		if len(batch) > 0 && (len(batch) == batchLines || !ok || !items.Ready()) {
			if err := check(ctx, x, batch, out); err != nil {
				return err
			}
			batch = nil
		}
		if !ok {
			return err
		}
	}
}

// item has the document of a line.
type item struct {
	index.Document
	key    string
	reason string // the reason of a skip
}

// send reads lines and parses them in the pipe.
func send(p *ordered.Pipe[item], in io.Reader, s *page.Signer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineBytes)
	for lines.Scan() {
		if raw := bytes.Clone(bytes.TrimSpace(lines.Bytes())); len(raw) > 0 {
			if err := p.Go(func(int) (item, error) { return itemOf(raw, s), nil }); err != nil {
				return err
			}
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line has more than %d bytes", lineBytes)
	}
	return lines.Err()
}

func itemOf(raw []byte, s *page.Signer) (i item) {
	var d api.Document
	err := wire.Parse(raw, &d)
	if i.key = d.Key; err == nil {
		i.Document, i.reason = pages.Document(&d, s != nil,
			func(p neardup.Page) (index.Document, string) {
				return pages.Page(s, neardup.DefaultMaxBody, p)
			})
	} else {
		i.reason = err.Error()
	}
	return i
}

// check checks the documents of items and writes their verdicts.
func check(ctx context.Context, x *redis.Index, items []item, out io.Writer) error {
	var docs []index.Document
	for i := range items {
		if items[i].reason == "" {
			docs = append(docs, items[i].Document)
		}
	}
	verdicts, err := x.CheckDocuments(ctx, docs)
	var answers []byte
	for _, i := range items {
		v := neardup.Verdict{Status: neardup.Skipped, Reason: i.reason}
		if i.reason == "" {
			if len(verdicts) == 0 {
				break
			}
			v, verdicts = verdicts[0], verdicts[1:]
		}
		c := wire.Checked(i.key, &i.Fingerprint, &v)
		var failed error
		answers, failed = wire.Append(answers, &c)
		err = errors.Join(err, failed)
	}
	_, failed := out.Write(answers)
	return errors.Join(err, failed)
}
