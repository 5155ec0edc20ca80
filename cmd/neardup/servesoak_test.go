package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// soak is a served index and the crawlers that share it. Each crawler has pages of its own and remembers what is
// stored of them, so that it knows what each verdict has to be.
type soak struct {
	*testing.T
	server      *served
	client      *client.Client
	checkpoints string // folder
	documents   int    // to check in all
	keys        int    // there are so many pages, which are crawled again and again

	done     atomic.Int64 // documents checked
	requests atomic.Int64
	over     context.Context // ends when all are
}

const soakCrawlers = 12

// visit is a page that a crawler has fetched: a version of its n-th one, and what is to be said of it.
type visit struct {
	key        string
	n, version int
	want       neardup.Status
}

func soakKey(crawler, n int) string {
	return fmt.Sprintf("https://host%d.example/%d/%d", n%97, crawler, n)
}

// page has words that are drawn for it.
func (v *visit) page(crawler int) client.Page {
	r := rand.New(rand.NewPCG(uint64(crawler)<<40|uint64(v.n), uint64(v.version)))
	var body bytes.Buffer
	body.WriteString("<!doctype html><title>A page</title><body><nav><a href=/>Home</a></nav><p>")
	for range 70 {
		fmt.Fprintf(&body, "%s%d ", "qwertzuiopasdfghjkl"[r.IntN(16):][:3], r.IntN(400))
	}
	return client.Page{URL: v.key, ContentType: "text/html; charset=utf-8", Body: body.Bytes()}
}

// document is what a crawler sends that has made the fingerprints itself.
func (v *visit) document(crawler int) client.Document {
	r := rand.New(rand.NewPCG(uint64(crawler)<<40|uint64(v.n), uint64(v.version)))
	return client.Document{Key: v.key, Fingerprint: fingerprint.Fingerprint(r.Uint64()), Shingles: fingerprint.ShingleSignature{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}, Tokens: 100}
}

// crawl checks the pages of one crawler, round after round: most are as they were, some have changed, some have expired
// and are deleted first, and some have a mirror.
func (s *soak) crawl(ctx context.Context, crawler int) error {
	r := rand.New(rand.NewPCG(uint64(crawler), 9))
	versions := make([]uint8, s.keys/soakCrawlers) // of each page the one that is stored; 0: none
	for n := 0; ctx.Err() == nil; {
		size := 1
		if r.IntN(40) == 0 {
			size = min([]int{8, 64, 256}[r.IntN(3)], len(versions)-n)
		}
		var visits []visit
		for i := n; i < n+size; i++ {
			v := visit{soakKey(crawler, i), i, max(int(versions[i]), 1), client.Unchanged}
			switch c := r.IntN(100); {
			case versions[i] == 0:
				v.want = client.New
			case c < 4:
				if deleted, err := s.client.Delete(ctx, v.key); err != nil || deleted != 1 {
					return fmt.Errorf("delete %s: %d, %w", v.key, deleted, err)
				}
				s.requests.Add(1)
				v.want = client.New
			case c < 15:
				v.version, v.want = v.version%200+1, client.Changed
			}
			versions[i] = uint8(v.version)
			visits = append(visits, v)
			if r.IntN(8) == 0 {
				visits = append(visits, visit{v.key + "/mirror", i, v.version, client.Duplicate})
			}
		}
		verdicts, err := s.check(ctx, crawler, visits)
		if err != nil {
			return err
		}
		for i, v := range verdicts {
			if v.Status != visits[i].want || v.Status == client.Duplicate && v.Of.Key != visits[i-1].key {
				return fmt.Errorf("%+v is %+v", visits[i], v)
			}
		}
		if r.IntN(4) == 0 {
			if err := s.ask(ctx, visits[0].key, &verdicts[0]); err != nil {
				return err
			}
		}
		if n += size; n == len(versions) {
			n = 0
		}
	}
	return nil
}

