// Command neardup-redis checks documents against an index on a Redis Cluster, from JSON lines, and
// looks after it.
//
//	neardup-redis dedup -redis 10.0.0.1:6379,10.0.0.2:6379 -name pages < pages.jsonl
//
// Run it without arguments for its usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/distributed/redis"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/wire"
)

const usage = `usage: neardup-redis COMMAND -redis ADDRESS[,ADDRESS...] -name NAME [flags] [arguments]

  dedup            read documents as JSON lines, write what each is, in the lines of POST /v1/check (docs/api.md):
                   {"key":..,"fingerprint":"16 hex digits","shingle":..,"tokens":..,"scope":..}, {"key":..,"text":..} or {"key":..,"html":..}
  delete KEY...    remove documents
  expire -before D remove what was added longer ago than the duration D
  sweep            give back the memory of what is dead
  stats            what the index and its Redis are

The password comes from the environment: REDISCLI_AUTH.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "neardup-redis:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// errUsage: the arguments are wrong.
var errUsage = errors.New("see the usage")

// settings are the flags.
type settings struct {
	addresses, user string
	single          bool
	options         redis.Options
	before          time.Duration
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command: %w\n%s", errUsage, usage)
	}
	var s settings
	flags := flag.NewFlagSet("neardup-redis "+args[0], flag.ContinueOnError)
	flags.StringVar(&s.addresses, "redis", "127.0.0.1:6379", "`addresses` of some nodes, with commas between")
	flags.BoolVar(&s.single, "single", false, "the server is no cluster")
	flags.StringVar(&s.user, "user", "", "`name` of the user of Redis")
	flags.StringVar(&s.options.Name, "name", "", "`name` of the index: what its keys begin with")
	flags.IntVar(&s.options.MaxDistance, "k", 0, "largest `distance` of near-duplicates, of a new index (default 6; with -bare 3)")
	flags.Int64Var(&s.options.Expected, "expected", 0, "`number` of documents that a new index is for (default 1,000,000)")
	flags.IntVar(&s.options.Replicas, "replicas", 0, "`number` of replicas that must have each write (default 1; below 0: none, see docs/distributed.md)")
	flags.BoolVar(&s.options.Bare, "bare", false, "fingerprints of any kind; no pages")
	flags.BoolVar(&s.options.NoRestart, "no-restart", false, "nothing restarts nodes by itself, so they need no AOF")
	flags.DurationVar(&s.before, "before", 0, "of expire: the `age`")
	flags.SetOutput(io.Discard) // the error says what is wrong
	err := flags.Parse(args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp) || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]):
		fmt.Fprint(out, usage, "\n")
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w: neardup-redis -h", err, errUsage)
	case !slices.Contains([]string{"dedup", "delete", "expire", "sweep", "stats"}, args[0]):
		return fmt.Errorf("no command %q: %w\n%s", args[0], errUsage, usage)
	case args[0] == "expire" && s.before <= 0:
		return fmt.Errorf("expire needs -before, a duration above 0: %w", errUsage)
	case args[0] != "delete" && flags.NArg() > 0:
		return fmt.Errorf("%s takes no %q: %w", args[0], flags.Arg(0), errUsage)
	}
	client := s.client()
	defer client.Close()
	if args[0] != "dedup" { // which alone makes one
		if n, err := client.Exists(ctx, s.options.Name+":m").Result(); err == nil && n == 0 {
			return fmt.Errorf("there is no index %q", s.options.Name)
		}
	}
	x, err := redis.Open(ctx, client, s.options)
	if err != nil {
		return s.explain(ctx, client, err)
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

func (s *settings) client() goredis.UniversalClient {
	addresses, password := strings.Split(s.addresses, ","), os.Getenv("REDISCLI_AUTH")
	if s.single {
		return goredis.NewClient(&goredis.Options{Addr: addresses[0], Username: s.user, Password: password})
	}
	return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses, Username: s.user, Password: password})
}

// explain says of an error of opening which flag it is of, where that is -single.
func (s *settings) explain(ctx context.Context, client goredis.UniversalClient, err error) error {
	info, asked := client.ClusterInfo(ctx).Result()
	switch {
	case !s.single && goredis.HasErrorPrefix(asked, "This instance has cluster support disabled"):
		return fmt.Errorf("%s is no cluster: give -single", s.addresses)
	case s.single && strings.Contains(info, "cluster_state:"):
		return fmt.Errorf("%s is a node of a cluster: leave -single out", s.addresses)
	}
	return err
}

func report(out io.Writer, v any, err error) error {
	return errors.Join(json.NewEncoder(out).Encode(v), err)
}

const batchLines = 256

// dedup checks the documents of lines, and answers each with one, as a served index does, once it is durable.
func dedup(ctx context.Context, x *redis.Index, in io.Reader, out io.Writer) error {
	decoder, run := json.NewDecoder(in), []document(nil)
	for read := 1; ; read++ {
		d, err := next(decoder)
		if len(run) == batchLines || len(run) > 0 && (err != nil || (d.Fingerprint == nil) != (run[0].Fingerprint == nil)) {
			if err := check(ctx, x, run, out); err != nil {
				return err
			}
			run = nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("document %d: %w", read, err)
		}
		run = append(run, d)
	}
}

// document is a line, and its page where it has no fingerprint.
type document struct {
	wire.Line
	page neardup.Page
}

func next(decoder *json.Decoder) (d document, err error) {
	var raw json.RawMessage
	if err := decoder.Decode(&raw); err != nil {
		return d, err
	}
	if err := d.Parse(raw); err != nil || d.Fingerprint != nil {
		return d, err
	}
	d.page, err = d.Page()
	return d, err
}

// check answers documents, which all have fingerprints or all have none.
func check(ctx context.Context, x *redis.Index, run []document, out io.Writer) (err error) {
	var verdicts []neardup.Verdict
	if run[0].Fingerprint != nil {
		docs := make([]index.Document, len(run))
		for i := range run {
			docs[i] = run[i].Document()
		}
		verdicts, err = x.CheckDocuments(ctx, docs)
	} else {
		pages := make([]neardup.Page, len(run))
		for i := range run {
			pages[i] = run[i].page
		}
		verdicts, err = x.CheckBatch(ctx, pages)
	}
	var answers []byte
	for i := range verdicts {
		c := wire.CheckedOf(run[i].Name(), run[i].Fingerprint, &verdicts[i])
		var failed error
		answers, failed = c.Append(answers)
		err = errors.Join(err, failed)
	}
	_, failed := out.Write(answers)
	return errors.Join(err, failed)
}
