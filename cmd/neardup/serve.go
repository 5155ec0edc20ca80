package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/cmd/neardup/internal/archive"
	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/cmd/neardup/internal/progress"
	"github.com/neardup/neardup/cmd/neardup/internal/server"
	"github.com/neardup/neardup/cmd/neardup/internal/view"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	osprocess "github.com/neardup/neardup/internal/process"
	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"
)

func serveCommand(a *app) *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "serve --index DIR [flags]",
		Short: "Share an index with crawlers in other processes, over HTTP",
		Long: `Serve the HTTP API of docs/reference/http.md. Without --token-file, the address
must be a loopback address. After SIGTERM or SIGINT, the server answers the
current requests and ends. All answered documents are stored.`,
		Example: `  neardup serve --index crawl.index
  neardup serve --index crawl.index --listen :7490 --token-file token --tls-cert cert.pem --tls-key key.pem`,
		Args: noArgs,
	})
	c.interrupted = "answered documents are stored"
	s := &serving{call: c,
		indexes: c.requiredIndexFlag().cacheFlag().distanceFlag(defaultK).retentionFlags().
			matchFlags()}
	c.flags.StringVar(&s.listen, "listen", "127.0.0.1:7490", "`address` to listen on")
	c.flags.StringVar(&s.tokenFile, "token-file", "",
		"`file` whose first line is the token that clients must send")
	c.flags.StringVar(&s.cert, "tls-cert", "", "`file` with the TLS certificate and its chain")
	c.flags.StringVar(&s.key, "tls-key", "", "`file` with the key of --tls-cert")
	c.cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	c.flags.BoolVar(&s.opts.AccessLog, "access-log", false,
		"log each request as a line of JSON on standard error")
	c.dirFlag(&s.opts.Checkpoints, "checkpoints",
		"`directory` for checkpoints that clients request; it is created if it does not exist")
	c.flags.StringArrayVar(&s.archives, "archive", nil,
		"`file` of documents, a web archive or JSON Lines, so that the web pages can show their "+
			"words; can be repeated")
	c.check(s.check)
	return c.runs(s.run)
}

// serving are the flags of serve.
type serving struct {
	call    *call
	indexes *indexFlags
	opts    server.Options

	listen, tokenFile, cert, key string
	archives                     []string
}

const (
	maxConnections = 4096
	grace          = 25 * time.Second // time for the current requests after a signal
)

func (s *serving) check() error {
	if s.tokenFile == "" && !isLoopback(s.listen) {
		return usagef("--listen %s is not a loopback address: set --token-file, or an address "+
			"such as 127.0.0.1:7490", s.listen)
	}
	return nil
}

// isLoopback reports whether an address is a loopback address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// readToken returns the first line of the token file.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token, _, _ := strings.Cut(string(text), "\n")
	if token = strings.TrimSpace(token); len(token) < 16 {
		return "", fmt.Errorf("--token-file %s: the token has %d characters, want 16 or more; "+
			"create one with \"openssl rand -hex 32\"", file, len(token))
	}
	return token, nil
}

func (s *serving) run(ctx context.Context) (err error) {
	if s.opts.Token, err = readToken(s.tokenFile); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if s.opts.TLS, err = s.tls(); err != nil {
		return err
	}
	if s.opts.Checkpoints != "" {
		if err := os.MkdirAll(s.opts.Checkpoints, 0o700); err != nil {
			return fmt.Errorf("--checkpoints: %w", err)
		}
	}
	log := slog.New(slog.NewJSONHandler(s.call.err, nil))
	connections := min(maxConnections, osprocess.HostFiles(osprocess.OpenFilesLimit()))
	if connections < maxConnections {
		log.Warn("few connections can be open at a time, because the limit of open files is low: "+
			"raise it (ulimit -n)", "connections", connections, "default", maxConnections)
	}
	o := s.indexes.options("", false)
	o.Bare = s.indexes.exist() // an existing index can be bare, a new index is for pages
	ended := make(chan error, 1)
	end := func(err error) { // keeps the first error
		select {
		case ended <- err:
		default:
		}
	}
	background := func(what string, err error) { // reports an error of work that is retried
		if err != nil && !errors.Is(err, index.ErrClosed) && !errors.Is(err, context.Canceled) {
			log.Warn(what+" failed", "error", err.Error())
		}
		if errors.Is(err, index.ErrFailed) {
			end(err)
		}
	}
	o.Compaction.Done = func(_ compaction.Report, err error) { background("compaction", err) }
	o.Compaction.Expired = func(documents int, err error) {
		if documents > 0 {
			log.Info("documents were deleted by the retention limits", "documents", documents)
		}
		background("expiry", err)
	}
	absent := s.indexes.absent()
	x, err := neardup.Open(s.indexes.dir, o)
	if err != nil {
		return err
	}
	if absent {
		log.Info("created index", "index", s.indexes.dir)
	}
	s.opts.Rule = new(s.indexes.rule(x.Plan().MaxDistance))
	s.opts.Log = log
	s.opts.Failed = func(err error) {
		log.Error("a write to the index failed; the server ends, since the index accepts writes "+
			"only after it is reopened", "error", err.Error())
		end(err)
	}
	var serve *server.Server
	pages, archives, err := s.pages(ctx, x, func(status neardup.Status) int64 {
		return serve.Verdicts(status)
	})
	if err != nil {
		return errors.Join(err, x.Close())
	}
	defer archives.Close()
	s.opts.Page = pages
	serve = server.New(x, s.opts)
	go func() { end(serve.Serve(netutil.LimitListener(listener, int(connections)))) }()
	log.Info("serving", "index", s.indexes.dir, "address", listener.Addr().String(), "documents",
		x.Stats().Documents, "tls", s.cert != "", "token", s.opts.Token != "")
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
		log.Info("stopping", "why", err.Error())
	case err = <-ended:
	}
	ending, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if cut := serve.Shutdown(ending); cut != nil {
		log.Warn("calls in progress were canceled", "error", cut.Error())
	}
	if _, ok := err.(signalled); ok {
		err = nil // a signal is the normal way to stop the server
	}
	return errors.Join(err, x.Close())
}

// pages returns the web pages and the archives, whose texts the pages show.
func (s *serving) pages(
	ctx context.Context, x *neardup.Index, verdicts func(neardup.Status) int64,
) (*view.Pages, *archive.Archive, error) {
	o := view.Options{Rule: *s.opts.Rule, Verdicts: verdicts}
	if len(s.archives) > 0 && x.Signer() == nil {
		return nil, nil, usagef("--archive requires an index of pages")
	}
	texts, err := archive.Open(ctx, s.archives, x.Signer(), func(r *corpus.Reader) (stop func()) {
		return progress.New("serve", s.call.err, nil).Reading(ctx, r)
	})
	if err != nil {
		return nil, nil, err
	}
	if len(s.archives) > 0 {
		o.Texts = texts
	}
	if left := texts.Left(); left > 0 {
		s.opts.Log.Warn("--archive: the words of some documents are not shown", "documents", left,
			"limit", archive.MaxDocuments)
	}
	return view.New(x, o), texts, nil
}

func (s *serving) tls() (*tls.Config, error) {
	if s.cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
