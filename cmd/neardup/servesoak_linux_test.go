package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/internal/testing/testenv"
	"golang.org/x/sync/errgroup"
)

// soakPage returns a version of the n-th page of a crawler, with random words.
func soakPage(crawler, n, version int) client.Page {
	r := rand.New(rand.NewPCG(uint64(crawler)<<40|uint64(n), uint64(version)))
	var body strings.Builder
	body.WriteString("<!doctype html><title>A page</title><body><nav><a href=/>Home</a></nav><p>")
	for range 70 {
		fmt.Fprintf(&body, "w%d ", r.IntN(6000))
	}
	return client.Page{URL: fmt.Sprintf("https://host%d.example/%d/%d", n%97, crawler, n),
		ContentType: "text/html; charset=utf-8", Body: []byte(body.String())}
}

// soak checks the pages of one crawler in several rounds, until all crawlers together have checked
// enough documents. Most pages are unchanged, and some have changed. Some have expired and are
// deleted first, and some have a mirror. The crawler remembers which versions are stored, so that
// it knows the expected verdicts.
func soak(
	ctx context.Context, c *client.Client, crawler, keys int, done *atomic.Int64, enough int64,
) error {
	r := rand.New(rand.NewPCG(uint64(crawler), 9))
	versions := make([]int, keys) // the stored version of each page; 0 if none
	size := 0
	for n := 0; done.Load() < enough; n = (n + size) % keys {
		if size = 1; r.IntN(40) == 0 {
			size = min([]int{8, 64, 256}[r.IntN(3)], keys-n)
		}
		var pages []client.Page
		var want []client.Status
		for i := n; i < n+size; i++ {
			status := client.Unchanged
			switch chance := r.IntN(100); {
			case versions[i] == 0:
				versions[i], status = 1, client.New
			case chance < 4:
				url := soakPage(crawler, i, versions[i]).URL
				if deleted, err := c.Delete(ctx, url); err != nil || deleted != 1 {
					return fmt.Errorf("delete %s: %d, %w", url, deleted, err)
				}
				status = client.New
			case chance < 15:
				versions[i]++
				status = client.Changed
			}
			page := soakPage(crawler, i, versions[i])
			pages, want = append(pages, page), append(want, status)
			if r.IntN(8) == 0 {
				page.URL += "/mirror"
				pages, want = append(pages, page), append(want, client.Duplicate)
			}
		}
		verdicts, err := c.CheckBatch(ctx, pages)
		if err != nil {
			return err
		}
		done.Add(int64(len(verdicts)))
		for i, v := range verdicts {
			if v.Status != want[i] || v.Status == client.Duplicate && v.Of.Key != pages[i-1].URL {
				return fmt.Errorf("%s is %+v, want %s", pages[i].URL, v, want[i])
			}
		}
	}
	return nil
}

// runTask starts a task of a server and waits for its end.
func runTask(server *served, path, query string) error {
	r, err := http.Post(server.address+path+query, "", nil)
	for ; err == nil; r, err = http.Get(server.address + path) {
		var task struct{ State string }
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if err := json.Unmarshal(text, &task); err != nil || task.State == "failed" {
			return fmt.Errorf("%s: %s, %v", path, text, err)
		}
		if task.State == "done" {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// memoryOf returns the resident memory of a process, in bytes, or 0 if the process has ended.
func memoryOf(cmd *exec.Cmd) (kib int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	_, value, _ := strings.Cut(string(status), "VmRSS:")
	fmt.Sscan(value, &kib)
	return kib << 10
}

// TestServeSoak sends a server as many pages as a crawler with 100 pages per second sends in four
// hours. Each verdict must be right. The server must not take more memory in the last quarter
// than in the second one. By then the caches are full, the index has its final size, and it is
// compacted and copied three times per quarter.
func TestServeSoak(t *testing.T) {
	const crawlers, steps = 12, 12
	documents := int64(testenv.Number(4_000, 4_000, 12_000, 1_440_000))
	margin := testenv.Number(64, 64, 64, 16) << 20 // caches still grow if there are few documents
	dir := t.TempDir()
	server := startServe(t, "--index", dir+"/ix", "--checkpoints", dir, "--cache", "64MiB")
	c, err := client.Open(t.Context(), server.address, nil)
	must(t, err)
	defer c.Close()
	var done atomic.Int64
	group, ctx := errgroup.WithContext(t.Context())
	for crawler := range crawlers {
		group.Go(func() error {
			return soak(ctx, c, crawler, int(documents)/6/crawlers, &done, documents)
		})
	}
	group.Go(func() error {
		for step := int64(0); step < steps && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			if done.Load()*steps < documents*step {
				continue
			}
			step++
			name := fmt.Sprint("copy", step)
			if err := errors.Join(runTask(server, "/v1/checkpoint", "?name="+name),
				os.RemoveAll(filepath.Join(dir, name)),
				runTask(server, "/v1/compact", "")); err != nil {
				return err
			}
		}
		return nil
	})
	var quarters [4]int // the largest memory in each
	for ctx.Err() == nil && done.Load() < documents {
		quarter := &quarters[min(done.Load()*4/documents, 3)]
		*quarter = max(*quarter, memoryOf(server.cmd))
		time.Sleep(50 * time.Millisecond)
	}
	must(t, group.Wait())
	t.Logf("resident memory: %d", quarters)
	if !testenv.Race && quarters[3] > quarters[1]*11/10+margin {
		t.Error("the memory grows")
	}
	if code := server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d: %s", code, server.said)
	}
	mustRun(t, "verify", "--index", dir+"/ix")
}
