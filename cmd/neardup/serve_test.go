package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
func startServe(t *testing.T, listen string, args ...string) *served {
	t.Helper()
	return started(t, listen, process(append([]string{"serve", "--listen", listen}, args...)...))
}

// started starts a serve command, and waits until it answers. Over TLS, the answer is that HTTP
// is refused.
func started(t *testing.T, listen string, cmd *exec.Cmd) *served {
	t.Helper()
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
	t.Fatalf("it does not answer: %s", s.said)
	return nil
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

// isKept reports whether a document, which is checked once, was stored.
func isKept(v client.Status) bool { return v == client.New || v == client.Unchanged }

// raced is a verdict that a client received.
type raced struct {
	group   int
	key     string
	verdict client.Status
	of      string
}

// race is a client that checks documents from 16 goroutines, in an order of its own. It sends the
// verdicts to told.
func race(t *testing.T, address string, numbers []int, told chan<- raced) {
	c, err := client.Open(t.Context(), address, &client.Options{RetryFor: 5 * time.Minute})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	rand.New(rand.NewPCG(uint64(numbers[0]), 3)).Shuffle(len(numbers),
		func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	var wg sync.WaitGroup
	const racers = 16
	for r := range racers {
		wg.Go(func() {
			for part := range slices.Chunk(numbers[len(numbers)*r/racers:len(numbers)*(r+1)/racers],
				1+r%2*7) {
				var docs []client.Document
				for _, n := range part {
					docs = append(docs, racedDocument(n))
				}
				verdicts, err := c.CheckDocuments(t.Context(), docs)
				if err != nil {
					t.Error(err)
				}
				for i, v := range verdicts {
					told <- raced{part[i] / racerFamily, docs[i].Key, v.Status, v.Of.Key}
				}
			}
		})
	}
	wg.Wait()
}

// TestServeRace runs 64 goroutines of 4 clients while the server is killed, stopped and started
// again. In each group of near-duplicates exactly one document is New, or Unchanged if the answer
// New was lost. All others must be its duplicates, and the index must have exactly this document
// at the end.
func TestServeRace(t *testing.T) {
	documents := 8000
	switch {
	case os.Getenv("NEARDUP_LONG") != "":
		documents = 100_000
	case testing.Short():
		documents = 1500
	}
	const clients = 4
	numbers := make([][]int, clients)
	for n := range documents {
		numbers[n%clients] = append(numbers[n%clients], n)
	}
	ix, listen := filepath.Join(t.TempDir(), "ix"), freeAddress(t)
	server := startServe(t, listen, "--index", ix)
	told := make(chan raced, 1000)
	var wg sync.WaitGroup
	for _, own := range numbers {
		wg.Go(func() { race(t, "http://"+listen, own, told) })
	}
	go func() { wg.Wait(); close(told) }()
	var all []raced
	for line := range told {
		all = append(all, line)
		switch len(all) {
		case documents / 3:
			server.end(syscall.SIGKILL)
			server = startServe(t, listen, "--index", ix)
		case documents * 2 / 3:
			if code := server.end(syscall.SIGTERM); code != exitDone {
				t.Errorf("SIGTERM: exit code %d, %s", code, server.said)
			}
			server = startServe(t, listen, "--index", ix)
		}
	}
	if len(all) != documents {
		t.Errorf("%d of %d documents have a verdict", len(all), documents)
	}
	if code := server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	first := make(map[int]string)
	for _, line := range all {
		if isKept(line.verdict) {
			if before, found := first[line.group]; found {
				t.Errorf("group %d: %s and %s are new", line.group, before, line.key)
			}
			first[line.group] = line.key
		}
	}
	for _, line := range all {
		if !isKept(line.verdict) && (line.verdict != client.Duplicate ||
			line.of != first[line.group]) {
			t.Errorf("%+v; %q is new", line, first[line.group])
		}
	}
	want := slices.Sorted(maps.Values(first))
	var got []string
	for _, line := range exported(t, ix) {
		_, key, _ := strings.Cut(line, "\t")
		got = append(got, key)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) != documents/racerFamily {
		t.Errorf("%d documents are stored, %d were new, of %d groups", len(got), len(want),
			documents/racerFamily)
	}
}

// TestServeEndsInOrder tests that a request in progress is answered after SIGTERM. The process
// must then end with exit code 0.
func TestServeEndsInOrder(t *testing.T) {
	server := startServe(t, freeAddress(t), "--index", filepath.Join(t.TempDir(), "ix"))
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
	if runtime.GOOS == "windows" {
		t.Skip("there is no ulimit")
	}
	listen, dir := freeAddress(t), filepath.Join(t.TempDir(), "ix")
	cmd := process("serve", "--listen", listen, "--index", dir)
	cmd.Path, cmd.Args = "/bin/sh",
		append([]string{"sh", "-c", `trap "" XFSZ; ulimit -f 1024 && exec "$0" "$@"`, os.Args[0]},
			cmd.Args[1:]...)
	server := started(t, listen, cmd)
	c, err := client.Open(t.Context(), server.address, &client.Options{RetryFor: -1})
	must(t, err)
	defer c.Close()
	acknowledged := 0
	for n := 0; err == nil && n < 10_000; n += 100 {
		docs := make([]client.Document, 100)
		for i := range docs {
			docs[i] = client.Document{Key: strings.Repeat("k", 1000) + fmt.Sprint(n+i),
				Fingerprint: fingerprint.Fingerprint(rand.Uint64()), Tokens: 100}
		}
		var verdicts []client.Verdict
		verdicts, err = c.CheckDocuments(t.Context(), docs)
		acknowledged += len(verdicts)
	}
	if !errors.Is(err, api.ErrFailed) {
		t.Errorf("%d documents and no failed write: %v", acknowledged, err)
	}
	done := make(chan error, 1)
	go func() { done <- server.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the server continues after a failed write")
	}
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

// TestServeFewOpenFiles tests that connections leave enough file descriptors to the index,
// however few there are. Further connections wait.
func TestServeFewOpenFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no ulimit")
	}
	listen := freeAddress(t)
	cmd := process("serve", "--listen", listen, "--index", filepath.Join(t.TempDir(), "ix"))
	cmd.Path, cmd.Args = "/bin/sh",
		append([]string{"sh", "-c", `ulimit -n 150 && exec "$0" "$@"`, os.Args[0]}, cmd.Args[1:]...)
	s := started(t, listen, cmd)
	http.DefaultClient.CloseIdleConnections()
	var wg sync.WaitGroup
	for n := range 60 {
		wg.Go(func() {
			caller := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			r, err := caller.Post(s.address+"/v1/check", api.JSONLines,
				strings.NewReader(fmt.Sprintf(`{"key":"%d","text":"words of page %d"}`, n, n)))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if said, err := io.ReadAll(r.Body); err != nil ||
				!strings.Contains(string(said), `"verdict"`) {
				t.Errorf("%s, %v", said, err)
			}
		})
	}
	wg.Wait()
	if s.end(syscall.SIGTERM); !strings.Contains(s.said.String(),
		"at most 11 connections are open at a time") {
		t.Error(s.said)
	}
}

// TestServeLog tests that the access log has one line per call.
func TestServeLog(t *testing.T) {
	server := startServe(t, freeAddress(t), "--index", filepath.Join(t.TempDir(), "ix"),
		"--access-log")
	r, err := http.Get(server.address + "/v1/document?key=none")
	must(t, err)
	r.Body.Close()
	r, err = http.Post(server.address+"/v1/check", api.JSONLines,
		strings.NewReader(`{"key":"a","text":"some words"}`+"\n"+`{"key":"b","text":""}`))
	must(t, err)
	r.Body.Close()
	if code := server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	var calls []string
	for line := range strings.Lines(server.said.String()) {
		var call struct {
			Msg, Call, From, Error string
			Status, Documents      int
			Took                   int64
		}
		if err := json.Unmarshal([]byte(line), &call); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if call.Msg == "call" {
			if !strings.HasPrefix(call.From, "127.0.0.1:") || call.Took <= 0 {
				t.Error(line)
			}
			calls = append(calls, fmt.Sprint(call.Call, " ", call.Status, " ", call.Documents,
				" ", call.Error))
		}
	}
	if want := []string{`get 404 0 no document has the key "none": duplicates and skipped pages are not stored; to find out which stored page one resembles, send it to POST /v1/explain`, "check 200 2 "}; !slices.Equal(calls, want) {
		t.Errorf("%q, want %q", calls, want)
	}
}

// TestServeAsDeployed tests that the systemd unit and the Docker image start a server.
func TestServeAsDeployed(t *testing.T) {
	unit, err := os.ReadFile("../../docs/serve/neardup.service")
	must(t, err)
	docker, err := os.ReadFile("../../Dockerfile")
	must(t, err)
	_, command, _ := strings.Cut(string(unit), "\nExecStart=/usr/local/bin/neardup ")
	command, _, _ = strings.Cut(command, "\n")
	var image []string
	_, cmd, _ := strings.Cut(string(docker), "\nCMD ")
	must(t, json.Unmarshal([]byte(cmd), &image))
	for what, args := range map[string][]string{"unit": strings.Fields(command), "image": image} {
		dir, token, listen := t.TempDir(), writeFile(t, "token", "0123456789abcdef\n"),
			freeAddress(t)
		in := strings.NewReplacer("${CREDENTIALS_DIRECTORY}/token", token, "/token", token,
			"/var/lib/neardup/pages.neardup", dir+"/pages.neardup", "/var/lib/neardup", dir,
			"pages.neardup", dir+"/pages.neardup", ":7490", listen)
		for i := range args {
			args[i] = in.Replace(args[i])
		}
		if args[0] != "serve" {
			t.Fatalf("%s: %q", what, args)
		}
		server := startServe(t, listen, args[1:]...)
		c, err := client.Open(t.Context(), server.address,
			&client.Options{Token: "0123456789abcdef"})
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

// TestServeScrapy tests the Scrapy pipeline with a real server and a replacement for Scrapy. The
// pipeline must drop duplicates, and keep unchanged, changed and skipped pages.
func TestServeScrapy(t *testing.T) {
	python := testenv.Program(t, "python3")
	token := writeFile(t, "token", "0123456789abcdef\n")
	server := startServe(t, freeAddress(t), "--index", filepath.Join(t.TempDir(), "ix"),
		"--token-file", token)
	crawl := exec.Command(python, "testdata/scrapy/crawl.py", server.address, "0123456789abcdef")
	crawl.Env = append(os.Environ(), "PYTHONPATH=../../docs/serve", "PYTHONDONTWRITEBYTECODE=1")
	out, err := crawl.CombinedOutput()
	if want := "kept a\ndropped duplicate: a\nkept a\nkept a\nkept c\n"; err != nil ||
		string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServePython runs the Python example, also while the server is unavailable.
func TestServePython(t *testing.T) {
	python := testenv.Program(t, "python3")
	var pages strings.Builder
	want := ""
	for n := range 600 {
		fmt.Fprintf(&pages, `{"key":"%d","text":"page %d of many pages, that has number %d"}`+"\n",
			n, n/2, n/2*7919)
		if n%2 == 0 {
			want += fmt.Sprintln(n)
		}
	}
	fmt.Fprintln(&pages, `{"key":"empty","text":""}`)
	want += "empty\n" // skipped
	file, token := writeFile(t, "pages.jsonl", pages.String()),
		writeFile(t, "token", "0123456789abcdef\n")
	listen, ix := freeAddress(t), filepath.Join(t.TempDir(), "ix")
	startServe(t, listen, "--index", ix, "--max-distance", "0", "--token-file", token)
	out, err := exec.Command(python, "../../docs/serve/check.py", "http://"+listen, file,
		"0123456789abcdef").CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%v, %d lines: %.300s", err, bytes.Count(out, []byte("\n")), out)
	}
	out, err = exec.Command(python, "../../docs/serve/check.py", "http://"+listen, file,
		"0123456789abcdef").CombinedOutput()
	if err != nil || string(out) != want { // now unchanged
		t.Errorf("again: %v, %.300s", err, out)
	}
	if out, err = exec.Command(python, "../../docs/serve/check.py", "http://"+listen,
		file).CombinedOutput(); err == nil {
		t.Errorf("without the token: %s", out)
	}
	large := exec.Command(python, "testdata/scrapy/large.py", "http://"+listen, "0123456789abcdef")
	large.Env = append(os.Environ(), "PYTHONPATH=../../docs/serve", "PYTHONDONTWRITEBYTECODE=1")
	want = "skipped too large: 18500000 bytes, limit 1048576\nskipped too large: 18500000 bytes, " +
		"limit 16777216\nnew\n"
	if out, err = large.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("large pages: %v, %s", err, out)
	}
}