// check checks pages, one alone or many together. Every other crawler makes the fingerprints itself.
func (s *soak) check(ctx context.Context, crawler int, visits []visit) (verdicts []client.Verdict, err error) {
	var pages []client.Page
	var documents []client.Document
	for i := range visits {
		if crawler%2 == 0 {
			pages = append(pages, visits[i].page(crawler))
		} else {
			documents = append(documents, visits[i].document(crawler))
		}
	}
	switch {
	case documents != nil:
		verdicts, err = s.client.CheckDocuments(ctx, documents)
	case len(pages) == 1:
		verdicts = make([]client.Verdict, 1)
		verdicts[0], err = s.client.Check(ctx, pages[0])
	default:
		verdicts, err = s.client.CheckBatch(ctx, pages)
	}
	s.requests.Add(int64(1 + (len(visits)-1)/256))
	s.done.Add(int64(len(verdicts)))
	return verdicts, err
}

// ask reads a page that was checked, and finds it by its fingerprints.
func (s *soak) ask(ctx context.Context, key string, v *client.Verdict) error {
	d, found, err := s.client.Get(ctx, key)
	if err != nil || !found || v.Status == client.Unchanged && d.Signature() != v.Of.Signature() {
		return fmt.Errorf("get %s: %+v, %w", key, d, err)
	}
	matches, err := s.client.Query(ctx, client.Query{Signature: d.Signature(), Limit: 2})
	if err != nil || len(matches) != 1 || matches[0].Key != key {
		return fmt.Errorf("query %s: %+v, %w", key, matches, err)
	}
	s.requests.Add(2)
	return nil
}

// look reads what people and Prometheus do.
func (s *soak) look(ctx context.Context) error {
	a, b := soakKey(0, 1), soakKey(1, 2)
	for n := 0; ctx.Err() == nil; n++ {
		path := []string{"/metrics", "/", "/v1/stats", "/compare?a=" + url.QueryEscape(a) + "&b=" + url.QueryEscape(b), "/metrics", "/search?q=" + a, "/v1/explain?key=" + url.QueryEscape(a), "/groups?host=host3.example", "/healthz", "/nothing"}[n%10]
		r, err := http.Get(s.server.address + path)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode >= 500 && r.StatusCode != http.StatusServiceUnavailable { // a page may find another one in its place
			return fmt.Errorf("%s: %s, %w", path, r.Status, err)
		}
		s.requests.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// disturb sends what is broken, and goes away where it should not.
func (s *soak) disturb(ctx context.Context) error {
	const lines = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
	line := `{"key":"cut","text":"words that are never complete"}` + "\n"
	chunked := lines + "Transfer-Encoding: chunked\r\n\r\n"
	broken := []string{
		"", "POST /v1/ch", lines + "Content-Length: 9000\r\n\r\n" + line, chunked + "zzz\r\n", chunked + fmt.Sprintf("%x\r\n%s\r\n", len(line), line), chunked + fmt.Sprintf("%x\r\n%s", 1<<30, line),
		"\x16\x03\x01\r\n\r\n", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 300<<10) + "\r\n\r\n", "GET /metrics HTTP/1.0\r\n\r\n", lines + "Content-Length: 4\r\n\r\n{]}\n",
	}
	var held []net.Conn // half-open for a while
	defer func() {
		for _, conn := range held {
			conn.Close()
		}
	}()
	for n := 0; ctx.Err() == nil; n++ {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.server.address, "http://"))
		if err != nil {
			return err
		}
		io.WriteString(conn, broken[n%len(broken)])
		if held = append(held, conn); len(held) > 30 {
			held[0].Close()
			held = held[1:]
		}
		gone, cancel := context.WithTimeout(ctx, time.Duration(n%8)*time.Millisecond)
		_, err = s.client.CheckBatch(gone, []client.Page{{URL: "gone", Body: []byte("words of someone who goes away")}, {URL: "away", Body: []byte("other words, of the same")}})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return err
		}
		s.requests.Add(2)
		time.Sleep(30 * time.Millisecond)
	}
	return nil
}

