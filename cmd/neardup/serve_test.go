package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/fingerprint"
)

// served is a process that serves an index.
type served struct {
	cmd     *exec.Cmd
	address string
	said    *bytes.Buffer // on standard error, once it has ended
}

// startServe starts one and waits until it answers.
func startServe(t *testing.T, listen string, args ...string) *served {
	t.Helper()
	s := &served{cmd: process(append([]string{"serve", "-listen", listen}, args...)...), address: "http://" + listen, said: new(bytes.Buffer)}
	s.cmd.Stderr = s.said
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() })
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

// end ends it with a signal and returns its exit code.
func (s *served) end(sig syscall.Signal) int {
	s.cmd.Process.Signal(sig)
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// freeAddress is one on loopback that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

const (
	racers      = 16 // clients in each of the processes
	racerFamily = 5  // documents in a group
)

// racedDocument is the n-th document: all of a group are within 2 bits of each other, and no others near.
func racedDocument(n int) client.Document {
	group := n / racerFamily
	bits := rand.New(rand.NewPCG(uint64(group), 7)).Uint64()
	return client.Document{Key: fmt.Sprintf("http://%d.example/%d", n%racerFamily, group), Fingerprint: fingerprint.Fingerprint(bits ^ 1<<(n%racerFamily)), Tokens: 100}
}

// raced is what a client was told.
type raced struct {
	Group   int
	Key     string
	Verdict string
	Of      string
}

// raceMain is a process with several clients, which check every processes-th document, each in an order of
// its own, and print what they are told.
func raceMain() {
	address, mine, processes, documents := os.Args[1], number(os.Args[2]), number(os.Args[3]), number(os.Args[4])
	c, err := client.Open(address, &client.Options{RetryFor: 5 * time.Minute})
	if err != nil {
		panic(err)
	}
	var numbers []int
	for n := mine; n < documents; n += processes {
		numbers = append(numbers, n)
	}
	rand.New(rand.NewPCG(uint64(mine), 3)).Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	out := make(chan raced)
	var wg sync.WaitGroup
	for r := range racers {
		wg.Go(func() {
			for part := range slices.Chunk(numbers[len(numbers)*r/racers:len(numbers)*(r+1)/racers], 1+r%2*7) {
				var docs []client.Document
				for _, n := range part {
					docs = append(docs, racedDocument(n))
				}
				verdicts, err := c.CheckDocuments(context.Background(), docs)
				if err != nil {
					panic(err)
				}
				for i, v := range verdicts {
					out <- raced{part[i] / racerFamily, docs[i].Key, v.Status.String(), v.Of.Key}
				}
			}
		})
	}
	go func() { wg.Wait(); close(out) }()
	lines := json.NewEncoder(os.Stdout)
	for line := range out {
		if err := lines.Encode(line); err != nil {
			panic(err)
		}
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// 64 clients in 4 processes race, and the server is killed, ended and started again meanwhile: of each group of
// near-duplicates exactly one is New, all others are its duplicates, and it is what the index has in the end.
func TestServeRace(t *testing.T) {
	documents := 8000
	switch {
	case os.Getenv("NEARDUP_LONG") != "":
		documents = 100_000
	case testing.Short():
		documents = 1500
	}
	const processes = 4
	ix, listen := filepath.Join(t.TempDir(), "ix"), freeAddress(t)
	server := startServe(t, listen, "-index", ix)
	told := make(chan raced, 1000)
	var wg sync.WaitGroup
	for n := range processes {
		cmd := exec.Command(os.Args[0], server.address, fmt.Sprint(n), fmt.Sprint(processes), fmt.Sprint(documents))
		cmd.Env = append(os.Environ(), "NEARDUP_TEST_RACE=1")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer cmd.Wait()
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var line raced
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Error(err)
				}
				told <- line
			}
		})
	}
	go func() { wg.Wait(); close(told) }()
	var all []raced
	for line := range told {
		all = append(all, line)
		switch len(all) {
		case documents / 3:
			server.end(syscall.SIGKILL)
			server = startServe(t, listen, "-index", ix)
		case documents * 2 / 3:
			if code := server.end(syscall.SIGTERM); code != exitDone {
				t.Errorf("SIGTERM: exit code %d, %s", code, server.said)
			}
			server = startServe(t, listen, "-index", ix)
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
		if line.Verdict == "new" {
			if before, found := first[line.Group]; found {
				t.Errorf("group %d: %s and %s are new", line.Group, before, line.Key)
			}
			first[line.Group] = line.Key
		}
	}
	for _, line := range all {
		if line.Verdict != "new" && (line.Verdict != "duplicate" || line.Of != first[line.Group]) {
			t.Errorf("%+v; %q is new", line, first[line.Group])
		}
	}
	var want, got []string
	for _, key := range first {
		want = append(want, key)
	}
	for _, line := range exported(t, ix) {
		_, key, _ := strings.Cut(line, "\t")
		got = append(got, key)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) != documents/racerFamily {
		t.Errorf("%d documents are stored, %d were new, of %d groups", len(got), len(want), documents/racerFamily)
	}
}

