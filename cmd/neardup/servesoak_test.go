package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// soak is a server and the crawlers that share it. Each crawler has pages of its own and
// remembers which versions are stored, so that it knows the expected verdicts.
type soak struct {
	server      *served
	client      *client.Client
	checkpoints string // folder
	documents   int    // number of documents to check
	keys        int    // number of pages, which are crawled repeatedly

	done atomic.Int64 // documents checked
}

const soakCrawlers = 12

// visit is a version of the n-th page of a crawler, with the expected verdict.
type visit struct {
	key        string
	n, version int
	want       neardup.Status
}

func soakKey(crawler, n int) string {
	return fmt.Sprintf("https://host%d.example/%d/%d", n%97, crawler, n)
}

// page returns a page with random words.
func (v *visit) page(crawler int) client.Page {
	r := rand.New(rand.NewPCG(uint64(crawler)<<40|uint64(v.n), uint64(v.version)))
	var body bytes.Buffer
	body.WriteString("<!doctype html><title>A page</title><body><nav><a href=/>Home</a></nav><p>")
	for range 70 {
		fmt.Fprintf(&body, "%s%d ", "qwertzuiopasdfghjkl"[r.IntN(16):][:3], r.IntN(400))
	}
	return client.Page{URL: v.key, ContentType: "text/html; charset=utf-8", Body: body.Bytes()}
}

// crawl checks the pages of one crawler in several rounds. Most pages are unchanged, and some
// have changed. Some have expired and are deleted first, and some have a mirror.
func (s *soak) crawl(ctx context.Context, crawler int) error {
	r := rand.New(rand.NewPCG(uint64(crawler), 9))
	versions := make([]uint8, s.keys/soakCrawlers) // the stored version of each page; 0 if none
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
		pages := make([]client.Page, len(visits))
		for i := range visits {
			pages[i] = visits[i].page(crawler)
		}
		verdicts, err := s.client.CheckBatch(ctx, pages)
		if err != nil {
			return err
		}
		s.done.Add(int64(len(verdicts)))
		for i, v := range verdicts {
			if v.Status != visits[i].want || v.Status == client.Duplicate &&
				v.Of.Key != visits[i-1].key {
				return fmt.Errorf("%+v is %+v", visits[i], v)
			}
		}
		if n += size; n == len(versions) {
			n = 0
		}
	}
	return nil
}

// maintain compacts the index and makes checkpoints, a dozen times in all.
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
			err = errors.Join(os.RemoveAll(filepath.Join(s.checkpoints, name)),
				s.post(ctx, "/v1/compact"))
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

// resident returns the resident memory of the server.
func (s *soak) resident() (bytes float64, err error) {
	r, err := http.Get(s.server.address + "/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	_, value, _ := strings.Cut(string(text), "\nprocess_resident_memory_bytes ")
	value, _, _ = strings.Cut(value, "\n")
	if err == nil {
		bytes, err = strconv.ParseFloat(value, 64)
	}
	return bytes, err
}

// watch returns the largest resident memory in each quarter of the documents.
func (s *soak) watch(ctx context.Context) (quarters [4]float64, err error) {
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		quarter := s.done.Load() * 4 / int64(s.documents)
		if quarter > 3 || ctx.Err() != nil {
			return quarters, ctx.Err()
		}
		bytes, err := s.resident()
		if err != nil {
			return quarters, err
		}
		quarters[quarter] = max(quarters[quarter], bytes)
	}
}

// TestServeSoak sends a server as many pages as a crawler with 100 pages per second sends in four
// hours. Each verdict must be right. The server must not take more memory in the last quarter
// than in the second one. By then the caches are full, the index has its final size, and it is
// compacted three times per quarter.
func TestServeSoak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory of a process is read on Linux only")
	}
	dir := t.TempDir()
	s := &soak{checkpoints: dir, documents: 12_000, keys: 2_400}
	switch {
	case testenv.Long():
		s.documents, s.keys = 1_440_000, 240_000
	case testenv.Race || testing.Short() || os.Getenv("NEARDUP_CI") == "":
		s.documents, s.keys = 4_000, 1_200
	}
	s.server = startServe(t, freeAddress(t), "--index", dir+"/ix", "--checkpoints", dir,
		"--cache", "64MiB")
	var err error
	if s.client, err = client.Open(t.Context(), s.server.address, nil); err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	begin := func(do func(context.Context) error) {
		wg.Go(func() {
			if err := do(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
				cancel()
			}
		})
	}
	for crawler := range soakCrawlers {
		begin(func(ctx context.Context) error { return s.crawl(ctx, crawler) })
	}
	begin(s.maintain)
	quarters, err := s.watch(ctx)
	cancel()
	wg.Wait()
	must(t, err)
	t.Logf("resident memory: %.0f", quarters)
	margin := 64e6
	if testenv.Long() { // otherwise caches still grow
		margin = 16e6
	}
	if !testenv.Race && quarters[3] > quarters[1]*1.1+margin {
		t.Error("the memory grows")
	}
	if code := s.server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d: %s", code, s.server.said)
	}
	mustRun(t, "verify", "--index", dir+"/ix")
}
