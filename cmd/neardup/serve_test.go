package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// served is a process that runs serve.
type served struct {
	cmd     *exec.Cmd
	address string
	said    *bytes.Buffer // standard error, once the process has ended
}

// startServe starts neardup serve.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	return started(t, freeAddress(t), process(append([]string{"serve"}, args...)...))
}

// started starts a serve command, and waits until it answers. Over TLS, the answer is that HTTP
// is refused.
func started(t *testing.T, listen string, cmd *exec.Cmd) *served {
	t.Helper()
	cmd.Args = append(cmd.Args, "--listen", listen)
	s := &served{cmd: cmd, address: "http://" + listen, said: new(bytes.Buffer)}
	cmd.Stderr = s.said
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	for range 600 {
		if r, err := http.Get(s.address + "/readyz"); err == nil {
			r.Body.Close()
			return s
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the server does not answer: %s", s.said)
	return nil
}

// limited returns a serve command in a shell that has run limit.
func limited(t *testing.T, limit string, args ...string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no ulimit")
	}
	return exec.Command("sh",
		append([]string{"-c", limit + ` && exec neardup serve "$@"`, "sh"}, args...)...)
}

// end ends the process with a signal and returns its exit code.
func (s *served) end(sig syscall.Signal) int {
	s.cmd.Process.Signal(sig)
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// freeAddress returns a loopback address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

const racerFamily = 5 // documents in a group

// racedDocument returns the n-th document. The documents of a group are within 2 bits of each
// other, and far from all others.
func racedDocument(n int) client.Document {
	group := n / racerFamily
	bits := rand.New(rand.NewPCG(uint64(group), 7)).Uint64()
	return client.Document{Key: fmt.Sprintf("http://%d.example/%d", n%racerFamily, group),
		Fingerprint: fingerprint.Fingerprint(bits ^ 1<<(n%racerFamily)), Tokens: 100}
}

// raced is a verdict that a client received on the n-th document.
type raced struct {
	n       int
	verdict client.Verdict
}

// race checks documents, size at a time, and sends the verdicts to told.
func race(t *testing.T, c *client.Client, numbers []int, size int, told chan<- raced) {
	for part := range slices.Chunk(numbers, size) {
		var docs []client.Document
		for _, n := range part {
			docs = append(docs, racedDocument(n))
		}
		verdicts, err := c.CheckDocuments(t.Context(), docs)
		if err != nil {
			t.Error(err)
		}
		for i, v := range verdicts {
			told <- raced{part[i], v}
		}
	}
}

// TestServeRace runs 64 goroutines of 4 clients while the server is killed, stopped and started
// again. In each group of near-duplicates, the index must have exactly one document at the end.
// This document must be New, or Unchanged if the answer New was lost. All others must be its
// duplicates.
func TestServeRace(t *testing.T) {
	documents := testenv.Number(1500, 8000, 8000, 100_000)
	ix, listen := filepath.Join(t.TempDir(), "ix"), freeAddress(t)
	server := started(t, listen, process("serve", "--index", ix))
	told := make(chan raced, 1000)
	var wg sync.WaitGroup
	order := rand.New(rand.NewPCG(testenv.Seed(t), 3)).Perm(documents)
	for ofClient := range slices.Chunk(order, documents/4) {
		c, err := client.Open(t.Context(), server.address,
			&client.Options{RetryFor: 5 * time.Minute})
		must(t, err)
		defer c.Close()
		size := 1
		for own := range slices.Chunk(ofClient, len(ofClient)/16+1) {
			batch := size
			wg.Go(func() { race(t, c, own, batch, told) })
			size = 9 - size
		}
	}
	go func() { wg.Wait(); close(told) }()
	var all []raced
	for line := range told {
		all = append(all, line)
		switch len(all) {
		case documents / 3:
			server.end(syscall.SIGKILL)
			server = started(t, listen, process("serve", "--index", ix))
		case documents * 2 / 3:
			if code := server.end(syscall.SIGTERM); code != exitDone {
				t.Errorf("SIGTERM: exit code %d, %s", code, server.said)
			}
			server = started(t, listen, process("serve", "--index", ix))
		}
	}
	if code := server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	stored := make(map[string]string) // the key of each group
	for _, line := range exported(t, ix) {
		_, key, _ := strings.Cut(line, "\t")
		group := key[strings.LastIndexByte(key, '/'):]
		if stored[group] != "" {
			t.Errorf("%s and %s are stored", stored[group], key)
		}
		stored[group] = key
	}
	for _, line := range all {
		key := racedDocument(line.n).Key
		kept := stored[key[strings.LastIndexByte(key, '/'):]]
		v := line.verdict
		isNew := v.Status == client.New || v.Status == client.Unchanged
		if isNew != (key == kept) || !isNew && (v.Status != client.Duplicate || v.Of.Key != kept) {
			t.Errorf("%s: %+v; %q is stored", key, v, kept)
		}
	}
	if len(all) != documents || len(stored) != documents/racerFamily {
		t.Errorf("%d of %d documents have a verdict; %d of %d groups are stored", len(all),
			documents, len(stored), documents/racerFamily)
	}
}

// TestServeEndsInOrder tests that a request in progress is answered after SIGTERM. The process
// must then end with exit code 0.
func TestServeEndsInOrder(t *testing.T) {
	server := startServe(t, "--index", filepath.Join(t.TempDir(), "ix"))
	in, sent := io.Pipe()
	answered := make(chan string, 1)
	go func() {
		r, err := http.Post(server.address+"/v1/check", api.JSONLines, in)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer r.Body.Close()
		said, _ := io.ReadAll(r.Body)
		answered <- string(said)
	}()
	io.WriteString(sent, `{"key":"a","text":"some words"}`+"\n")
	time.Sleep(200 * time.Millisecond) // until the request has begun
	server.cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond)
	io.WriteString(sent, `{"key":"b","text":"some other words"}`+"\n")
	sent.Close()
	if said := <-answered; strings.Count(said, `"verdict":"new"`) != 2 {
		t.Error(said)
	}
	server.cmd.Wait()
	if code := server.cmd.ProcessState.ExitCode(); code != exitDone {
		t.Errorf("exit code %d: %s", code, server.said)
	}
}

// TestServeEndsAfterFailedWrite tests that a server whose disk fails ends with exit code 1, so
// that its supervisor restarts it. All acknowledged documents must be stored.
func TestServeEndsAfterFailedWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ix")
	server := started(t, freeAddress(t),
		limited(t, `trap "" XFSZ; ulimit -f 1024`, "--index", dir))
	c, err := client.Open(t.Context(), server.address, &client.Options{RetryFor: -1})
	must(t, err)
	defer c.Close()
	acknowledged := 0
	for ; err == nil && acknowledged < 1000; acknowledged++ {
		_, err = c.CheckDocuments(t.Context(), []client.Document{{Tokens: 100,
			Key:         fmt.Sprintf("%060000d", acknowledged),
			Fingerprint: fingerprint.Fingerprint(rand.Uint64())}})
	}
	acknowledged-- // the last one is an error
	if !errors.Is(err, api.ErrFailed) {
		t.Errorf("%d documents and no failed write: %v", acknowledged, err)
	}
	hang := time.AfterFunc(30*time.Second, func() { server.cmd.Process.Kill() })
	defer hang.Stop()
	server.cmd.Wait()
	if code := server.cmd.ProcessState.ExitCode(); code != exitFailed ||
		!strings.Contains(server.said.String(), "a write to the index failed") {
		t.Errorf("exit code %d: %s", code, server.said)
	}
	x, err := neardup.Open(dir, nil)
	must(t, err)
	defer x.Close()
	if n := x.Stats().Documents; n < uint64(acknowledged) {
		t.Errorf("%d documents are stored, and %d were acknowledged", n, acknowledged)
	}
}