// A call that is under way when SIGTERM comes is answered, and those that come later are told to come again.
func TestServeEndsInOrder(t *testing.T) {
	server := startServe(t, freeAddress(t), "-index", filepath.Join(t.TempDir(), "ix"))
	in, sent := io.Pipe()
	response := make(chan *http.Response, 1)
	go func() {
		r, err := http.Post(server.address+"/v1/check", "application/x-ndjson", in)
		if err != nil {
			t.Error(err)
		}
		response <- r
	}()
	io.WriteString(sent, `{"key":"a","text":"some words"}`+"\n")
	r := <-response
	lines := bufio.NewReader(r.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"verdict":"new"`) {
		t.Fatal(line, err) // while the body is still being sent
	}
	server.cmd.Process.Signal(syscall.SIGTERM)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, `"code":"closed"`) {
		t.Errorf("%q, %v", line, err)
	}
	sent.Close()
	server.cmd.Wait()
	if code := server.cmd.ProcessState.ExitCode(); code != exitDone {
		t.Errorf("exit code %d: %s", code, server.said)
	}
}

func TestServeUsage(t *testing.T) {
	short := writeFile(t, "token", "short\n")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"serve"}, exitUsage, "-index is missing"},
		{[]string{"serve", "-index", "IX", "-listen", "0.0.0.0:7490"}, exitUsage, "give -token-file"},
		{[]string{"serve", "-index", "IX", "-listen", ":7490"}, exitUsage, "give -token-file"},
		{[]string{"serve", "-index", "IX", "-listen", "example.com:1"}, exitUsage, "give -token-file"},
		{[]string{"serve", "-index", "IX", "-pprof", ":6060"}, exitUsage, "-pprof"},
		{[]string{"serve", "-index", "IX", "-tls-cert", "c"}, exitUsage, "go together"},
		{[]string{"serve", "-index", "IX", "-max-bytes", "21"}, exitUsage, "give 22 or more"},
		{[]string{"serve", "-index", "IX", "-max-document", "256"}, exitUsage, "give 342 or more"},
		{[]string{"serve", "-index", "IX", "-token-file", short}, exitFailed, "want 16 or more"},
		{[]string{"serve", "-index", "IX", "-listen", "127.0.0.1:0", "-tls-cert", short, "-tls-key", short}, exitFailed, "-tls-cert"},
	} {
		dir := filepath.Join(t.TempDir(), "ix")
		for i := range c.args {
			c.args[i] = strings.Replace(c.args[i], "IX", dir, 1)
		}
		code, _, said := runHere("", c.args...)
		if _, err := os.Stat(dir); code != c.code || !strings.Contains(said, c.says) || err == nil {
			t.Errorf("%q: exit code %d, %s", c.args, code, said)
		}
	}
}

// The example in Python, and what it does when the server is gone for a while.
func TestServePython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("NEARDUP_CI") != "" {
			t.Fatal("there is no python3")
		}
		t.Skip("there is no python3")
	}
	var pages strings.Builder
	want := ""
	for n := range 600 {
		fmt.Fprintf(&pages, `{"key":"%d","text":"page %d of many pages, that has number %d"}`+"\n", n, n/2, n/2*7919)
		if n%2 == 0 {
			want += fmt.Sprintln(n)
		}
	}
	file, token := writeFile(t, "pages.jsonl", pages.String()), writeFile(t, "token", "0123456789abcdef\n")
	listen, ix := freeAddress(t), filepath.Join(t.TempDir(), "ix")
	startServe(t, listen, "-index", ix, "-k", "0", "-token-file", token)
	out, err := exec.Command(python, "../../docs/serve/check.py", "http://"+listen, file, "0123456789abcdef").CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%v, %d lines: %.300s", err, bytes.Count(out, []byte("\n")), out)
	}
	out, err = exec.Command(python, "../../docs/serve/check.py", "http://"+listen, file, "0123456789abcdef").CombinedOutput()
	if err != nil || string(out) != "" {
		t.Errorf("again: %v, %.300s", err, out)
	}
	if out, err = exec.Command(python, "../../docs/serve/check.py", "http://"+listen, file).CombinedOutput(); err == nil {
		t.Errorf("without the token: %s", out)
	}
}