// maintain packs the index and makes checkpoints, a dozen times in all.
func (s *soak) maintain(ctx context.Context) error {
	for n := int64(1); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
		if s.done.Load()*12 < n*int64(s.documents) {
			continue
		}
		n++
		name := strconv.FormatInt(n, 10)
		err := s.post(ctx, "/v1/checkpoint?name="+name)
		if err == nil {
			err = errors.Join(os.RemoveAll(filepath.Join(s.checkpoints, name)), s.post(ctx, "/v1/compact"))
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// post starts a task and waits for its end.
func (s *soak) post(ctx context.Context, path string) error {
	task, _, _ := strings.Cut(path, "?")
	var state struct{ State, Error string }
	for method, to := http.MethodPost, path; ; method, to = http.MethodGet, task {
		r, err := http.NewRequestWithContext(ctx, method, s.server.address+to, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		err = json.NewDecoder(answer.Body).Decode(&state)
		answer.Body.Close()
		if err != nil || state.State != "running" && state.State != "done" {
			return fmt.Errorf("%s: %s: %s, %v", to, answer.Status, state.Error, err)
		}
		if state.State == "done" {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// soakFigures are what is looked at, as /metrics has them.
var soakFigures = []string{"process_resident_memory_bytes", "go_goroutines", "process_open_fds", "neardup_disk_bytes", "neardup_documents", "neardup_live_changes"}

// sample returns the figures of now.
func (s *soak) sample() (figures []float64, err error) {
	r, err := http.Get(s.server.address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	figures = make([]float64, len(soakFigures))
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if i := slices.Index(soakFigures, name); i >= 0 {
			if figures[i], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	return figures, nil
}

// watch samples until all is done, and returns for each quarter of the documents the largest of each figure.
func (s *soak) watch() (quarters [4][]float64, err error) {
	for i := range quarters {
		quarters[i] = make([]float64, len(soakFigures))
	}
	for last, tick := int64(0), time.NewTicker(100*time.Millisecond); ; <-tick.C {
		quarter := s.done.Load() * 4 / int64(s.documents)
		if quarter > last {
			s.Logf("%d requests, %d documents: %.0f", s.requests.Load(), s.done.Load(), quarters[last])
			last = quarter
		}
		if quarter > 3 {
			return quarters, nil
		}
		figures, err := s.sample()
		if err != nil {
			return quarters, err
		}
		for i, v := range figures {
			quarters[quarter][i] = max(quarters[quarter][i], v)
		}
		if s.over.Err() != nil {
			return quarters, errors.New("it ended early")
		}
	}
}

// What a crawler of 100 pages a second sends in four hours, to a server with a cache of 64 MiB, among people who look, broken
// requests and clients that go away: each verdict is right, and the server takes no more in the last quarter than in
// the second. The index has as many documents then as before, its caches are full, and it is packed three times
// in each quarter; so nothing has a reason to grow.
func TestServeSoak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory of a process is read on Linux only")
	}
	dir := t.TempDir()
	s := &soak{T: t, checkpoints: dir, documents: 12_000, keys: 2_400}
	switch {
	case testenv.Long():
		s.documents, s.keys = 1_440_000, 240_000
	case testenv.Race || testing.Short() || os.Getenv("NEARDUP_CI") == "":
		s.documents, s.keys = 4_000, 1_200
	}
	s.server = startServe(t, freeAddress(t), "--index", dir+"/ix", "--checkpoints", dir, "--cache", "64MiB")
	var err error
	if s.client, err = client.Open(t.Context(), s.server.address, nil); err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.over = ctx
	var wg sync.WaitGroup
	begin := func(do func(context.Context) error) {
		wg.Go(func() {
			if err := do(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
				cancel()
			}
		})
	}
	begun := time.Now()
	for crawler := range soakCrawlers {
		begin(func(ctx context.Context) error { return s.crawl(ctx, crawler) })
	}
	begin(s.look)
	begin(s.disturb)
	begin(s.maintain)
	quarters, err := s.watch()
	cancel()
	wg.Wait()
	must(t, err)
	t.Logf("%d requests, %d documents, %v", s.requests.Load(), s.done.Load(), time.Since(begun).Round(time.Second))
	more := map[string]float64{"process_resident_memory_bytes": 64 << 20, "go_goroutines": 40, "process_open_fds": 40, "neardup_disk_bytes": 64 << 20}
	if testenv.Long() { // nothing else is still filling up
		more["process_resident_memory_bytes"], more["neardup_disk_bytes"] = 16<<20, 16<<20
	}
	for i, name := range soakFigures {
		t.Logf("%-30s %12.0f %12.0f %12.0f %12.0f", name, quarters[0][i], quarters[1][i], quarters[2][i], quarters[3][i])
		if margin, judged := more[name]; judged && !testenv.Race && quarters[3][i] > quarters[1][i]*1.1+margin {
			t.Errorf("%s grows", name)
		}
	}
	if code := s.server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d: %s", code, s.server.said)
	}
	mustRun(t, "verify", "--index", dir+"/ix")
}