// TestServeFewOpenFiles tests that connections leave enough file descriptors to the index if the
// limit of open files is low. Further connections wait.
func TestServeFewOpenFiles(t *testing.T) {
	s := started(t, freeAddress(t),
		limited(t, "ulimit -n 150", "--index", filepath.Join(t.TempDir(), "ix")))
	http.DefaultClient.CloseIdleConnections()
	var wg sync.WaitGroup
	for n := range 60 {
		wg.Go(func() {
			c, err := client.Open(t.Context(), s.address, &client.Options{RetryFor: -1})
			if err == nil {
				_, err = c.Check(t.Context(),
					client.Page{URL: fmt.Sprint(n), Body: []byte("words")})
				c.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s.end(syscall.SIGTERM); !strings.Contains(s.said.String(),
		`"connections":11,`) {
		t.Error(s.said)
	}
}

// secret is the token of a server.
const secret = "0123456789abcdef"

// TestServeAsDeployed tests that the systemd unit and the Docker image start a server.
func TestServeAsDeployed(t *testing.T) {
	_, command, _ := strings.Cut(readFile(t, "../../docs/serve/neardup.service"),
		"\nExecStart=/usr/local/bin/neardup ")
	command, _, _ = strings.Cut(command, "\n")
	var image []string
	_, cmd, _ := strings.Cut(readFile(t, "../../Dockerfile"), "\nCMD ")
	must(t, json.Unmarshal([]byte(cmd), &image))
	for what, args := range map[string][]string{"unit": strings.Fields(command), "image": image} {
		dir, token, listen := t.TempDir(), writeFile(t, "token", secret+"\n"), freeAddress(t)
		in := strings.NewReplacer("${CREDENTIALS_DIRECTORY}/token", token, "/token", token,
			"/var/lib/neardup/pages.neardup", dir+"/pages.neardup", "/var/lib/neardup", dir,
			"pages.neardup", dir+"/pages.neardup", ":7490", listen)
		for i := range args {
			args[i] = in.Replace(args[i])
		}
		server := started(t, listen, process(args...))
		c, err := client.Open(t.Context(), server.address, &client.Options{Token: secret})
		if err != nil {
			t.Fatal(what, err)
		}
		if v, err := c.Check(t.Context(), client.Page{URL: "a",
			Body: []byte("some words")}); err != nil || v.Status != client.New {
			t.Error(what, v, err)
		}
		c.Close()
		if code := server.end(syscall.SIGTERM); code != exitDone {
			t.Errorf("%s: exit code %d: %s", what, code, server.said)
		}
		if _, err := os.Stat(dir + "/pages.neardup"); err != nil {
			t.Error(what, err)
		}
	}
}

// TestServePython tests the Python example and the Scrapy pipeline with a real server and a
// replacement for Scrapy. Duplicates must be dropped. Unchanged, changed and skipped pages must be
// kept.
func TestServePython(t *testing.T) {
	python := testenv.Program(t, "python3")
	var pages, kept strings.Builder
	for n := range 600 {
		fmt.Fprintf(&pages, `{"key":"%d","text":"page %d of many pages, that has number %d"}`+"\n",
			n, n/2, n/2*7919)
		if n%2 == 0 {
			fmt.Fprintln(&kept, n)
		}
	}
	fmt.Fprintln(&pages, `{"key":"empty","text":""}`)
	fmt.Fprintln(&kept, "empty") // skipped
	file, token := writeFile(t, "pages.jsonl", pages.String()), writeFile(t, "token", secret+"\n")
	server := startServe(t, "--index", filepath.Join(t.TempDir(), "ix"), "--max-distance", "0",
		"--token-file", token)
	check := []string{"../../docs/serve/check.py", server.address, file, secret}
	for _, test := range []struct {
		args []string
		want string
	}{
		{check, kept.String()},
		{check, kept.String()}, // now unchanged
		{[]string{"testdata/scrapy/crawl.py", server.address, secret},
			"kept a\ndropped duplicate: a\nkept a\nkept a\nkept c\n" +
				"d is kept without a verdict: 'NoneType' object is not callable\nkept d\n"},
		{[]string{"testdata/scrapy/large.py", server.address, secret},
			"skipped too large: 18500000 bytes, limit 1048576\n" +
				"skipped too large: 18500000 bytes, limit 16777216\nnew\n" +
				"page 0 new huge skipped page 1 new page 2 new\n"},
	} {
		run := exec.Command(python, test.args...)
		run.Env = append(os.Environ(), "PYTHONPATH=../../docs/serve", "PYTHONDONTWRITEBYTECODE=1")
		if out, err := run.CombinedOutput(); err != nil || string(out) != test.want {
			t.Errorf("%s: %v, %d lines: %.300s", test.args[0], err,
				bytes.Count(out, []byte("\n")), out)
		}
	}
	if out, err := exec.Command(python, check[:3]...).CombinedOutput(); err == nil {
		t.Errorf("without the token: %s", out)
	}
}
